import type { LostWindow } from '../format/coverage.ts';
import { type Column, candleDatasets, type DatasetName, datasetNames, datasets } from '../format/datasets.ts';
import type { Manifest } from '../format/manifest.ts';

const sqlColumnTypes: Record<Column['type'], string> = {
  string: 'VARCHAR',
  timestamp: 'TIMESTAMPTZ',
  double: 'DOUBLE',
  int32: 'INTEGER',
  int64: 'BIGINT',
  boolean: 'BOOLEAN',
  strings: 'VARCHAR[]',
};

/** Whether daily candles stand beside all published ticks, so that views may read them instead. */
export const hasDailyCandles = ({ datasets: published }: Manifest): boolean =>
  published.ticks.files.length > 0 && published[candleDatasets['1d']].files.length === published.ticks.files.length;

/** The archive's views.sql, for DuckDB started in the archive's folder. */
export function formatViewsFile(manifest: Manifest): string {
  const views = datasetNames.map(
    (name) => `CREATE OR REPLACE VIEW ${name} AS\n${formatDatasetView(name, manifest)};\n`,
  );
  const above = listViewDefinitions(hasDailyCandles(manifest), manifest.lost).map(({ sql }) => `${sql};\n`);
  return `-- The archive as views, for DuckDB started in this folder:  duckdb -init views.sql
-- In Python, from this folder:  duckdb.sql(open('views.sql').read())
-- DuckDB 1.5 or newer: before, an ASOF LEFT JOIN could lose rows where there was nothing to join.
-- Files are found anew by every query, so days that are published later need no new views. While a publish is under
-- way read with oddslake sql, which holds on to one generation.

SET TimeZone = 'UTC';

${[...views, ...above].join('\n')}`;
}

function formatDatasetView(name: DatasetName, manifest: Manifest): string {
  const columns: readonly Column[] = datasets[name];
  const dated = name !== 'symbols';
  if (manifest.datasets[name].files.length === 0) {
    const typed = columns.map((c) => `CAST(NULL AS ${sqlColumnTypes[c.type]}) AS ${c.name}`);
    return `SELECT ${[...typed, ...(dated ? ['CAST(NULL AS DATE) AS date'] : [])].join(', ')} WHERE false`;
  }
  const names = columns.map((c) => c.name);
  return dated
    ? `SELECT ${[...names, 'date'].join(', ')}
FROM read_parquet('${name}/date=*/*.parquet', hive_partitioning = true, hive_types = {'date': DATE})`
    : `SELECT ${names.join(', ')}\nFROM read_parquet('${name}/*.parquet', hive_partitioning = false)`;
}

/** A view or macro over views that are named as the datasets. */
export interface ViewDefinition {
  readonly name: string;
  /** The datasets that it reads, those of the definitions it uses included. */
  readonly needs: readonly DatasetName[];
  /** Definitions that it uses; they stand before it. */
  readonly uses: readonly string[];
  /** One CREATE statement for DuckDB, without a semicolon, with a comment that says what it gives. */
  readonly sql: string;
}

// Arguments of a macro stand for any unqualified column of their name, and are looked up in the innermost query first:
// columns in a macro are qualified, and where an argument may be a column itself the names around it are uncommon.

/** Running sums of what coverage holds of each symbol: `before` it, a window; the time up to any moment follows. */
const coverageSumsCte = `covers AS NOT MATERIALIZED (
  SELECT w.symbol, w.ms_from, w.ms_to,
         CAST(sum(w.ms_to - w.ms_from) OVER (PARTITION BY w.symbol ORDER BY w.ms_from) AS BIGINT)
           - (w.ms_to - w.ms_from) AS before
  FROM (SELECT c.symbol, epoch_ms(c.t_from) AS ms_from, epoch_ms(c.t_to) AS ms_to
        FROM coverage AS c
        WHERE c.dataset = 'ticks' AND c.date >= utc_day(since) AND c.date <= utc_day(step_end(until, step))) AS w
)`;

const formatCoveredMs = (ms: string, w: string): string =>
  `coalesce(${w}.before + least(${ms}, ${w}.ms_to) - ${w}.ms_from, 0)`;

/** Joins and column that tell the covered share of the intervals `i`, from `i.ms` to `i.ms_end`. */
const coveredShare = {
  column: `(${formatCoveredMs('i.ms_end', 'b')}
         - ${formatCoveredMs('i.ms', 'a')}) / step_ms(step) AS covered`,
  joins: `ASOF LEFT JOIN covers AS a ON a.symbol = i.symbol AND i.ms >= a.ms_from
ASOF LEFT JOIN covers AS b ON b.symbol = i.symbol AND i.ms_end >= b.ms_from`,
};

/** The intervals with ticks that start inside [since, until). Days are named, so that files of others are not opened. */
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

/**
 * What stands over the datasets' views, in the order of creation.
 * @param lost windows that the manifest says are lost
 * @param daily whether the archive keeps daily candles of all its ticks: they tell a price of long ago faster
 */
export const listViewDefinitions = (daily: boolean, lost: readonly LostWindow[] = []): readonly ViewDefinition[] => [
  {
    name: 'instant',
    needs: [],
    uses: [],
    sql: `-- A moment given as a time, a day, or a text; one without a zone is of the session's time zone, UTC here.
CREATE OR REPLACE MACRO instant(moment) AS CAST(moment AS TIMESTAMPTZ)`,
  },
  {
    name: 'utc_day',
    needs: [],
    uses: ['instant'],
    sql: `-- The UTC day that holds a moment: what the date column of a row at that moment says.
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
    sql: `-- The start of the step that holds a moment. Steps are counted from a Monday, 1970-01-05, UTC: what divides a day
-- starts at midnight, a week on Monday.
CREATE OR REPLACE MACRO step_start(moment, step) AS
  make_timestamptz(1000 * (epoch_ms(instant(moment)) - (epoch_ms(instant(moment)) - 345600000) % step_ms(step)))`,
  },
  {
    name: 'step_end',
    needs: [],
    uses: ['instant', 'step_ms'],
    sql: `-- A step later.
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
    sql: `-- Whether ticks of a symbol were asked for at a moment and answered: where they were, the absence of a tick is a fact.
CREATE OR REPLACE MACRO is_covered(ticker, moment) AS EXISTS (
  FROM (SELECT c.symbol AS covered_symbol, c.t_from AS covered_from, c.t_to AS covered_to, c.date AS covered_day
        FROM coverage AS c WHERE c.dataset = 'ticks')
  WHERE covered_symbol = ticker AND covered_day = utc_day(moment)
    AND covered_from <= instant(moment) AND instant(moment) < covered_to
)`,
  },
  {
    name: 'lifetimes',
    needs: ['symbols', 'markets', 'coverage'],
    uses: [],
    sql: `-- Each symbol's lifetime: from its opening (unknown: the earliest of first tick, first sight and start of its coverage)
-- to the last of last listing, close and last tick, excluded;
-- t_to is NULL while it is active. A resolution ahead of the last sight, without an outcome, is but a plan. A symbol that
-- no market list named and no poll followed lives until its last tick.
CREATE OR REPLACE VIEW lifetimes AS
SELECT s.symbol, coalesce(s.opens_at, least(s.first_tick, s.first_seen, f.t_from)) AS t_from,
       CASE WHEN s.is_active IS DISTINCT FROM false AND s.ended_at IS NULL
             AND (m.symbol IS NOT NULL OR c.symbol IS NOT NULL OR s.last_tick IS NULL) THEN NULL
            ELSE greatest(coalesce(s.opens_at, least(s.first_tick, s.first_seen, f.t_from)), coalesce(
              greatest(s.ended_at, m.last_active, s.closed_at, s.last_tick + INTERVAL 1 MILLISECOND), s.last_seen)) END AS t_to
FROM (SELECT *, CASE WHEN is_active = false AND closes_at <= last_seen THEN closes_at END AS closed_at,
             CASE WHEN resolved_at <= last_seen OR outcome IS NOT NULL THEN resolved_at END AS ended_at
      FROM symbols) AS s
LEFT JOIN (SELECT symbol, max(last_seen) FILTER (WHERE is_active IS DISTINCT FROM false) AS last_active FROM markets
           WHERE len(views) > 0 GROUP BY symbol) AS m ON m.symbol = s.symbol
LEFT JOIN (SELECT DISTINCT symbol FROM coverage WHERE dataset = 'ticks' AND origin = 'poll') AS c
  ON c.symbol = s.symbol
LEFT JOIN (SELECT symbol, min(t_from) AS t_from FROM coverage WHERE dataset = 'ticks' GROUP BY symbol) AS f
  ON f.symbol = s.symbol`,
  },
  {
    name: 'gaps',
    needs: ['coverage', 'symbols', 'markets'],
    uses: ['lifetimes'],
    sql: formatGapsView(lost),
  },
  {
    name: 'ticks_with_markets',
    needs: ['ticks', 'markets'],
    uses: [],
    sql: `-- Every tick once, with the state of its market as of its time; NULLs where no poll had shown the market yet. Where a
-- symbol stands in several markets on a day, the one of the greatest confidence counts, then the first canonical_id.
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
    needs: ['ticks', 'coverage'],
    uses: ['instant', 'utc_day', 'step_ms', 'step_start', 'step_end', 'first_start'],
    sql: `-- Candles of any step, as candles_1h and candles_1d have them: candles('15m'), candles(INTERVAL '4 hours'). Those that
-- start in [since, until); with both given, files of other days are not opened:
--   FROM candles('15m', since := '2026-11-19', until := '2026-11-20')
CREATE OR REPLACE MACRO candles(step, since := '2000-01-01 00:00:00+00', until := '2101-01-01 00:00:00+00') AS TABLE
WITH ${formedCandlesCte}, ${coverageSumsCte}
SELECT i.symbol, ${startColumn}, i.open, i.high, i.low, i.close, i.ticks,
       ${coveredShare.column},
       ${dayColumn}
FROM (SELECT f.*, f.ms + step_ms(step) AS ms_end FROM formed AS f) AS i
${coveredShare.joins}`,
  },
  {
    name: 'candles_filled',
    needs: ['ticks', 'coverage', 'symbols', 'markets', ...(daily ? (['candles_1d'] as const) : [])],
    uses: ['instant', 'utc_day', 'step_ms', 'step_start', 'step_end', 'first_start', 'lifetimes'],
    sql: `-- Every step that starts in [since, until) and in a symbol's life, from its first tick on. Where there is no tick, ticks
-- is 0 and the last close is carried over as open, high, low and close; covered tells a quiet step (1) from a hole (0):
--   FROM candles_filled('15m', '2026-11-19', '2026-11-20')
CREATE OR REPLACE MACRO candles_filled(step, since, until) AS TABLE
WITH ${formedCandlesCte}, ${coverageSumsCte}, carried AS NOT MATERIALIZED (
  SELECT e.symbol, arg_max(e.close, e.t) AS close
  FROM (SELECT d.symbol, d.t, ${daily ? 'd.close FROM candles_1d' : 'd.p AS close FROM ticks'} AS d WHERE d.date < utc_day(since)
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
];

/** The definitions that a statement means, by its text, with those that they use. */
export function selectViewDefinitions(
  statement: string,
  daily: boolean,
  lost: readonly LostWindow[] = [],
): ViewDefinition[] {
  const all = listViewDefinitions(daily, lost);
  const wanted = new Set<string>();
  for (const { name, uses } of [...all].reverse()) {
    if (!wanted.has(name) && !new RegExp(`\\b${name}\\b`, 'i').test(statement)) continue;
    for (const needed of [name, ...uses]) wanted.add(needed);
  }
  return all.filter(({ name }) => wanted.has(name));
}

/** The view `gaps`. No file has what is lost, so that its windows stand in the view itself. */
export const formatGapsView = (
  lost: readonly LostWindow[],
): string => `-- Windows [t_from, t_to) of a symbol's life that no answer about ticks covers, between the first and the last moment
-- that the archive covers or has a tick of: nothing is known of them. The reason is 'lost' where ticks were published
-- once and are gone, NULL elsewhere.
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

/** As a literal of SQL. */
const quoteSqlString = (text: string): string => `'${text.replaceAll("'", "''")}'`;
