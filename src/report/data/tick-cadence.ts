import type { Archive } from '../../archive/archive.ts';
import type { CompletenessInput, CompletenessRules } from '../../archive/completeness/completeness.ts';
import { computeCursor, hasEnded, isActive } from '../../archive/completeness/symbol-lifetime.ts';
import type { DatasetName } from '../../archive/format/datasets.ts';
import { listFilesWithRows, type Manifest } from '../../archive/format/manifest.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import { OddslakeError } from '../../base/errors.ts';
import type { Random } from '../../base/ports.ts';
import { formatDay, parseDayStart } from '../../base/time.ts';
import { dayMs, hourMs, union, type Window } from '../../base/window.ts';

export interface CadenceFacts {
  /** Number of days evaluated. */
  readonly days: number;
  readonly busiest: readonly BusySymbol[];
  readonly silent: readonly SilentSymbol[];
  /** Error message if the ticks could not be read, otherwise null. */
  readonly error: string | null;
}

interface NamedCadence extends TickCadence {
  readonly question: string | null;
}

export interface BusySymbol extends NamedCadence {
  /** One price for each hour with ticks, in order. */
  readonly prices: readonly HourPrice[];
}

export interface SilentSymbol extends NamedCadence {
  readonly lastTick: number;
  /** Time from the last tick to the cursor, in milliseconds. */
  readonly quietMs: number;
}

const cadenceDays = 14;
const busiestMax = 15;
/** Most quiet symbols have ended, which the query does not know. */
const quietMax = 50_000;
const silentMax = 15;
/** Minimum number of hours with ticks, and of silent hours. */
const hoursMin = 12;
const quietHoursMin = 6;
/** Minimum silence as a multiple of the longest pause. */
const pauseFactor = 2;

/**
 * Reads the busiest symbols of the last days, and those that have become silent.
 * @param end end of the last day, epoch ms
 */
export async function readCadenceFacts(
  archive: Archive,
  { manifest, state, end }: { readonly manifest: Manifest; readonly state: CompletenessInput; readonly end: number },
  rules: CompletenessRules,
  random: Random,
): Promise<CadenceFacts> {
  const days = Array.from({ length: cadenceDays }, (_, i) => formatDay(end - 1 - i * dayMs));
  const span = { from: parseDayStart(days.at(-1)!), to: end };
  try {
    const { busiest, quiet } = await readTickCadences(archive, manifest, new Set(days), span, random);
    const facts = new Map(state.symbols.map((one) => [one.symbol, one]));
    const questionOf = (symbol: string): string | null => facts.get(symbol)?.question ?? null;
    return {
      days: cadenceDays,
      busiest: busiest.map((cadence) => ({ ...cadence, question: questionOf(cadence.symbol) })),
      silent: quiet
        .flatMap((cadence) => toSilentSymbol(state, facts.get(cadence.symbol), cadence, rules) ?? [])
        .slice(0, silentMax),
      error: null,
    };
  } catch (error) {
    // A damaged file must not prevent the rest of the report.
    if (!(error instanceof OddslakeError)) throw error;
    return { days: cadenceDays, busiest: [], silent: [], error: error.message };
  }
}

/**
 * A symbol that is polled and has not ended, without recent ticks although it is covered; null for any other, also for one
 * that is suspended, excluded or forgotten.
 */
function toSilentSymbol(
  { coverage, nowMs }: CompletenessInput,
  facts: SymbolFacts | undefined,
  cadence: TickCadence,
  { namedSymbols, lifetimeRules }: CompletenessRules,
): SilentSymbol | null {
  if (facts === undefined || facts.lastTick === null || facts.suspendedAt !== null) return null;
  if (hasEnded(facts, nowMs) || !isActive(facts, namedSymbols)) return null;
  const cursor = computeCursor(facts, union(coverage.get(cadence.symbol) ?? []), lifetimeRules);
  const quietMs = Math.min(cursor, nowMs) - facts.lastTick;
  const usualMs = Math.max(quietHoursMin, pauseFactor * cadence.longestPauseHours) * hourMs;
  if (quietMs <= usualMs) return null;
  return { ...cadence, question: facts.question, lastTick: facts.lastTick, quietMs };
}

/** Tick frequency of a symbol in a window. Hours are UTC clock hours. */
interface TickCadence {
  readonly symbol: string;
  readonly ticks: number;
  /** Hours with a tick. */
  readonly hours: number;
  /** Longest distance, in hours, between consecutive hours with ticks; 1 if all hours have ticks. */
  readonly longestPauseHours: number;
}

/** The last price in an hour. `t`: start of the hour, epoch ms. */
export interface HourPrice {
  readonly t: number;
  readonly p: number;
}

interface TickCadences {
  /** Symbols with the most ticks, most ticks first. */
  readonly busiest: readonly (TickCadence & { readonly prices: readonly HourPrice[] })[];
  /** Symbols whose final silence is much longer than any earlier pause, most active first. */
  readonly quiet: readonly TickCadence[];
}

const memoryBytesMax = 1024 ** 3;

const noCadences: TickCadences = { busiest: [], quiet: [] };

/** Computes the tick frequency of all symbols on the given days (YYYY-MM-DD), up to `span.to`, from one generation. */
async function readTickCadences(
  archive: Archive,
  manifest: Manifest,
  days: ReadonlySet<string>,
  span: Window,
  random: Random,
): Promise<TickCadences> {
  const isSelected = ({ date }: { date: string | null }): boolean => date !== null && days.has(date);
  const [ticks, candles] = (['ticks', 'candles_1h'] as const).map((name) =>
    listFilesWithRows(manifest, name).filter(isSelected),
  );
  if (ticks!.length === 0) return noCadences;
  // Candles are optional, but there are far fewer of them than ticks.
  const from: DatasetName = candles!.length === ticks!.length ? 'candles_1h' : 'ticks';
  const { query, close } = await openPinned(archive, { names: [from], wanted: isSelected, memoryBytesMax }, random);
  try {
    const end = Math.ceil(span.to / hourMs);
    const rows = await query.readRows(formatCadenceQuery(from), [
      span.from,
      hoursMin,
      end,
      quietHoursMin,
      pauseFactor,
      busiestMax,
      quietMax,
    ]);
    const cadence = (row: (typeof rows)[number]): TickCadence => ({
      symbol: row.symbol as string,
      ticks: row.ticks as number,
      hours: row.hours as number,
      longestPauseHours: row.pause as number,
    });
    if (rows.length === 0) return noCadences;
    const busiest = rows.filter(({ rank }) => (rank as number) <= busiestMax).map(cadence);
    const names = busiest.map(({ symbol }) => symbol);
    const priceRows = await query.readRows(formatPricesQuery(from, names.length), [span.from, ...names]);
    const prices = Map.groupBy(priceRows, ({ symbol }) => symbol as string);
    const pricesOf = (symbol: string): HourPrice[] =>
      (prices.get(symbol) ?? []).map(({ hour, p }) => ({ t: (hour as number) * hourMs, p: p as number }));
    return {
      busiest: busiest.map((one) => ({ ...one, prices: pricesOf(one.symbol) })),
      quiet: rows.filter(({ is_quiet }) => is_quiet === true).map(cadence),
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

/** The last price of each hour of `count` symbols, `$2` and so on; there is at least one. */
const formatPricesQuery = (from: 'candles_1h' | 'ticks', count: number): string => `
SELECT symbol, epoch_ms(t) // ${hourMs} AS hour, ${from === 'ticks' ? 'arg_max(p, t)' : 'any_value(close)'} AS p
FROM ${from} WHERE epoch_ms(t) >= $1 AND symbol IN (${Array.from({ length: count }, (_, i) => `$${i + 2}`).join()})
GROUP BY ALL HAVING p IS NOT NULL ORDER BY symbol, hour`;
