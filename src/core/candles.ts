import type { PartColumns } from './merge.ts';
import { dayMs, intersection, type Window } from './window.ts';

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
export function candlesOf(
  part: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervalMs: number,
): CandleColumns {
  const startOf = (t: number): number => Math.floor(t / intervalMs) * intervalMs;
  const offsets = offsetsOf(part, startOf);
  const length = offsets.at(-1)!;
  const doubles = (): Float64Array => new Float64Array(length);
  const out = { t: doubles(), open: doubles(), high: doubles(), low: doubles(), close: doubles(), covered: doubles() };
  const ticks = new Int32Array(length);
  part.symbols.forEach((symbol, s) => {
    let row = offsets[s]! - 1;
    let end = Number.NEGATIVE_INFINITY;
    for (let i = part.offsets[s]!; i < part.offsets[s + 1]!; i++) {
      const price = part.p[i]!;
      if (part.t[i]! >= end) {
        row++;
        out.t[row] = startOf(part.t[i]!);
        end = out.t[row]! + intervalMs;
        out.open[row] = price;
        out.high[row] = price;
        out.low[row] = price;
      }
      if (price > out.high[row]!) out.high[row] = price;
      if (price < out.low[row]!) out.low[row] = price;
      out.close[row] = price;
      ticks[row]!++;
    }
    fillCovered(out, offsets[s]!, offsets[s + 1]!, coverage.get(symbol) ?? [], intervalMs);
  });
  return { symbols: part.symbols, offsets, ...out, ticks };
}

/** Where each symbol's candles begin: as many as its ticks fall into intervals. */
function offsetsOf(part: PartColumns, startOf: (t: number) => number): Float64Array {
  const offsets = new Float64Array(part.symbols.length + 1);
  for (let s = 0; s < part.symbols.length; s++) {
    let count = 0;
    let start = Number.NEGATIVE_INFINITY;
    for (let i = part.offsets[s]!; i < part.offsets[s + 1]!; i++) {
      const its = startOf(part.t[i]!);
      if (its !== start) count++;
      start = its;
    }
    offsets[s + 1] = offsets[s]! + count;
  }
  return offsets;
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
      const shared = intersection(interval, windows[w]!);
      ms += shared.to - shared.from;
    }
    out.covered[row] = ms / intervalMs;
  }
}
