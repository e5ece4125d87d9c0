import { formatNumber } from '../../base/format-quantity.ts';
import { addDays, formatDay, formatIsoUtc } from '../../base/time.ts';
import { type DayState, groupOpenDays, listOpenDays } from '../../contract/day-reasons.ts';
import { type Column, type DatasetName, datasetNames, datasets } from '../format/datasets.ts';
import { listFilesWithRows, type Manifest, readOwner, sumFileSizes } from '../format/manifest.ts';

/** The types as the documentation of an archive writes them. */
export const columnTypeNames: Record<Column['type'], string> = {
  string: 'string',
  timestamp: 'timestamp(ms, UTC)',
  timestamp_us: 'timestamp(us, UTC)',
  double: 'double',
  int32: 'int32',
  int64: 'int64',
  boolean: 'boolean',
  strings: 'list of string',
};

/** The unit of a column; empty if it has none. */
const formatColumnUnit = ({ type, unit = '' }: Column): string =>
  type === 'timestamp' ? 'ms since 1970, UTC' : type === 'timestamp_us' ? 'us since 1970, UTC' : unit;

/** Names the service, or the sources and how they qualify their symbols. */
function formatOwnerLine(manifest: Manifest): string {
  const { upstream, sources } = readOwner(manifest);
  if (sources.length === 0) return `Upstream \`${upstream}\``;
  const names = sources.map(({ name, upstream: from }) => `\`${name}\`${from === '' ? '' : ` (${from})`}`).join(', ');
  return `A symbol or canonical_id begins with its source and a colon, as in \`${sources[0]!.name}:…\`. Sources ${names}`;
}

/** Formats the archive's README.md: its contents, its time range, its missing data, and how to load it. */
export function formatReadme(manifest: Manifest): string {
  const newest = findNewestDay(manifest, 'ticks') ?? formatDay(manifest.created_at);
  return `# Prediction-market archive

This archive contains prices of prediction markets in Parquet files, partitioned by day. Each tick is stored once.
${formatOwnerLine(manifest)}, generation ${manifest.generation}, published ${formatIsoUtc(manifest.created_at)} by ${manifest.writer}.

## Contents

${formatDaySpan(manifest)}

| dataset | rows | size | description |
| --- | ---: | ---: | --- |
${datasetNames.map((name) => formatDatasetRow(manifest, name)).join('\n')}

\`date=YYYY-MM-DD\` is the UTC day of a row's own time, not the day on which it was fetched. Each \`part-NN\` of a day has the
symbols of a range, and no ranges overlap: all rows of one symbol and day are in one file. Readers skip the other files by their
statistics. \`manifest.json\` lists every file with its sha256, \`symbol_from\` and \`symbol_to\`, and
\`sha256sum -c SHA256SUMS\` checks them.

## Missing data

${formatMissingDays(manifest).join('\n')}

**Empty and missing are different.** \`coverage\` lists the windows of each symbol that were fetched. If such a window has no
ticks, the market was quiet. Outside these windows ticks may be missing. In DuckDB, with views.sql:

\`\`\`sql
SELECT date, state, expected, covered, reason FROM days ORDER BY date;   -- how complete each day is, and why
SELECT * FROM gaps ORDER BY symbol, t_from;                              -- uncovered windows of each symbol's lifetime
SELECT date, count(*) FROM ticks WHERE is_covered(symbol, t - INTERVAL 1 HOUR) GROUP BY date ORDER BY date;
SELECT * FROM candles_1h WHERE date = '${newest}' AND covered = 1;       -- fully covered hours
\`\`\`

${formatLoadingGuide(newest, findNewestDay(manifest, 'orderbooks'), findNewestDay(manifest, 'quotes'))}
## Columns

Prices are fractions of 1: 0.37 is 37 cents for a claim on 1 dollar, or 37 %. Strings sort by their UTF-8 bytes.
Datasets with day folders also have a \`date\` column, from the folder's name.

${datasetNames.map(formatColumnTable).join('\n\n')}
`;
}

const findNewestDay = (manifest: Manifest, name: DatasetName): string | null =>
  listFilesWithRows(manifest, name).at(-1)?.date ?? null;

function formatDaySpan({ days, watermark, reached }: Manifest): string {
  const known = Object.keys(days);
  const first = known[0];
  if (first === undefined) return '- There is no day yet.';
  return [
    `- Days: **${first} to ${known.at(-1)}** (UTC).`,
    `- Every live symbol is covered without a gap up to: ${reached === null ? 'no symbol is live' : `**${formatIsoUtc(reached)}**`}${watermark === null || watermark === reached ? '' : `; all windows are proven up to ${formatIsoUtc(watermark)}`}.`,
  ].join('\n');
}

function formatDatasetRow({ datasets: published }: Manifest, name: DatasetName): string {
  const { files } = published[name];
  const { rows, bytes } = sumFileSizes(files);
  const size = bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
  const note =
    files.length === 0 ? ' (none yet, so there is no folder)' : rows === 0 ? ' (none yet: its file has no rows)' : '';
  return `| ${name} | ${formatNumber(rows)} | ${rows === 0 ? '' : size} | ${datasets[name].description}${note} |`;
}

/** Maximum number of days, or ranges of days, in a list. The manifest lists all days. */
const namedDaysMax = 10;

function formatMissingDays({ days, lost = [] }: Manifest): string[] {
  const known = Object.keys(days);
  const absent: string[] = [];
  for (const [i, day] of known.entries()) {
    const [first, last] = [addDays(day, 1), addDays(known[i + 1] ?? day, -1)];
    if (first <= last) absent.push(first === last ? first : `${first} to ${last}`);
  }
  const open = groupOpenDays(listOpenDays(Object.entries(days), Number.POSITIVE_INFINITY)).reverse();
  const formatState = (state: DayState['state']): string =>
    formatDayList(open.filter((group) => group.state === state).map((group) => `${group.days} (${group.reason})`));
  const hasExceptions = open.some(({ state }) => state === 'complete_with_exceptions');
  return [
    `- Days without data: ${formatDayList(absent)}`,
    `- Incomplete days: ${formatState('incomplete')}`,
    `- Provisional days (covered, not proven yet): ${formatState('provisional')}`,
    ...(hasExceptions
      ? [`- Complete days with exceptions (all but what cannot be fetched): ${formatState('complete_with_exceptions')}`]
      : []),
    ...(lost.length === 0
      ? []
      : [`- Windows whose published ticks were lost: ${lost.length}; \`oddslake gaps\` lists them.`]),
    '- `oddslake gaps` and the view `gaps` below list the gaps of each symbol in the time range of the archive. For other days, run `oddslake gaps --from DAY --to DAY`.',
  ];
}

function formatDayList(days: readonly string[]): string {
  if (days.length === 0) return 'none.';
  const prefix = days.length > namedDaysMax ? `${days.length - namedDaysMax} earlier ones, ` : '';
  return `${prefix}${days.slice(-namedDaysMax).join(', ')}.`;
}

function formatColumnTable(name: DatasetName): string {
  const lines = datasets[name].columns.map((c) => {
    const nullable = c.nullable ? 'yes' : '';
    return `| ${c.name} | ${columnTypeNames[c.type]} | ${nullable} | ${formatColumnUnit(c)} | ${c.meaning} |`;
  });
  return `### ${name}\n\n| column | type | null | unit | meaning |\n| --- | --- | --- | --- | --- |\n${lines.join('\n')}`;
}

const formatBookQueries = (
  day: string,
): string => `-- The best bid and ask of each order book, and the quantity within 0.03 of them. An empty book is a row too.
SELECT * FROM top_of_book WHERE date = '${day}' LIMIT 10;
SELECT * FROM book_depth(0.03) WHERE date = '${day}' LIMIT 10;
`;

const formatQuoteQueries = (
  day: string,
): string => `-- Mid price and spread of each quote, and each quote with the last tick at or before it.
SELECT * FROM spreads WHERE date = '${day}' LIMIT 10;
SELECT * FROM quotes_with_ticks WHERE date = '${day}' LIMIT 10;
`;

/** Formats the loading instructions, in Markdown. The days have ticks, order books and quotes; YYYY-MM-DD. */
const formatLoadingGuide = (day: string, bookDay: string | null, quoteDay: string | null): string => `## Load it

All examples run in this folder. **Scan the files again after a publish**, because a publish replaces files under the same names.

### DuckDB

\`views.sql\` sets the time zone to UTC and defines a view for each dataset and further views and macros. It requires DuckDB 1.5
or newer. On the command line, run \`duckdb -init views.sql\`. In Python:

\`\`\`python
import duckdb

duckdb.sql(open("views.sql").read())
duckdb.sql("SELECT symbol, count(*) AS ticks FROM ticks WHERE date = '${day}' GROUP BY symbol").show()
\`\`\`

\`\`\`sql
-- Candles of any interval. Candles of 1h and 1d are also published as candles_1h and candles_1d.
SELECT * FROM candles('15m', since := '${day}') LIMIT 10;
-- Every interval; the last close is carried forward. covered is 1 in a quiet interval and 0 in a gap.
SELECT * FROM candles_filled('4h', '${day}', DATE '${day}' + 1) LIMIT 10;
-- Each tick with the state of its market at that time.
SELECT symbol, t, p, category, is_active FROM ticks_with_markets WHERE date = '${day}' LIMIT 10;
${bookDay === null ? '' : formatBookQueries(bookDay)}${quoteDay === null ? '' : formatQuoteQueries(quoteDay)}\`\`\`

If you filter by \`date\`, or pass both ends to the macros, DuckDB opens only the files of these days. DuckDB opens a file twice
within one query, and a publish may replace the file in between. During a publish use \`oddslake sql\`, which has the same views
and reads one generation.

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

PyArrow and pandas copy the text of \`symbol\` for each row. To load many ticks in half the time, read it as categories:
\`pd.read_parquet("ticks/", read_dictionary=["symbol"])\`, or
\`ds.dataset("ticks/", format=ds.ParquetFileFormat(dictionary_columns={"symbol"}), partitioning="hive")\`.

### Spark

\`\`\`python
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
ticks = spark.read.parquet("ticks/")                                        # date is a partition column
ticks.where("date = '${day}'").groupBy("symbol").count().show()
\`\`\`

### Ticks with their markets

\`markets\` has a row for each state of a market, and at least one row for each day on which the market was polled. A join on the
symbol alone repeats each tick for every row of its market. A join with \`BETWEEN first_seen AND last_seen\` loses the ticks
between two polls. Use an **as-of join** on the time of the tick, which selects the latest row with \`first_seen <= t\`. Ticks
before the first poll of their market have nulls, because the state of the market at that time is unknown. (Question, source and
canonical_id are also in \`symbols\`.) In DuckDB, the view \`ticks_with_markets\` is this join; it selects one market for each
symbol. In other tools:

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
