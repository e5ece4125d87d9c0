import { findFirstAtOrAfter } from './binary-search.ts';
import type { PartColumns } from './tick-columns.ts';
import type { Window } from './window.ts';

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
