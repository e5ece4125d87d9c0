import { findFirstIndex, seek } from '../../base/binary-search.ts';
import type { TickColumns } from '../../base/ticks.ts';

/** Ticks of one symbol from several sources in one set of columns. `source[i]` is the source of tick i. */
export interface SourcedTicks extends TickColumns {
  readonly source: Uint32Array;
}

/** Reusable buffer for the ticks that are moved while two runs are merged. It grows on demand. */
export interface MergeScratch {
  ticks: SourcedTicks;
}

export const createMergeScratch = (): MergeScratch => ({ ticks: allocateTicks(0) });

/**
 * Sorts ticks by time, in place and stably. Input that is already sorted is only scanned. If pages overlap, only the
 * overlap is moved.
 *
 * This is a natural merge sort: runs are merged pairwise, bottom-up (D. E. Knuth, The Art of Computer Programming, vol.
 * 3, 5.2.4). Ends that are already in place are skipped, as in T. Peters' timsort.
 */
export function sortTicksInPlace(ticks: SourcedTicks, scratch: MergeScratch): void {
  if (isSorted(ticks.t)) return;
  let starts = findRuns(ticks);
  while (starts.length > 2) {
    const next: number[] = [];
    let i = 0;
    for (; i + 2 < starts.length; i += 2) {
      mergeRuns(ticks, starts[i]!, starts[i + 1]!, starts[i + 2]!, scratch);
      next.push(starts[i]!);
    }
    for (; i < starts.length; i++) next.push(starts[i]!);
    starts = next;
  }
}

/** @param direction 1 for ascending, -1 for descending; equal values are in order in both */
export function isSorted(t: Float64Array, direction: 1 | -1 = 1): boolean {
  for (let i = 1; i < t.length; i++) if (direction * (t[i]! - t[i - 1]!) < 0) return false;
  return true;
}

/** Finds the start of each non-decreasing run, and the end of the last. Strictly decreasing runs are reversed first. */
function findRuns(ticks: SourcedTicks): number[] {
  const { t } = ticks;
  const starts: number[] = [];
  for (let from = 0; from < t.length; ) {
    starts.push(from);
    let to = from + 1;
    if (to < t.length && t[to]! < t[from]!) {
      while (to < t.length && t[to]! < t[to - 1]!) to++;
      for (const column of [t, ticks.p, ticks.source]) column.subarray(from, to).reverse();
    } else while (to < t.length && t[to]! >= t[to - 1]!) to++;
    from = to;
  }
  starts.push(t.length);
  return starts;
}

/** Merges the sorted runs [from, middle) and [middle, end). */
function mergeRuns(ticks: SourcedTicks, from: number, middle: number, end: number, scratch: MergeScratch): void {
  const { t, p, source } = ticks;
  const leftEnd = t[middle - 1]!;
  const rightStart = t[middle]!;
  if (leftEnd <= rightStart) return;
  const first = findFirstIndex(from, middle, (i) => t[i]! > rightStart);
  const last = seek(t, middle, end, leftEnd);
  const length = middle - first;
  if (scratch.ticks.t.length < length) scratch.ticks = allocateTicks(2 * length);
  const left = scratch.ticks;
  copyTicks(ticks, first, middle, left, 0);
  let target = first;
  let l = 0;
  for (let r = middle; r < last; target++) {
    // The left run never ends first: its last tick is later than every tick in this range.
    if (left.t[l]! <= t[r]!) {
      t[target] = left.t[l]!;
      p[target] = left.p[l]!;
      source[target] = left.source[l++]!;
    } else {
      t[target] = t[r]!;
      p[target] = p[r]!;
      source[target] = source[r++]!;
    }
  }
  copyTicks(left, l, length, ticks, target);
}

/** Below this length a loop is faster than a subarray view. */
const viewMin = 32;

function copyTicks(source: SourcedTicks, from: number, to: number, target: SourcedTicks, at: number): void {
  if (to - from >= viewMin) {
    target.t.set(source.t.subarray(from, to), at);
    target.p.set(source.p.subarray(from, to), at);
    target.source.set(source.source.subarray(from, to), at);
    return;
  }
  for (let i = from, k = at; i < to; i++, k++) {
    target.t[k] = source.t[i]!;
    target.p[k] = source.p[i]!;
    target.source[k] = source.source[i]!;
  }
}

const allocateTicks = (length: number): SourcedTicks => ({
  t: new Float64Array(length),
  p: new Float64Array(length),
  source: new Uint32Array(length),
});
