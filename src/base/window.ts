/** A half-open span of time, `from <= t < to`, in epoch milliseconds UTC. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

/** Milliseconds in a UTC day; days have no leap seconds in epoch time. */
export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const dayMs = 86_400_000;

/** UTC midnight at or before `t`, in epoch milliseconds: the key under which a day is known inside. */
export const floorToDay = (t: number): number => Math.floor(t / dayMs) * dayMs;

export const isEmpty = (w: Window): boolean => w.from >= w.to;

export const isWithin = (t: number, w: Window): boolean => w.from <= t && t < w.to;

export const intersectTwo = (a: Window, b: Window): Window => ({
  from: Math.max(a.from, b.from),
  to: Math.min(a.to, b.to),
});

/** Sorted, disjoint, with adjoining windows joined; empty ones are gone. */
export function union(windows: readonly Window[]): Window[] {
  // Most symbols have one.
  if (windows.length < 2) return windows.filter((w) => !isEmpty(w)).map(({ from, to }) => ({ from, to }));
  const sorted = windows.filter((w) => !isEmpty(w)).sort((a, b) => a.from - b.from);
  const out: { from: number; to: number }[] = [];
  for (const w of sorted) {
    const last = out.at(-1);
    if (last !== undefined && w.from <= last.to) last.to = Math.max(last.to, w.to);
    else out.push({ from: w.from, to: w.to });
  }
  return out;
}

/** What of `windows` is left without `taken`. Both may be in any order; the result is sorted and disjoint. */
export function subtract(windows: readonly Window[], taken: readonly Window[]): Window[] {
  const holes = union(taken);
  const out: Window[] = [];
  for (const w of union(windows)) {
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

/** What `windows` and `others` share, sorted and disjoint. */
export function intersect(windows: readonly Window[], others: readonly Window[]): Window[] {
  const left = union(windows);
  const right = union(others);
  const out: Window[] = [];
  for (let i = 0, j = 0; i < left.length && j < right.length; ) {
    const both = intersectTwo(left[i]!, right[j]!);
    if (!isEmpty(both)) out.push(both);
    if (left[i]!.to < right[j]!.to) i++;
    else j++;
  }
  return out;
}

/** The end of the stretch of `windows` that holds `start`; `start` itself where none does. This is the cursor. */
export function findContiguousEnd(windows: readonly Window[], start: number): number {
  return union(windows).find((w) => isWithin(start, w))?.to ?? start;
}

/** Cuts a window at UTC midnights. */
export function splitByDay(w: Window): Window[] {
  const out: Window[] = [];
  for (let from = w.from; from < w.to; ) {
    const to = Math.min(w.to, floorToDay(from) + dayMs);
    out.push({ from, to });
    from = to;
  }
  return out;
}

/** True where every instant of `w` is in `windows`. */
export const covers = (windows: readonly Window[], w: Window): boolean => subtract([w], windows).length === 0;
