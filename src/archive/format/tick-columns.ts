import { compareUtf8 } from '../../base/symbol-name.ts';
import type { TickColumns } from '../../base/ticks.ts';
import type { Window } from '../../base/window.ts';
import type { Precedence } from './precedence.ts';

/** Ticks of one symbol from one response, in any order, possibly with duplicates. */
export interface TickChunk extends TickColumns, Precedence {
  readonly symbol: string;
  /** The run that counts these ticks. */
  readonly runId: string;
}

/** Ticks of many symbols: symbol i holds rows offsets[i] to offsets[i + 1], sorted by t. Symbols are in UTF-8 order. */
export interface PartColumns extends TickColumns {
  readonly symbols: readonly string[];
  readonly offsets: Float64Array;
}

export interface Conflict {
  readonly symbol: string;
  readonly t: number;
  readonly kept: number;
  readonly dropped: number;
  readonly seenAt: number;
}

export interface RunTally {
  accepted: number;
  duplicates: number;
  conflicts: number;
}

export const emptyPart: PartColumns = {
  symbols: [],
  offsets: new Float64Array(1),
  t: new Float64Array(0),
  p: new Float64Array(0),
};

/** Returns a lookup of a symbol's tick times, ascending; empty for a symbol without ticks. */
export function indexTickTimes({ symbols, offsets, t }: PartColumns): (symbol: string) => Float64Array {
  const index = new Map(symbols.map((symbol, i) => [symbol, i]));
  return (symbol) => {
    const at = index.get(symbol);
    return at === undefined ? t.subarray(0, 0) : t.subarray(offsets[at]!, offsets[at + 1]!);
  };
}

/** Counts the ascending times inside a half-open window. */
export const countTicksInWindow = (t: Float64Array, { from, to }: Window): number =>
  findFirstAtOrAfter(t, to) - findFirstAtOrAfter(t, from);

/**
 * Checks rows before they are written to a part: symbols in UTF-8 order, each once, and strictly ascending times inside
 * the part's day.
 * @param after the symbol written before these; undefined if there is none
 * @throws Error if a row is out of order, repeats a key or lies outside the day
 */
export function assertPartOrder(
  { symbols, offsets, t }: Pick<PartColumns, 'symbols' | 'offsets' | 't'>,
  { from, to }: Window,
  after?: string,
): void {
  let previous = after;
  for (let s = 0; s < symbols.length; s++) {
    const symbol = symbols[s]!;
    if (previous !== undefined && compareUtf8(previous, symbol) >= 0)
      throw createPartOrderError(`${symbol} follows ${previous}`);
    previous = symbol;
    const end = offsets[s + 1]!;
    // The comparisons are negated so that NaN is rejected.
    let last = from - 1;
    for (let i = offsets[s]!; i < end; i++) {
      const time = t[i]!;
      if (!(time > last)) throw createPartOrderError(`${symbol} has ${time} after ${last}`);
      last = time;
    }
    if (!(last < to)) throw createPartOrderError(`${symbol} has ${last}, which is not before ${to}`);
  }
}

const createPartOrderError = (detail: string): Error =>
  new Error(`Invalid part rows, nothing was written: ${detail}. This is a bug.`);

/** Finds the first index of sorted values whose value is at or after `time`; their length if there is none. */
export function findFirstAtOrAfter(sorted: Float64Array, time: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Finds the first index in [from, to) of sorted values whose value is at or after `time`; `to` if there is none.
 * Galloping search: the cost grows with the distance from `from`.
 */
export function seek(sorted: Float64Array, from: number, to: number, time: number): number {
  let step = 1;
  let low = from;
  while (low + step <= to && sorted[low + step - 1]! < time) {
    low += step;
    step *= 2;
  }
  let high = Math.min(to, low + step - 1);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
