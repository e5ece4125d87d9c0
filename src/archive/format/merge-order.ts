import type { TickColumns } from '../../base/ticks.ts';
import { seek } from './tick-columns.ts';

/** Ticks of one symbol from several sources in one set of columns; `source[i]` says whose tick i is. */
export interface SourcedTicks extends TickColumns {
  readonly source: Uint32Array;
}

/** Room for ticks that have to step aside while two runs are merged: made when it is needed, and used again. */
export interface MergeScratch {
  ticks: SourcedTicks;
}

export const createMergeScratch = (): MergeScratch => ({ ticks: allocateTicks(0) });

/**
 * Puts ticks in order of time, in place; ties keep their order. They are merged run by run, as they came: whoever is
 * sorted already is only looked at, and of pages that overlap only the overlap is moved.
 *
 * This is a natural merge sort, runs merged pairwise, bottom-up (D. E. Knuth, The Art of Computer Programming, vol. 3,
 * 5.2.4), with the ends that are in place left out, as in T. Peters' timsort.
 */
export function sortTicksInPlace(ticks: SourcedTicks, aside: MergeScratch): void {
  if (isSorted(ticks.t)) return;
  let starts = findRuns(ticks);
  while (starts.length > 2) {
    const next: number[] = [];
    let i = 0;
    for (; i + 2 < starts.length; i += 2) {
      mergeRuns(ticks, starts[i]!, starts[i + 1]!, starts[i + 2]!, aside);
      next.push(starts[i]!);
    }
    for (; i < starts.length; i++) next.push(starts[i]!);
    starts = next;
  }
}

export function isSorted(t: Float64Array): boolean {
  for (let i = 1; i < t.length; i++) if (t[i - 1]! > t[i]!) return false;
  return true;
}

/** Where each run that does not fall begins, and the end; runs that fall from tick to tick are turned round first. */
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

/** Merges `from` to `middle` with `middle` to `end`, each sorted. */
function mergeRuns(ticks: SourcedTicks, from: number, middle: number, end: number, aside: MergeScratch): void {
  const { t, p, source } = ticks;
  if (t[middle - 1]! <= t[middle]!) return;
  const first = findFirstAfter(t, from, middle, t[middle]!);
  const last = seek(t, middle, end, t[middle - 1]!);
  const length = middle - first;
  if (aside.ticks.t.length < length) aside.ticks = allocateTicks(2 * length);
  const left = aside.ticks;
  copyTicks(ticks, first, middle, left, 0);
  let into = first;
  let l = 0;
  for (let r = middle; r < last; into++) {
    // The left run never ends first: its last tick is after all of these.
    if (left.t[l]! <= t[r]!) {
      t[into] = left.t[l]!;
      p[into] = left.p[l]!;
      source[into] = left.source[l++]!;
    } else {
      t[into] = t[r]!;
      p[into] = p[r]!;
      source[into] = source[r++]!;
    }
  }
  copyTicks(left, l, length, ticks, into);
}

/** Below this many a loop is done before a view of them is made. */
const viewMin = 32;

function copyTicks(of: SourcedTicks, from: number, to: number, into: SourcedTicks, at: number): void {
  if (to - from >= viewMin) {
    into.t.set(of.t.subarray(from, to), at);
    into.p.set(of.p.subarray(from, to), at);
    into.source.set(of.source.subarray(from, to), at);
    return;
  }
  for (let i = from, k = at; i < to; i++, k++) {
    into.t[k] = of.t[i]!;
    into.p[k] = of.p[i]!;
    into.source[k] = of.source[i]!;
  }
}

/** The first index from `from` to `to` of sorted values that is after `moment`; `to` where none is. */
function findFirstAfter(sorted: Float64Array, from: number, to: number, moment: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

const allocateTicks = (length: number): SourcedTicks => ({
  t: new Float64Array(length),
  p: new Float64Array(length),
  source: new Uint32Array(length),
});
