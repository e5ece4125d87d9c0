import { formatThousands } from '../../base/format-quantity.ts';
import { addDays, formatDay, formatIsoUtc } from '../../base/time.ts';
import { type Column, type DatasetName, datasetNames, datasets } from '../format/datasets.ts';
import { type Manifest, sumFileTotals } from '../format/manifest.ts';

const datasetDescriptions: Record<DatasetName, string> = {
  ticks: 'every tick once: one row for each (symbol, t)',
  symbols: 'one row a symbol, as last known',
  markets: 'what the market lists said, day by day; a new row begins when the state of a market changes',
  orderbooks:
    'snapshots of the order books of YES, one row a level; where a venue tells bids of both outcomes alone, an ask is 1 minus a bid for NO',
  candles_1h: 'open, high, low, close of each hour that has ticks',
  candles_1d: 'open, high, low, close of each UTC day that has ticks',
  coverage: 'which windows were asked and answered: inside them an absence is a fact, outside nothing is known',
  conflicts: 'prices that lost against another for the same (symbol, t)',
};

const columnTypeNames: Record<Column['type'], string> = {
  string: 'string',
  timestamp: 'timestamp(ms, UTC)',
  double: 'double',
  int32: 'int32',
  int64: 'int64',
  boolean: 'boolean',
  strings: 'list of string',
};

/** The units of columns that are numbers, by name; a time's is the millisecond. */
const columnUnits: Readonly<Record<string, string>> = {
  p: 'fraction of 1',
  open: 'fraction of 1',
  high: 'fraction of 1',
  low: 'fraction of 1',
  close: 'fraction of 1',
  price: 'fraction of 1',
  kept: 'fraction of 1',
  dropped: 'fraction of 1',
  outcome: 'fraction of 1',
  confidence: '0 to 1',
  covered: '0 to 1',
  ticks: 'ticks',
  level: 'levels',
  quantity: "the venue's",
  grain_ms: 'ms',
};

/** The unit of a column's values; empty where they have none. */
export const findColumnUnit = ({ name, type }: Column): string =>
  type === 'timestamp'
    ? 'ms since 1970, UTC'
    : type === 'double' || type.startsWith('int')
      ? (columnUnits[name] ?? '')
      : '';

/** The archive's own README.md: what is there, from when to when, what is missing, and how to load it. */
export function formatReadme(manifest: Manifest): string {
  const newest = manifest.datasets.ticks.files.at(-1)?.date ?? formatDay(manifest.created_at);
  return `# Prediction-market archive

Prices of prediction markets, every tick once, as day-partitioned Parquet.
Upstream \`${manifest.upstream}\`, generation ${manifest.generation}, published ${formatIsoUtc(manifest.created_at)} by ${manifest.writer}.

## What is there

${formatDaySpan(manifest)}

| dataset | rows | size | what it is |
| --- | ---: | ---: | --- |
${datasetNames.map((name) => formatDatasetRow(manifest, name)).join('\n')}

\`date=YYYY-MM-DD\` is the UTC day of a row's own time, whenever it was fetched; \`part-NN\` goes by a hash of the symbol:
the first four bytes of the sha256 of its UTF-8 text, big-endian, modulo \`parts\` of \`manifest.json\`. Whoever reads one symbol's
day is served twice as fast by that file alone. \`manifest.json\` lists every file with its sha256, and
\`sha256sum -c SHA256SUMS\` checks them.

## What is missing

${formatMissingDays(manifest).join('\n')}

**Empty and missing are different.** \`coverage\` says which windows of a symbol's time were asked for and answered. Inside
them an absence of ticks is a fact: the market was quiet. Outside of them nothing is known. In DuckDB, with views.sql:

\`\`\`sql
SELECT * FROM gaps ORDER BY symbol, t_from;                              -- what is not covered of each symbol's life
SELECT date, count(*) FROM ticks WHERE is_covered(symbol, t - INTERVAL 1 HOUR) GROUP BY date ORDER BY date;
SELECT * FROM candles_1h WHERE date = '${newest}' AND covered = 1;       -- hours that are whole
\`\`\`

${formatLoadingGuide(newest)}
## Columns

Prices are a fraction of 1: 0.37 is 37 cents for a claim on 1 dollar, or 37 %. Strings sort by their UTF-8 bytes.
Datasets with days have a \`date\` too, from the folder's name.

${datasetNames.map(formatColumnTable).join('\n\n')}
`;
}

function formatDaySpan({ days, watermark, reached }: Manifest): string {
  const known = Object.keys(days);
  const first = known[0];
  if (first === undefined) return '- No day yet.';
  return [
    `- Days: **${first} to ${known.at(-1)}** (UTC).`,
    `- Every live symbol is covered without a hole up to: ${reached === null ? 'no symbol is live' : `**${formatIsoUtc(reached)}**`}${watermark === null || watermark === reached ? '' : `; with evidence for every window up to ${formatIsoUtc(watermark)}`}.`,
  ].join('\n');
}

function formatDatasetRow({ datasets: published }: Manifest, name: DatasetName): string {
  const { files } = published[name];
  const { rows, bytes } = sumFileTotals(files);
  const size = bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
  const note = files.length === 0 ? ' (none yet, so there is no folder)' : '';
  return `| ${name} | ${formatThousands(rows)} | ${files.length === 0 ? '' : size} | ${datasetDescriptions[name]}${note} |`;
}

/** Days, or stretches of them, that are named at most; the manifest has the rest. */
const namedDaysMax = 10;

function formatMissingDays({ days, lost = [] }: Manifest): string[] {
  const known = Object.keys(days);
  const absent: string[] = [];
  for (const [i, day] of known.entries()) {
    const [first, last] = [addDays(day, 1), addDays(known[i + 1] ?? day, -1)];
    if (first <= last) absent.push(first === last ? first : `${first} to ${last}`);
  }
  const provisional = Object.keys(days).filter((date) => days[date]!.state === 'provisional');
  const excepted = Object.entries(days).filter(([, { state }]) => state === 'complete_with_exceptions');
  const open = Object.entries(days).filter(([, { state }]) => state === 'incomplete');
  const said = open.map(([date, { covered, expected }]) =>
    covered === expected ? `${date} (not settled yet)` : `${date} (${covered} of ${expected} symbols covered)`,
  );
  return [
    `- Days of which there is nothing: ${formatDayList(absent)}`,
    `- Days that are incomplete: ${formatDayList(said)}`,
    `- Days that are provisional, as nothing was asked again of some window: ${formatDayList(provisional)}`,
    ...(excepted.length === 0
      ? []
      : [
          `- Days that are complete with exceptions: ${formatDayList(excepted.map(([date, day]) => `${date} (${day.exceptions})`))}`,
        ]),
    ...(lost.length === 0
      ? []
      : [`- Windows whose ticks were published once and were lost: ${lost.length}; \`oddslake gaps\` names them.`]),
    '- The windows that are missing of each symbol, between the first and the last moment that is covered or has a tick: `oddslake gaps`, or the view `gaps` below; of what is outside of that: `oddslake gaps --from DAY --to DAY`.',
  ];
}

function formatDayList(days: readonly string[]): string {
  if (days.length === 0) return 'none.';
  const more = days.length > namedDaysMax ? `${days.length - namedDaysMax} earlier ones, ` : '';
  return `${more}${days.slice(-namedDaysMax).join(', ')}.`;
}

function formatColumnTable(name: DatasetName): string {
  const lines = datasets[name].map((c) => {
    const nullable = c.nullable ? 'yes' : '';
    return `| ${c.name} | ${columnTypeNames[c.type]} | ${nullable} | ${findColumnUnit(c)} | ${c.meaning} |`;
  });
  return `### ${name}\n\n| column | type | null | unit | meaning |\n| --- | --- | --- | --- | --- |\n${lines.join('\n')}`;
}

/** How to load the archive, in Markdown; `day` is one that has ticks, YYYY-MM-DD. Everything runs in its folder. */
export const formatLoadingGuide = (day: string): string => `## Load it

Every example runs in this folder. **Scan afresh after a publish**: a file keeps its name and is replaced whole.

### DuckDB

\`views.sql\` has each dataset as a view, sets the time zone to UTC, and adds what is hard to get right by hand. On the command
line \`duckdb -init views.sql\`, in Python as below; DuckDB 1.5 or newer.

\`\`\`python
import duckdb

duckdb.sql(open("views.sql").read())
duckdb.sql("SELECT symbol, count(*) AS ticks FROM ticks WHERE date = '${day}' GROUP BY symbol").show()
\`\`\`

\`\`\`sql
-- Candles of any step; those of 1h and 1d are published: candles_1h, candles_1d.
SELECT * FROM candles('15m', since := '${day}') LIMIT 10;
-- Every step, the last close carried over: covered tells a quiet step (1) from a hole (0).
SELECT * FROM candles_filled('4h', '${day}', DATE '${day}' + 1) LIMIT 10;
-- Every tick once, with the state of its market as of its time.
SELECT symbol, t, p, category, is_active FROM ticks_with_markets WHERE date = '${day}' LIMIT 10;
\`\`\`

Name the days you want (\`date\`, or both ends in the macros): files of other days are not opened. DuckDB opens a file twice
in one query and can catch a replacement in between; while a publish is under way read with \`oddslake sql\`, which has the
same views and holds on to one generation.

### pandas

\`\`\`python
import pandas as pd

ticks = pd.read_parquet("ticks/", filters=[("date", "=", "${day}")])    # without filters: every day
symbols = pd.read_parquet("symbols/")
candles = pd.read_parquet("candles_1d/")
close = candles.pivot(index="t", columns="symbol", values="close")
\`\`\`

### polars

\`\`\`python
import polars as pl

ticks = pl.scan_parquet("ticks/", hive_partitioning=True)                   # the folder, no glob: date is a column then
day = ticks.filter(pl.col("date") == pl.lit("${day}").str.to_date()).collect()
\`\`\`

### PyArrow

\`\`\`python
import pyarrow.dataset as ds

ticks = ds.dataset("ticks/", partitioning="hive")
day = ticks.to_table(filter=ds.field("date") == "${day}", columns=["symbol", "t", "p"])
\`\`\`

### Spark

\`\`\`python
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
ticks = spark.read.parquet("ticks/")                                        # date is a partition column
ticks.where("date = '${day}'").groupBy("symbol").count().show()
\`\`\`

### Ticks with their markets

A market has a new row in \`markets\` whenever its state changed, and at least one a day. Joined on the symbol alone every
tick would come back many times; \`BETWEEN first_seen AND last_seen\` loses those between two polls. Join **as of the tick's
time**: the last row that began at or before it. Ticks from before the first poll of their market have none: what it was
then is not known. (Its question, source and canonical_id are in \`symbols\`.) In DuckDB \`ticks_with_markets\` does this and
takes one market of a symbol that stands in several; elsewhere:

\`\`\`python
import pandas as pd
import polars as pl

ticks = pd.read_parquet("ticks/").sort_values("t")
markets = pd.read_parquet("markets/").dropna(subset=["symbol"]).sort_values("first_seen").drop(columns="date")
joined = pd.merge_asof(ticks, markets, left_on="t", right_on="first_seen", by="symbol")

ticks = pl.scan_parquet("ticks/", hive_partitioning=True).sort("t")
markets = pl.scan_parquet("markets/", hive_partitioning=True).sort("first_seen").drop("date")
joined = ticks.join_asof(markets, left_on="t", right_on="first_seen", by="symbol", check_sortedness=False).collect()
\`\`\`
`;
