import type { LostWindow } from '../../core/data-loss.ts';

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
  FROM lives AS l, known AS k
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
