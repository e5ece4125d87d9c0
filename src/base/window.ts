import { findFirstIndex } from './binary-search.ts';

/** A half-open time range, `from <= t < to`, in epoch milliseconds UTC. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

export const minuteMs = 60_000;
export const hourMs = 3_600_000;
/** Milliseconds in a UTC day. Epoch time has no leap seconds. */
export const dayMs = 86_400_000;

/** UTC midnight at or before `t`, in epoch milliseconds. It is also the internal key of a day. */
export const floorToDay = (t: number): number => Math.floor(t / dayMs) * dayMs;

export const isEmpty = (w: Window): boolean => w.from >= w.to;

export const isWithin = (t: number, w: Window): boolean => w.from <= t && t < w.to;

export const intersectTwo = (a: Window, b: Window): Window => ({
  from: Math.max(a.from, b.from),
  to: Math.min(a.to, b.to),
});

export const overlaps = (a: Window, b: Window): boolean => !isEmpty(intersectTwo(a, b));

/** Returns the union of windows, sorted and disjoint. Adjacent windows are joined, and empty windows are dropped. */
export function union(windows: readonly Window[]): Window[] {
  // Fast path: most windows come from a union.
  if (isUnion(windows)) return windows.map(({ from, to }) => ({ from, to }));
  const sorted = windows.filter((w) => !isEmpty(w)).sort((a, b) => a.from - b.from);
  const out: { from: number; to: number }[] = [];
  for (const w of sorted) {
    const last = out.at(-1);
    if (last !== undefined && w.from <= last.to) last.to = Math.max(last.to, w.to);
    else out.push({ from: w.from, to: w.to });
  }
  return out;
}

/** Whether windows are their own union: sorted, disjoint and not adjacent, and none of them is empty. */
function isUnion(windows: readonly Window[]): boolean {
  for (let i = 0; i < windows.length; i++) {
    const { from, to } = windows[i]!;
    if (!(from < to) || (i > 0 && !(windows[i - 1]!.to < from))) return false;
  }
  return true;
}

/** The same windows, or their union. */
const toUnion = (windows: readonly Window[]): readonly Window[] => (isUnion(windows) ? windows : union(windows));

/** Returns `windows` minus `taken`, sorted and disjoint. Both may be in any order. */
export function subtract(windows: readonly Window[], taken: readonly Window[]): Window[] {
  const holes = toUnion(taken);
  const out: Window[] = [];
  for (const w of toUnion(windows)) {
    let from = w.from;
    for (const hole of holes) {
      if (hole.from >= w.to) break;
      if (hole.from > from) out.push({ from, to: hole.from });
      from = Math.max(from, hole.to);
    }
    if (from < w.to) out.push({ from, to: w.to });
  }
  return out;
}

/** Returns the intersection of `windows` and `others`, sorted and disjoint. */
export function intersect(windows: readonly Window[], others: readonly Window[]): Window[] {
  const left = toUnion(windows);
  const right = toUnion(others);
  const out: Window[] = [];
  for (let i = 0, j = 0; i < left.length && j < right.length; ) {
    const both = intersectTwo(left[i]!, right[j]!);
    if (!isEmpty(both)) out.push(both);
    if (left[i]!.to < right[j]!.to) i++;
    else j++;
  }
  return out;
}

/** Returns the cursor: the end of the contiguous coverage from `start`, or `start` if it is not covered. */
export function findContiguousEnd(windows: readonly Window[], start: number): number {
  return union(windows).find((w) => isWithin(start, w))?.to ?? start;
}

/** Splits a window at UTC midnights. */
export function splitByDay(w: Window): Window[] {
  const out: Window[] = [];
  for (let from = w.from; from < w.to; ) {
    const to = Math.min(w.to, floorToDay(from) + dayMs);
    out.push({ from, to });
    from = to;
  }
  return out;
}

/**
 * Finds the index of the first of sorted, disjoint windows that ends after `t`, by binary search. Returns the number of
 * windows if none does.
 */
export const findFirstEndingAfter = (sorted: readonly Window[], t: number): number =>
  findFirstIndex(0, sorted.length, (i) => sorted[i]!.to > t);

/** Whether `windows` contain all of `w`. */
export const covers = (windows: readonly Window[], w: Window): boolean => subtract([w], windows).length === 0;
