import type { Manifest } from '../../archive/manifest.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { DatasetName } from '../../archive/parquet/schema.ts';
import type { Random } from '../../core/ports.ts';
import type { Window } from '../../core/window.ts';
import { openPinned } from '../pinned-query.ts';

/** How a symbol ticked in a span of time. Hours are whole UTC hours. */
export interface TickCadence {
  readonly symbol: string;
  readonly ticks: number;
  /** Hours with a tick. */
  readonly hours: number;
  /** The longest time, in hours, from one of them to the next; 1 where there was one in each. */
  readonly longestPauseMs: number;
}

export interface TickCadences {
  /** Those of the most ticks, first. */
  readonly busiest: readonly TickCadence[];
  /** Those that have been quiet at the end of the span for much longer than ever before in it, the busiest first. */
  readonly quiet: readonly TickCadence[];
}

export interface CadenceRules {
  readonly busiestMax: number;
  readonly quietMax: number;
  /** Hours with a tick without which nothing is a habit. */
  readonly hoursMin: number;
  /** Hours of quiet that are nothing special. */
  readonly quietHoursMin: number;
  /** How many times its longest pause one has to have been quiet. */
  readonly pauseFactor: number;
}

const hourMs = 3_600_000;
const memoryBytesMax = 1024 ** 3;

const noCadences: TickCadences = { busiest: [], quiet: [] };

/** Looks at the ticks of some days, given as YYYY-MM-DD, up to the end of the span. One generation is read. */
export async function readTickCadences(
  archive: Archive,
  manifest: Manifest,
  days: ReadonlySet<string>,
  span: Window,
  rules: CadenceRules,
  random: Random,
): Promise<TickCadences> {
  const wanted = ({ date }: { date: string | null }): boolean => date !== null && days.has(date);
  const [ticks, candles] = [manifest.datasets.ticks.files, manifest.datasets.candles_1h.files].map((files) =>
    files.filter(wanted),
  );
  if (ticks!.length === 0) return noCadences;
  // Candles are there where the settings say so, and much fewer than ticks.
  const from: DatasetName = candles!.length === ticks!.length ? 'candles_1h' : 'ticks';
  const { query, close } = await openPinned(archive, { names: [from], wanted, memoryBytesMax }, random);
  try {
    const end = Math.ceil(span.to / hourMs);
    const rows = await query.readRows(formatCadenceQuery(from), [
      span.from,
      rules.hoursMin,
      end,
      rules.quietHoursMin,
      rules.pauseFactor,
      rules.busiestMax,
      rules.quietMax,
    ]);
    const habit = (row: (typeof rows)[number]): TickCadence => ({
      symbol: row.symbol as string,
      ticks: row.ticks as number,
      hours: row.hours as number,
      longestPauseMs: row.pause as number,
    });
    return {
      busiest: rows.filter(({ rank }) => (rank as number) <= rules.busiestMax).map(habit),
      quiet: rows.filter(({ is_quiet }) => is_quiet === true).map(habit),
    };
  } finally {
    await close();
  }
}

const formatCadenceQuery = (from: 'candles_1h' | 'ticks'): string => `
WITH hours AS (
  SELECT symbol, epoch_ms(t) // ${hourMs} AS hour, ${from === 'ticks' ? 'count(*)' : 'sum(ticks)'} AS n
  FROM ${from} WHERE epoch_ms(t) >= $1 GROUP BY ALL
), paused AS (
  SELECT symbol, hour, n, hour - lag(hour) OVER (PARTITION BY symbol ORDER BY hour) AS pause FROM hours
), habits AS (
  SELECT symbol, CAST(sum(n) AS BIGINT) AS ticks, count(*) AS hours, coalesce(max(pause), 0) AS pause, max(hour) AS last
  FROM paused GROUP BY symbol
), ranked AS (
  SELECT *, row_number() OVER (ORDER BY ticks DESC, symbol) AS rank,
         hours >= $2 AND $3 - last > greatest($4, $5 * pause) AS is_quiet
  FROM habits
)
SELECT symbol, ticks, hours, pause, rank, is_quiet FROM ranked
WHERE rank <= $6 OR is_quiet
QUALIFY rank <= $6 OR row_number() OVER (PARTITION BY is_quiet ORDER BY rank) <= $7
ORDER BY rank`;
