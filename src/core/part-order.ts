import { compareUtf8 } from './compare-utf8.ts';
import type { PartColumns } from './tick-columns.ts';
import type { Window } from './window.ts';

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
