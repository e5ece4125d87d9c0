import { dayMs } from '../../base/window.ts';
import type { LostWindow } from '../format/coverage.ts';
import {
  candleDatasets,
  type DatasetDefinition,
  type DatasetName,
  datasetNames,
  datasets,
  isDated,
  sqlTypes,
} from '../format/datasets.ts';
import { listFilesWithRows, type Manifest } from '../format/manifest.ts';
import { marketDataViews, type ViewDefinition } from './market-data-views.ts';

/** Whether every published ticks file has daily candles, so that views can read the candles instead of the ticks. */
export function hasDailyCandles(manifest: Manifest): boolean {
  const ticks = listFilesWithRows(manifest, 'ticks').length;
  return ticks > 0 && listFilesWithRows(manifest, candleDatasets['1d']).length === ticks;
}

/** Where the files are that views read. */
interface ViewSources {
  /** Comment lines at the start of the file. */
  readonly intro: string;
  /** The argument of read_parquet for a dataset with files, as SQL. */
  formatFiles(dataset: DatasetName): string;
  /** SQL of a relation with the text of the manifest, or of a part that has its days, in the column `content`. */
  readonly manifestText: string;
}

const folderSources: ViewSources = {
  intro: `-- Views of the archive for DuckDB. Start DuckDB in this folder:  duckdb -init views.sql
-- In Python, in this folder:  duckdb.sql(open('views.sql').read())
-- Requires DuckDB 1.5 or newer. In older versions an ASOF LEFT JOIN could lose rows without a match.
-- Every query lists the files again, so the views include days that are published later. During a publish use oddslake sql,
-- which reads one generation.`,
  formatFiles: (name) => quoteSqlString(isDated(name) ? `${name}/date=*/*.parquet` : `${name}/*.parquet`),
  // Not read_json: it refuses a document of more than 16 MB.
  manifestText: "read_text('manifest.json')",
};

/** The days of one generation, for views that read the files of that generation only. */
export const formatDaysText = ({ days }: Manifest): string =>
  `(SELECT ${quoteSqlString(JSON.stringify({ days }))} AS content)`;

/** Formats views.sql, by default that of DuckDB started in the folder of the archive. */
export function formatViewsFile(manifest: Manifest, sources: ViewSources = folderSources): string {
  const views = datasetNames.map(
    (name) => `CREATE OR REPLACE VIEW ${name} AS\n${formatDatasetView(name, manifest, sources)};\n`,
  );
  const definitions = listViewDefinitions(hasDailyCandles(manifest), manifest.lost, sources.manifestText).map(
    ({ sql }) => `${sql};\n`,
  );
  return `${sources.intro}

SET TimeZone = 'UTC';

${[...views, ...definitions].join('\n')}`;
}

function formatDatasetView(name: DatasetName, manifest: Manifest, sources: ViewSources): string {
  const { columns }: DatasetDefinition = datasets[name];
  if (manifest.datasets[name].files.length === 0) {
    const typedColumns = columns.map((c) => `CAST(NULL AS ${sqlTypes[c.type]}) AS ${c.name}`);
    return `SELECT ${[...typedColumns, ...(isDated(name) ? ['CAST(NULL AS DATE) AS date'] : [])].join(', ')} WHERE false`;
  }
  const names = columns.map((c) => c.name);
  const files = sources.formatFiles(name);
  return isDated(name)
    ? `SELECT ${[...names, 'date'].join(', ')}
FROM read_parquet(${files}, hive_partitioning = true, hive_types = {'date': DATE})`
    : `SELECT ${names.join(', ')}\nFROM read_parquet(${files}, hive_partitioning = false)`;
}

// DuckDB replaces every unqualified column that has the name of a macro argument, and resolves a column that is passed as an
// argument in the innermost query first. Macros therefore qualify their columns. If an argument may be a column, the inner
// query uses uncommon names.

/** The covered time of each symbol before each coverage window, as a running sum. */
const coverageSumsCte = `covers AS NOT MATERIALIZED (
  SELECT w.symbol, w.ms_from, w.ms_to,
         CAST(sum(w.ms_to - w.ms_from) OVER (PARTITION BY w.symbol ORDER BY w.ms_from) AS BIGINT)
           - (w.ms_to - w.ms_from) AS before
  FROM (SELECT c.symbol, epoch_ms(c.t_from) AS ms_from, epoch_ms(c.t_to) AS ms_to
        FROM coverage AS c
        WHERE c.dataset = 'ticks' AND c.date >= utc_day(since) AND c.date <= utc_day(step_end(until, step))) AS w
)`;

/**
 * The last quote of each step with quotes. Only of the days of the intervals: no quote is carried over midnight.
 */
const lastQuotesCte = `quoted AS NOT MATERIALIZED (
  SELECT n.symbol, epoch_ms(step_start(n.t, step)) AS ms, epoch_ms(max(n.t)) AS ms_last,
         arg_max({'bid': n.bid, 'ask': n.ask}, n.t) AS sides
  FROM quotes AS n
  WHERE n.date >= utc_day(since) AND n.date <= utc_day(step_end(until, step)) AND n.t < step_end(until, step)
  GROUP BY 1, 2
)`;

/** The trades of each step with trades. fsum, because the sequence of a parallel sum varies. */
const tradesCte = `traded AS NOT MATERIALIZED (
  SELECT d.symbol, epoch_ms(step_start(d.t, step)) AS ms, fsum(d.size) AS volume, fsum(d.price * d.size) AS turnover,
         CAST(count(*) AS INTEGER) AS trades
  FROM trades AS d
  WHERE d.date >= utc_day(since) AND d.date <= utc_day(step_end(until, step)) AND d.t < step_end(until, step)
  GROUP BY 1, 2
)`;

/** SQL of a side of the quote in force at the end of the intervals `i`. */
const formatSide = (side: 'bid' | 'ask'): string =>
  `CASE WHEN q.ms_last // ${dayMs} = (i.ms_end - 1) // ${dayMs} THEN q.sides.${side} END AS ${side}`;

const formatCoveredMs = (ms: string, w: string): string =>
  `coalesce(${w}.before + least(${ms}, ${w}.ms_to) - ${w}.ms_from, 0)`;

/** SQL of the covered share of the intervals `i`, from `i.ms` to `i.ms_end`: the column and its joins. */
const coveredShare = {
  column: `(${formatCoveredMs('i.ms_end', 'b')}
         - ${formatCoveredMs('i.ms', 'a')}) / step_ms(step) AS covered`,
  joins: `ASOF LEFT JOIN covers AS a ON a.symbol = i.symbol AND i.ms >= a.ms_from
ASOF LEFT JOIN covers AS b ON b.symbol = i.symbol AND i.ms_end >= b.ms_from`,
};

/** The intervals with ticks that start in [since, until). Filters by day, so that files of other days are not opened. */
const formedCandlesCte = `formed AS NOT MATERIALIZED (
  SELECT k.symbol, epoch_ms(step_start(k.t, step)) AS ms,
         arg_min(k.p, k.t) AS open, max(k.p) AS high, min(k.p) AS low, arg_max(k.p, k.t) AS close,
         CAST(count(*) AS INTEGER) AS ticks
  FROM ticks AS k
  WHERE k.date >= utc_day(since) AND k.date <= utc_day(step_end(until, step))
    AND k.t >= first_start(since, step) AND k.t < step_end(until, step) AND step_start(k.t, step) < instant(until)
  GROUP BY 1, 2
)`;

const startColumn = 'make_timestamptz(1000 * i.ms) AS t';
const dayColumn = 'CAST(make_timestamp(1000 * i.ms) AS DATE) AS date';

const lifetimesNeeds = ['symbols', 'markets', 'coverage'] as const;

const lifetimesView = `-- Each symbol's lifetime [t_from, t_to). It starts at the opening or, if that is unknown, at the earliest of first tick,
-- first_seen and start of coverage; but with its coverage if the day before does not lack it. It ends at the latest of
-- resolution, last listing, close and last tick; t_to is NULL while the symbol is active. A resolution time after last_seen
-- without an outcome is only planned. If a symbol was neither listed nor polled, its lifetime ends with its last tick.
CREATE OR REPLACE VIEW lifetimes AS
SELECT s.symbol, s.born AS t_from,
       CASE WHEN s.is_active IS DISTINCT FROM false AND s.ended_at IS NULL
             AND (m.symbol IS NOT NULL OR c.symbol IS NOT NULL OR s.last_tick IS NULL) THEN NULL
            ELSE greatest(s.born, coalesce(
              greatest(s.ended_at, m.last_active, s.closed_at, s.last_tick + INTERVAL 1 MILLISECOND), s.last_seen)) END AS t_to
FROM (SELECT y.*, CASE WHEN is_active = false AND closes_at <= last_seen THEN closes_at END AS closed_at,
             CASE WHEN resolved_at <= last_seen OR outcome IS NOT NULL THEN resolved_at END AS ended_at,
             CASE WHEN d.date IS NULL THEN coalesce(opens_at, least(first_tick, first_seen, f.t_from))
                  ELSE greatest(opens_at, f.t_from) END AS born
      FROM symbols AS y
      LEFT JOIN (SELECT symbol, min(t_from) AS t_from FROM coverage WHERE dataset = 'ticks' GROUP BY symbol) AS f
        ON f.symbol = y.symbol
      LEFT JOIN days AS d
        ON d.date = utc_day(f.t_from - INTERVAL 1 MILLISECOND) AND d.exceptions = 0
       AND len(d.missing) = d.expected - d.covered AND NOT list_contains(d.missing, y.symbol)) AS s
LEFT JOIN (SELECT symbol, max(last_seen) FILTER (WHERE is_active IS DISTINCT FROM false) AS last_active FROM markets
           WHERE len(views) > 0 GROUP BY symbol) AS m ON m.symbol = s.symbol
LEFT JOIN (SELECT DISTINCT symbol FROM coverage WHERE dataset = 'ticks' AND origin = 'poll') AS c
  ON c.symbol = s.symbol`;

/**
 * The views and macros over the dataset views, in order of creation.
 * @param hasDaily whether every ticks file has daily candles, from which an old price can be read faster
 * @param lost the manifest's lost windows
 * @param manifestText see ViewSources; without it there is no view `days`
 */
export const listViewDefinitions = (
  hasDaily: boolean,
  lost: readonly LostWindow[] = [],
  manifestText: string | null = null,
): readonly ViewDefinition[] => [
  ...(manifestText === null ? [] : [{ name: 'days', needs: [], uses: [], sql: formatDaysView(manifestText) }]),
  {
    name: 'instant',
    needs: [],
    uses: [],
    sql: `-- Converts a time, a day or a text to an instant. Without a zone it is in the session's time zone, UTC here.
CREATE OR REPLACE MACRO instant(moment) AS CAST(moment AS TIMESTAMPTZ)`,
  },
  {
    name: 'utc_day',
    needs: [],
    uses: ['instant'],
    sql: `-- The UTC day of a moment, as in the date column.
CREATE OR REPLACE MACRO utc_day(moment) AS CAST(make_timestamp(1000 * epoch_ms(instant(moment))) AS DATE)`,
  },
  {
    name: 'step_ms',
    needs: [],
    uses: [],
    sql: `-- The length of a step in milliseconds. A step is an interval of fixed length: '15m', '4h', INTERVAL '1 day', '1w'.
CREATE OR REPLACE MACRO step_ms(step) AS
  CASE WHEN epoch_ms(CAST(step AS INTERVAL)) >= 1 AND epoch_us(CAST(step AS INTERVAL)) % 1000 = 0
            AND datepart('month', CAST(step AS INTERVAL)) = 0 AND datepart('year', CAST(step AS INTERVAL)) = 0
       THEN epoch_ms(CAST(step AS INTERVAL))
       ELSE error('a step is a whole number of milliseconds, at least 1, without months or years') END`,
  },
  {
    name: 'step_start',
    needs: [],
    uses: ['instant', 'step_ms'],
    sql: `-- The start of the step that contains a moment. Steps are counted from Monday, 1970-01-05, UTC: steps that divide a day
-- are aligned to midnight, weeks to Monday.
CREATE OR REPLACE MACRO step_start(moment, step) AS
  make_timestamptz(1000 * (epoch_ms(instant(moment)) - (epoch_ms(instant(moment)) - 345600000) % step_ms(step)))`,
  },
  {
    name: 'step_end',
    needs: [],
    uses: ['instant', 'step_ms'],
    sql: `-- The moment one step later.
CREATE OR REPLACE MACRO step_end(moment, step) AS make_timestamptz(1000 * (epoch_ms(instant(moment)) + step_ms(step)))`,
  },
  {
    name: 'first_start',
    needs: [],
    uses: ['instant', 'step_start', 'step_ms'],
    sql: `-- The first start of a step at or after a moment.
CREATE OR REPLACE MACRO first_start(moment, step) AS
  step_start(make_timestamptz(1000 * (epoch_ms(instant(moment)) + step_ms(step) - 1)), step)`,
  },
  {
    name: 'is_covered',
    needs: ['coverage'],
    uses: ['utc_day'],
    sql: `-- Whether a moment of a symbol is covered. If it is covered and has no tick, the market was quiet.
CREATE OR REPLACE MACRO is_covered(ticker, moment) AS EXISTS (
  FROM (SELECT c.symbol AS covered_symbol, c.t_from AS covered_from, c.t_to AS covered_to, c.date AS covered_day
        FROM coverage AS c WHERE c.dataset = 'ticks')
  WHERE covered_symbol = ticker AND covered_day = utc_day(moment)
    AND covered_from <= instant(moment) AND instant(moment) < covered_to
)`,
  },
  { name: 'lifetimes', needs: lifetimesNeeds, uses: ['days', 'instant', 'utc_day'], sql: lifetimesView },
  { name: 'gaps', needs: lifetimesNeeds, uses: ['lifetimes'], sql: formatGapsView(lost) },
  {
    name: 'ticks_with_markets',
    needs: ['ticks', 'markets'],
    uses: [],
    sql: `-- Each tick with the state of its market at that time; NULLs before the first poll of the market. If a symbol is in
-- several markets on a day, the market with the highest confidence is used, then the first canonical_id.
CREATE OR REPLACE VIEW ticks_with_markets AS
SELECT k.symbol, k.t, k.p, m.* EXCLUDE (symbol, date), k.date
FROM ticks AS k
ASOF LEFT JOIN (
  SELECT * FROM markets WHERE symbol IS NOT NULL
  QUALIFY canonical_id = first_value(canonical_id) OVER (
    PARTITION BY symbol, date ORDER BY confidence DESC NULLS LAST, canonical_id)
) AS m ON m.symbol = k.symbol AND k.t >= m.first_seen`,
  },
  {
    name: 'candles',
    needs: ['ticks', 'coverage', 'quotes', 'trades'],
    uses: ['instant', 'utc_day', 'step_ms', 'step_start', 'step_end', 'first_start'],
    sql: `-- Candles of any step, with the columns of candles_1h: candles('15m'), candles(INTERVAL '4 hours'). Returns the candles that
-- start in [since, until). If both ends are given, files of other days are not opened:
--   FROM candles('15m', since := '2026-11-19', until := '2026-11-20')
CREATE OR REPLACE MACRO candles(step, since := '2000-01-01 00:00:00+00', until := '2101-01-01 00:00:00+00') AS TABLE
WITH ${formedCandlesCte}, ${coverageSumsCte}, ${lastQuotesCte}, ${tradesCte}
SELECT i.symbol, ${startColumn}, i.open, i.high, i.low, i.close, i.ticks,
       ${coveredShare.column},
       ${formatSide('bid')},
       ${formatSide('ask')},
       v.volume, v.trades, v.turnover / v.volume AS vwap,
       ${dayColumn}
FROM (SELECT f.*, f.ms + step_ms(step) AS ms_end FROM formed AS f) AS i
${coveredShare.joins}
ASOF LEFT JOIN quoted AS q ON q.symbol = i.symbol AND i.ms >= q.ms
LEFT JOIN traded AS v ON v.symbol = i.symbol AND v.ms = i.ms`,
  },
  {
    name: 'candles_filled',
    needs: ['ticks', 'coverage', 'symbols', 'markets', ...(hasDaily ? (['candles_1d'] as const) : [])],
    uses: ['instant', 'utc_day', 'step_ms', 'step_start', 'step_end', 'first_start', 'lifetimes'],
    sql: `-- Every step of a symbol's lifetime that starts in [since, until), from its first tick on. In a step without ticks, ticks is
-- 0, and open, high, low and close are the last close. covered is 1 in a quiet step and 0 in a gap:
--   FROM candles_filled('15m', '2026-11-19', '2026-11-20')
CREATE OR REPLACE MACRO candles_filled(step, since, until) AS TABLE
WITH ${formedCandlesCte}, ${coverageSumsCte}, carried AS NOT MATERIALIZED (
  SELECT e.symbol, arg_max(e.close, e.t) AS close
  FROM (SELECT d.symbol, d.t, ${hasDaily ? 'd.close FROM candles_1d' : 'd.p AS close FROM ticks'} AS d WHERE d.date < utc_day(since)
        UNION ALL
        SELECT k.symbol, k.t, k.p FROM ticks AS k
        WHERE k.date >= utc_day(since) AND k.date <= utc_day(step_end(since, step))
          AND k.t < first_start(since, step)) AS e
  GROUP BY e.symbol
), grid AS NOT MATERIALIZED (
  SELECT s.symbol,
         unnest(range(greatest(epoch_ms(first_start(since, step)), epoch_ms(step_start(s.first_tick, step))),
                      least(epoch_ms(l.t_to), epoch_ms(instant(until))), step_ms(step))) AS ms
  FROM symbols AS s JOIN lifetimes AS l ON l.symbol = s.symbol
  WHERE s.first_tick < instant(until)
), filled AS (
  SELECT g.symbol, g.ms, g.ms + step_ms(step) AS ms_end, f.open, f.high, f.low, coalesce(f.ticks, 0) AS ticks,
         coalesce(last_value(f.close IGNORE NULLS) OVER (PARTITION BY g.symbol ORDER BY g.ms), c.close) AS close
  FROM grid AS g
  LEFT JOIN formed AS f ON f.symbol = g.symbol AND f.ms = g.ms
  LEFT JOIN carried AS c ON c.symbol = g.symbol
)
SELECT i.symbol, ${startColumn}, coalesce(i.open, i.close) AS open, coalesce(i.high, i.close) AS high,
       coalesce(i.low, i.close) AS low, i.close, i.ticks,
       ${coveredShare.column},
       ${dayColumn}
FROM filled AS i
${coveredShare.joins}`,
  },
  ...marketDataViews,
];

/** Returns the definitions whose names occur in a statement, and the definitions that they use. */
export function selectViewDefinitions(
  statement: string,
  hasDaily: boolean,
  lost: readonly LostWindow[] = [],
  manifestText: string | null = null,
): ViewDefinition[] {
  const all = listViewDefinitions(hasDaily, lost, manifestText);
  const selected = new Set<string>();
  for (const { name, uses } of [...all].reverse()) {
    if (!selected.has(name) && !new RegExp(`\\b${name}\\b`, 'i').test(statement)) continue;
    for (const needed of [name, ...uses]) selected.add(needed);
  }
  return all.filter(({ name }) => selected.has(name));
}

const formatDaysView = (
  manifestText: string,
): string => `-- How complete each UTC day is: complete, provisional (covered, not proven yet), complete_with_exceptions, incomplete or
-- empty. covered of the expected symbols are covered for the complete day; missing names up to 20 others. reason says why a
-- day is not complete, and next_action what completes it; both are NULL if it is complete.
CREATE OR REPLACE VIEW days AS
SELECT CAST(d.key AS DATE) AS date, d.value ->> '$.state' AS state,
       CAST(d.value ->> '$.expected' AS INTEGER) AS expected, CAST(d.value ->> '$.covered' AS INTEGER) AS covered,
       CAST(d.value -> '$.missing' AS VARCHAR[]) AS missing, CAST(d.value ->> '$.exceptions' AS INTEGER) AS exceptions,
       d.value ->> '$.reason' AS reason, d.value ->> '$.next_action' AS next_action
FROM ${manifestText} AS m, json_each(m.content, '$.days') AS d`;

/** Formats the view `gaps`. Lost windows are literals in the view, because no dataset contains them. */
const formatGapsView = (
  lost: readonly LostWindow[],
): string => `-- Uncovered windows [t_from, t_to) of each symbol's lifetime in the time range of the archive, from its first to its last
-- covered moment or tick. The reason is 'lost' if published ticks of the window were lost, else NULL.
CREATE OR REPLACE VIEW gaps AS
WITH lost AS (
  ${formatLostRows(lost.filter(({ dataset }) => dataset === 'ticks'))}
), known AS (
  SELECT min(t_from) AS t_from, max(t_to) AS t_to FROM (
    SELECT t_from, t_to FROM coverage WHERE dataset = 'ticks'
    UNION ALL SELECT first_tick, last_tick + INTERVAL 1 MILLISECOND FROM symbols
    UNION ALL SELECT t_from, t_to FROM lost)
), alive AS (
  SELECT l.symbol, greatest(l.t_from, k.t_from) AS t_from, least(l.t_to, k.t_to) AS t_to
  FROM lifetimes AS l, known AS k
  WHERE k.t_from IS NOT NULL AND greatest(l.t_from, k.t_from) < least(l.t_to, k.t_to)
), stops AS (
  SELECT a.symbol, a.t_from AS alive_from, greatest(c.t_from, a.t_from) AS t_from, least(c.t_to, a.t_to) AS t_to
  FROM alive AS a
  JOIN (SELECT symbol, t_from, t_to FROM coverage WHERE dataset = 'ticks' UNION ALL FROM lost) AS c
    ON c.symbol = a.symbol AND c.t_from < a.t_to AND c.t_to > a.t_from
  UNION ALL
  SELECT symbol, t_from, t_to, t_to FROM alive
)
SELECT symbol, t_from, t_to, CAST(NULL AS VARCHAR) AS reason
FROM (SELECT symbol, lag(t_to, 1, alive_from) OVER (PARTITION BY symbol ORDER BY t_from, t_to) AS t_from, t_from AS t_to
      FROM stops)
WHERE t_from < t_to
UNION ALL SELECT symbol, t_from, t_to, 'lost' FROM lost`;

function formatLostRows(lost: readonly LostWindow[]): string {
  if (lost.length === 0)
    return 'SELECT CAST(NULL AS VARCHAR) AS symbol, CAST(NULL AS TIMESTAMPTZ) AS t_from, CAST(NULL AS TIMESTAMPTZ) AS t_to WHERE false';
  const rows = lost.map(({ symbol, from, to }) => `(${quoteSqlString(symbol)}, ${from}, ${to})`);
  return `SELECT symbol, make_timestamptz(1000 * ms_from) AS t_from, make_timestamptz(1000 * ms_to) AS t_to
  FROM (VALUES ${rows.join(', ')}) AS w(symbol, ms_from, ms_to)`;
}

/** Quotes a text as an SQL literal. */
export const quoteSqlString = (text: string): string => `'${text.replaceAll("'", "''")}'`;
