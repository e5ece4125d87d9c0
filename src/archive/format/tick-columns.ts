import { compareUtf8 } from '../../base/symbol-name.ts';
import type { TickColumns } from '../../base/ticks.ts';
import type { Window } from '../../base/window.ts';
import type { Precedence } from './precedence.ts';

/** Ticks of one symbol from one answer, in any order, repeats included. */
export interface TickChunk extends TickColumns, Precedence {
  readonly symbol: string;
  /** Whose count these ticks go to. */
  readonly runId: string;
}

/** Ticks of many symbols: symbol i holds rows offsets[i] to offsets[i + 1], sorted by t. Symbols in UTF-8 order. */
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

/** The times of a symbol's ticks, rising; none where it has none. */
export function indexTickTimes({ symbols, offsets, t }: PartColumns): (symbol: string) => Float64Array {
  const index = new Map(symbols.map((symbol, i) => [symbol, i]));
  return (symbol) => {
    const at = index.get(symbol);
    return at === undefined ? t.subarray(0, 0) : t.subarray(offsets[at]!, offsets[at + 1]!);
  };
}

/** How many of these times, which rise, are in a window, its end excluded. */
export const countTicksInWindow = (t: Float64Array, { from, to }: Window): number =>
  findFirstAtOrAfter(t, to) - findFirstAtOrAfter(t, from);

/**
 * Checks what is about to be written as rows of a part: symbols in UTF-8 order, each once, and the ticks of each at rising
 * times within the part's day.
 * @param after the symbol written before these; undefined where there is none
 * @throws Error where a row breaks the order, repeats a key or lies outside of the day
 */
export function assertPartOrder(
  { symbols, offsets, t }: Pick<PartColumns, 'symbols' | 'offsets' | 't'>,
  { from, to }: Window,
  after?: string,
): void {
  let before = after;
  for (let s = 0; s < symbols.length; s++) {
    const symbol = symbols[s]!;
    if (before !== undefined && compareUtf8(before, symbol) >= 0)
      throw createPartOrderError(`${symbol} follows ${before}`);
    before = symbol;
    const end = offsets[s + 1]!;
    // Comparisons are negated, so that what is no number is refused.
    let last = from - 1;
    for (let i = offsets[s]!; i < end; i++) {
      const time = t[i]!;
      if (!(time > last)) throw createPartOrderError(`${symbol} has ${time} after ${last}`);
      last = time;
    }
    if (!(last < to)) throw createPartOrderError(`${symbol} has ${last}, which is not before ${to}`);
  }
}

const createPartOrderError = (what: string): Error =>
  new Error(`Rows that may not be in a part were refused before anything was written: ${what}. This is a bug.`);

/** The first index of sorted values whose value is not before `moment`; their length where all are. */
export function findFirstAtOrAfter(sorted: Float64Array, moment: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The first index from `from` to `to` of sorted values whose value is not before `moment`; `to` where all are. The nearer
 * it is to `from`, the sooner it is found: for walks that go on from where they are.
 */
export function seek(sorted: Float64Array, from: number, to: number, moment: number): number {
  let step = 1;
  let low = from;
  while (low + step <= to && sorted[low + step - 1]! < moment) {
    low += step;
    step *= 2;
  }
  let high = Math.min(to, low + step - 1);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}
