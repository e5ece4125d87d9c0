import { formatThousands } from '../../base/format-quantity.ts';
import { addDays, formatDay, formatIsoUtc } from '../../base/time.ts';
import { type Column, type DatasetName, datasetNames, datasets } from '../format/datasets.ts';
import { type Manifest, sumFileTotals } from '../format/manifest.ts';

const datasetDescriptions: Record<DatasetName, string> = {
  ticks: 'every tick once: one row per (symbol, t)',
  symbols: 'one row per symbol, with its last known state',
  markets: 'the market lists, day by day; a new row begins when the state of a market changes',
  orderbooks:
    'snapshots of the order books of YES, one row per level; if a venue states only bids for both outcomes, an ask is 1 minus a bid for NO',
  candles_1h: 'open, high, low, close of each hour with ticks',
  candles_1d: 'open, high, low, close of each UTC day with ticks',
  coverage: 'the windows that were fetched: inside them the absence of ticks is a fact, outside nothing is known',
  conflicts: 'prices that were not kept, because another one has the same (symbol, t)',
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

/** The units of numeric columns, by name. Times are in milliseconds. */
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

/** The unit of a column's values; empty if they have none. */
export const findColumnUnit = ({ name, type }: Column): string =>
  type === 'timestamp'
    ? 'ms since 1970, UTC'
    : type === 'double' || type.startsWith('int')
      ? (columnUnits[name] ?? '')
      : '';

/** The archive's README.md: its content, its time span, what is missing, and how to load it. */
export function formatReadme(manifest: Manifest): string {
  const newest = manifest.datasets.ticks.files.at(-1)?.date ?? formatDay(manifest.created_at);
  return `# Prediction-market archive

Prices of prediction markets, every tick once, in Parquet files partitioned by day.
Upstream \`${manifest.upstream}\`, generation ${manifest.generation}, published ${formatIsoUtc(manifest.created_at)} by ${manifest.writer}.

## Content

${formatDaySpan(manifest)}

| dataset | rows | size | description |
| --- | ---: | ---: | --- |
${datasetNames.map((name) => formatDatasetRow(manifest, name)).join('\n')}

\`date=YYYY-MM-DD\` is the UTC day of the row's own time, not of the fetch. \`part-NN\` depends on the symbol: the first four bytes of the
SHA-256 of its UTF-8 text, big-endian, modulo \`parts\` of \`manifest.json\`. To read a day of one symbol, open only that file; this takes
half the time. \`manifest.json\` lists every file with its SHA-256, and \`sha256sum -c SHA256SUMS\` checks them.

## What is missing

${formatMissingDays(manifest).join('\n')}

**Empty is not missing.** \`coverage\` lists the windows that were fetched for each symbol. Inside them the absence of ticks is a fact:
the market was quiet. Outside of them nothing is known. In DuckDB, with views.sql:

\`\`\`sql
SELECT * FROM gaps ORDER BY symbol, t_from;                              -- the windows of each symbol that are not covered
SELECT date, count(*) FROM ticks WHERE is_covered(symbol, t - INTERVAL 1 HOUR) GROUP BY date ORDER BY date;
SELECT * FROM candles_1h WHERE date = '${newest}' AND covered = 1;       -- hours that are fully covered
\`\`\`

${formatLoadingGuide(newest)}
## Columns

Prices are fractions of 1: 0.37 is 37 cents for a claim on 1 dollar, or 37 %. Strings sort by their UTF-8 bytes. Datasets with day
folders also have a column \`date\`, from the name of the folder.

${datasetNames.map(formatColumnTable).join('\n\n')}
`;
}

function formatDaySpan({ days, watermark, reached }: Manifest): string {
  const known = Object.keys(days);
  const first = known[0];
  if (first === undefined) return '- There is no day yet.';
  return [
    `- Days: **${first} to ${known.at(-1)}** (UTC).`,
    `- Every live symbol is covered without a gap up to: ${reached === null ? 'no symbol is live' : `**${formatIsoUtc(reached)}**`}${watermark === null || watermark === reached ? '' : `; with proof for every window up to ${formatIsoUtc(watermark)}`}.`,
  ].join('\n');
}

function formatDatasetRow({ datasets: published }: Manifest, name: DatasetName): string {
  const { files } = published[name];
  const { rows, bytes } = sumFileTotals(files);
  const size = bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
  const note = files.length === 0 ? ' (none yet, so there is no folder)' : '';
  return `| ${name} | ${formatThousands(rows)} | ${files.length === 0 ? '' : size} | ${datasetDescriptions[name]}${note} |`;
}

/** The most days, or ranges of days, that are listed; the manifest has the rest. */
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
    `- Days without any data: ${formatDayList(absent)}`,
    `- Incomplete days: ${formatDayList(said)}`,
    `- Provisional days, on which some window is not confirmed yet: ${formatDayList(provisional)}`,
    ...(excepted.length === 0
      ? []
      : [
          `- Days that are complete with exceptions: ${formatDayList(excepted.map(([date, day]) => `${date} (${day.exceptions})`))}`,
        ]),
    ...(lost.length === 0
      ? []
      : [`- Windows with ticks that were published and then lost: ${lost.length}; \`oddslake gaps\` lists them.`]),
    '- Gaps of each symbol between its first and last covered time or tick: `oddslake gaps`, or the view `gaps` below. Gaps outside of that: `oddslake gaps --from DAY --to DAY`.',
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

/** How to load the archive, in Markdown. `day` is a day with ticks, YYYY-MM-DD. All examples run in the archive's folder. */
export const formatLoadingGuide = (day: string): string => `## Load it

Run the examples in this folder. **Scan it again after a publish**: a publish replaces whole files and keeps their names.

### DuckDB

\`views.sql\` defines each dataset as a view, sets the time zone to UTC, and adds views that are hard to write correctly by hand. Use
\`duckdb -init views.sql\` on the command line, or Python as below. It needs DuckDB 1.5 or newer.

\`\`\`python
import duckdb

duckdb.sql(open("views.sql").read())
duckdb.sql("SELECT symbol, count(*) AS ticks FROM ticks WHERE date = '${day}' GROUP BY symbol").show()
\`\`\`

\`\`\`sql
-- Candles of any interval; those of 1h and 1d are published: candles_1h, candles_1d.
SELECT * FROM candles('15m', since := '${day}') LIMIT 10;
-- Every interval, with the last close carried forward: covered tells a quiet interval (1) from a gap (0).
SELECT * FROM candles_filled('4h', '${day}', DATE '${day}' + 1) LIMIT 10;
-- Every tick once, with the state of its market at that time.
SELECT symbol, t, p, category, is_active FROM ticks_with_markets WHERE date = '${day}' LIMIT 10;
\`\`\`

Restrict queries to the days that you need (\`date\`, or both ends in the macros): files of other days are then not opened. DuckDB
opens a file twice within one query and can catch a replacement between the two. While a publish is running, use \`oddslake sql\`,
which has the same views and reads one generation.

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

ticks = pl.scan_parquet("ticks/", hive_partitioning=True)                   # the folder, not a glob, so that date is a column
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

\`markets\` has a new row for a market whenever its state changed, and at least one row a day. A join on the symbol alone returns each
tick many times. A join with \`BETWEEN first_seen AND last_seen\` loses the ticks between two polls. Join **at the time of the tick**:
the last row that began at or before it. Ticks from before the first poll of their market have no such row, because its state at that
time is unknown. (Its question, source and canonical_id are in \`symbols\`.) In DuckDB, \`ticks_with_markets\` does this, and chooses one
market for a symbol that belongs to several. In other tools:

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
