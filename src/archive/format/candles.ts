import { dayMs, intersectTwo, type Window } from '../../base/window.ts';
import { type PartColumns, seek } from './tick-columns.ts';

/** The intervals that the archive publishes candles of, in ms. Each divides a UTC day, so none stands in two days. */
export const candleIntervals = { '1h': 3_600_000, '1d': dayMs } as const;

export type CandleInterval = keyof typeof candleIntervals;

/** Candles of many symbols: symbol i holds rows offsets[i] to offsets[i + 1], sorted by t. Symbols in UTF-8 order. */
export interface CandleColumns {
  readonly symbols: readonly string[];
  readonly offsets: Float64Array;
  /** Start of the interval, epoch milliseconds. */
  readonly t: Float64Array;
  readonly open: Float64Array;
  readonly high: Float64Array;
  readonly low: Float64Array;
  readonly close: Float64Array;
  readonly ticks: Int32Array;
  /** Share of the interval that coverage holds, 0 to 1. */
  readonly covered: Float64Array;
}

/**
 * The candles of a part's ticks: one for each interval of `intervalMs` that has ticks, none for another, and nothing is
 * carried over. `coverage` is what of each symbol's time was asked and answered, sorted and disjoint.
 */
export function computeCandles(
  part: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervalMs: number,
): CandleColumns {
  const { offsets, ends } = findIntervals(part, intervalMs);
  const { ticks, ...out } = allocateCandles(ends.length);
  let from = part.offsets[0]!;
  for (let row = 0; row < ends.length; row++) {
    const end = ends[row]!;
    let high = part.p[from]!;
    let low = high;
    for (let i = from + 1; i < end; i++) {
      const price = part.p[i]!;
      if (price > high) high = price;
      if (price < low) low = price;
    }
    out.t[row] = floorToInterval(part.t[from]!, intervalMs);
    out.open[row] = part.p[from]!;
    out.high[row] = high;
    out.low[row] = low;
    out.close[row] = part.p[end - 1]!;
    ticks[row] = end - from;
    from = end;
  }
  for (const [s, symbol] of part.symbols.entries()) {
    fillCovered(out, offsets[s]!, offsets[s + 1]!, coverage.get(symbol) ?? [], intervalMs);
  }
  return { symbols: part.symbols, offsets, ...out, ticks };
}

/**
 * The candles of a longer interval from those of a shorter one that divides it: the same as of the ticks themselves, a
 * thousandth of the work.
 */
export function aggregateCandles(
  fine: CandleColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervalMs: number,
): CandleColumns {
  const { offsets, ends } = findIntervals(fine, intervalMs);
  const { ticks, ...out } = allocateCandles(ends.length);
  let from = 0;
  for (let row = 0; row < ends.length; row++) {
    const end = ends[row]!;
    out.t[row] = floorToInterval(fine.t[from]!, intervalMs);
    out.open[row] = fine.open[from]!;
    out.high[row] = fine.high[from]!;
    out.low[row] = fine.low[from]!;
    out.close[row] = fine.close[end - 1]!;
    for (let i = from; i < end; i++) {
      if (fine.high[i]! > out.high[row]!) out.high[row] = fine.high[i]!;
      if (fine.low[i]! < out.low[row]!) out.low[row] = fine.low[i]!;
      ticks[row]! += fine.ticks[i]!;
    }
    from = end;
  }
  for (const [s, symbol] of fine.symbols.entries())
    fillCovered(out, offsets[s]!, offsets[s + 1]!, coverage.get(symbol) ?? [], intervalMs);
  return { symbols: fine.symbols, offsets, ...out, ticks };
}

/** The candles of several intervals, in their order: of the ticks for the shortest, of its candles for those it divides. */
export function computeAllCandles(
  part: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervalsMs: readonly number[],
): CandleColumns[] {
  const shortest = Math.min(...intervalsMs);
  if (intervalsMs.length === 0) return [];
  const fine = computeCandles(part, coverage, shortest);
  return intervalsMs.map((ms) => {
    if (ms === shortest) return fine;
    return ms % shortest === 0 ? aggregateCandles(fine, coverage, ms) : computeCandles(part, coverage, ms);
  });
}

/** Columns of so many candles, all zero. */
function allocateCandles(length: number): Omit<CandleColumns, 'symbols' | 'offsets'> {
  const doubles = (): Float64Array => new Float64Array(length);
  const prices = { open: doubles(), high: doubles(), low: doubles(), close: doubles() };
  return { t: doubles(), ...prices, ticks: new Int32Array(length), covered: doubles() };
}

const floorToInterval = (t: number, intervalMs: number): number => Math.floor(t / intervalMs) * intervalMs;

/** Where each symbol's candles begin, and before which row of what is given each candle ends. */
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

/** One pass over one symbol's candles and windows, both in order of time. Whole milliseconds add up exactly. */
function fillCovered(
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
      const shared = intersectTwo(interval, windows[w]!);
      ms += shared.to - shared.from;
    }
    out.covered[row] = ms / intervalMs;
  }
}

/** Candles of several lots of symbols, each lot's symbols after those of the one before. */
export function concatCandles(lots: readonly CandleColumns[]): CandleColumns {
  if (lots.length === 1) return lots[0]!;
  const rows = lots.reduce((sum, { t }) => sum + t.length, 0);
  const symbols = lots.flatMap((lot) => lot.symbols);
  const offsets = new Float64Array(symbols.length + 1);
  const doubles = (): Float64Array => new Float64Array(rows);
  const out = { t: doubles(), open: doubles(), high: doubles(), low: doubles(), close: doubles(), covered: doubles() };
  const ticks = new Int32Array(rows);
  let row = 0;
  let symbol = 0;
  for (const lot of lots) {
    for (const name of Object.keys(out) as (keyof typeof out)[]) out[name].set(lot[name], row);
    ticks.set(lot.ticks, row);
    for (let i = 0; i < lot.symbols.length; i++) offsets[++symbol] = row + lot.offsets[i + 1]!;
    row += lot.t.length;
  }
  return { symbols, offsets, ...out, ticks };
}
