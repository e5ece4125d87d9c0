import { emptyTicks, type TickColumns } from '../core/tick.ts';

/** One after another; the same arrays where there is only one block. */
export function concatTicks(blocks: readonly TickColumns[]): TickColumns {
  if (blocks.length === 0) return emptyTicks;
  if (blocks.length === 1) return blocks[0]!;
  const rows = blocks.reduce((sum, block) => sum + block.t.length, 0);
  const t = new Float64Array(rows);
  const p = new Float64Array(rows);
  let at = 0;
  for (const block of blocks) {
    t.set(block.t, at);
    p.set(block.p, at);
    at += block.t.length;
  }
  return { t, p };
}

/** Rows from `first` up to, not including, `end`; no copy. */
export function sliceTicks(ticks: TickColumns, first: number, end: number): TickColumns {
  if (first === 0 && end === ticks.t.length) return ticks;
  return { t: ticks.t.subarray(first, end), p: ticks.p.subarray(first, end) };
}

/** The first row of the rising column with `t >= at`, looked for in [low, high). */
export function findRow(t: Float64Array, at: number, low = 0, high = t.length): number {
  let first = low;
  let end = high;
  while (first < end) {
    const middle = (first + end) >>> 1;
    if (t[middle]! < at) first = middle + 1;
    else end = middle;
  }
  return first;
}
