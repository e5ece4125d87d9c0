import { seek } from '../../base/binary-search.ts';
import { dayMs, hourMs, intersectTwo, type Window } from '../../base/window.ts';
import { type CandleSeries, type CandleSeriesColumns, computeCandleSeriesColumns } from './candle-series.ts';
import type { CandleInterval } from './datasets.ts';
import type { PartColumns, SymbolOffsets } from './tick-columns.ts';

/** The published candle intervals, in ms. Each divides a UTC day, so no candle spans two days. */
export const candleIntervals: Readonly<Record<CandleInterval, number>> = { '1h': hourMs, '1d': dayMs };

/** Candles of many symbols, each sorted by t. Symbols are in UTF-8 order. */
export interface CandleColumns extends SymbolOffsets, CandleSeriesColumns {
  /** Start of the interval, epoch milliseconds. */
  readonly t: Float64Array;
  readonly open: Float64Array;
  readonly high: Float64Array;
  readonly low: Float64Array;
  readonly close: Float64Array;
  readonly ticks: Int32Array;
  /** Covered share of the interval, 0 to 1. */
  readonly covered: Float64Array;
}

/**
 * Computes the candles of a part's ticks. An interval without ticks has no candle, and no price is carried over.
 * `coverage` holds the covered windows of each symbol, sorted and disjoint; `series` the rows of the part's series.
 */
export const computeCandles = (
  part: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervalMs: number,
  series: CandleSeries = {},
): CandleColumns =>
  aggregateCandles({ ...part, open: part.p, high: part.p, low: part.p, close: part.p }, coverage, intervalMs, series);

/** Candles, or ticks, each of which is a candle of its own. */
type ShorterCandles = Omit<CandleColumns, keyof CandleSeriesColumns | 'ticks' | 'covered'> & {
  readonly ticks?: Int32Array;
};

/**
 * Computes the candles of a longer interval from those of a shorter one that divides it. The result equals that of
 * `computeCandles` but takes a thousandth of the work.
 */
export function aggregateCandles(
  shorter: ShorterCandles,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervalMs: number,
  series: CandleSeries = {},
): CandleColumns {
  const { offsets, ends } = findIntervals(shorter, intervalMs);
  const { ticks, ...out } = allocateCandles(ends.length);
  const { high, low } = shorter;
  let from = shorter.offsets[0]!;
  for (let row = 0; row < ends.length; row++) {
    const end = ends[row]!;
    let highest = high[from]!;
    let lowest = low[from]!;
    for (let i = from + 1; i < end; i++) {
      if (high[i]! > highest) highest = high[i]!;
      if (low[i]! < lowest) lowest = low[i]!;
    }
    out.t[row] = floorToInterval(shorter.t[from]!, intervalMs);
    out.open[row] = shorter.open[from]!;
    out.high[row] = highest;
    out.low[row] = lowest;
    out.close[row] = shorter.close[end - 1]!;
    ticks[row] = shorter.ticks?.subarray(from, end).reduce((sum, count) => sum + count, 0) ?? end - from;
    from = end;
  }
  for (const [s, symbol] of shorter.symbols.entries())
    fillCoveredShare(out, offsets[s]!, offsets[s + 1]!, coverage.get(symbol) ?? [], intervalMs);
  const candles = { symbols: shorter.symbols, offsets, ...out, ticks };
  return { ...candles, ...computeCandleSeriesColumns(candles, intervalMs, series) };
}

/**
 * Computes the candles of several intervals, in the order of `intervalsMs`. The shortest is computed from the ticks;
 * its multiples are aggregated from it.
 */
export function computeAllCandles(
  part: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervalsMs: readonly number[],
  series: CandleSeries = {},
): CandleColumns[] {
  const shortest = Math.min(...intervalsMs);
  if (intervalsMs.length === 0) return [];
  const shorter = computeCandles(part, coverage, shortest, series);
  return intervalsMs.map((ms) => {
    if (ms === shortest) return shorter;
    return ms % shortest === 0
      ? aggregateCandles(shorter, coverage, ms, series)
      : computeCandles(part, coverage, ms, series);
  });
}

/** The columns that come from ticks and coverage. */
type TickCandleColumns = Omit<CandleColumns, keyof SymbolOffsets | keyof CandleSeriesColumns>;

/** Allocates the columns of `length` candles, all zero. */
function allocateCandles(length: number): TickCandleColumns {
  const doubles = (): Float64Array => new Float64Array(length);
  const prices = { open: doubles(), high: doubles(), low: doubles(), close: doubles() };
  return { t: doubles(), ...prices, ticks: new Int32Array(length), covered: doubles() };
}

const floorToInterval = (t: number, intervalMs: number): number => Math.floor(t / intervalMs) * intervalMs;

/** Finds the offset of each symbol's first candle, and for each candle the input row after its last. */
function findIntervals(
  part: Pick<PartColumns, 'symbols' | 'offsets' | 't'>,
  intervalMs: number,
): { offsets: Float64Array; ends: readonly number[] } {
  const offsets = new Float64Array(part.symbols.length + 1);
  const ends: number[] = [];
  for (let s = 0; s < part.symbols.length; s++) {
    const to = part.offsets[s + 1]!;
    for (let i = part.offsets[s]!; i < to; ) {
      i = seek(part.t, i + 1, to, floorToInterval(part.t[i]!, intervalMs) + intervalMs);
      ends.push(i);
    }
    offsets[s + 1] = ends.length;
  }
  return { offsets, ends };
}

/** Makes one pass over a symbol's candles and windows, both sorted by time. Sums of integer milliseconds are exact. */
function fillCoveredShare(
  out: { readonly t: Float64Array; readonly covered: Float64Array },
  from: number,
  to: number,
  windows: readonly Window[],
  intervalMs: number,
): void {
  let next = 0;
  for (let row = from; row < to; row++) {
    const interval = { from: out.t[row]!, to: out.t[row]! + intervalMs };
    while (next < windows.length && windows[next]!.to <= interval.from) next++;
    let ms = 0;
    for (let w = next; w < windows.length && windows[w]!.from < interval.to; w++) {
      const overlap = intersectTwo(interval, windows[w]!);
      ms += overlap.to - overlap.from;
    }
    out.covered[row] = ms / intervalMs;
  }
}

/** Concatenates candles. The symbols of each element come after those of the previous element. */
export function concatCandles(parts: readonly CandleColumns[]): CandleColumns {
  if (parts.length === 1) return parts[0]!;
  const rows = parts.reduce((sum, { t }) => sum + t.length, 0);
  const symbols = parts.flatMap((part) => part.symbols);
  const offsets = new Float64Array(symbols.length + 1);
  const doubles = (): Float64Array => new Float64Array(rows);
  const prices = { open: doubles(), high: doubles(), low: doubles(), close: doubles(), bid: doubles(), ask: doubles() };
  const trades = { volume: doubles(), trades: doubles(), vwap: doubles() };
  const out = { t: doubles(), ...prices, covered: doubles(), ...trades };
  const ticks = new Int32Array(rows);
  let row = 0;
  let symbol = 0;
  for (const part of parts) {
    for (const name of Object.keys(out) as (keyof typeof out)[]) out[name].set(part[name], row);
    ticks.set(part.ticks, row);
    for (let i = 0; i < part.symbols.length; i++) offsets[++symbol] = row + part.offsets[i + 1]!;
    row += part.t.length;
  }
  return { symbols, offsets, ...out, ticks };
}
