import type { Window } from '../../../src/base/window.ts';

// Window arithmetic for the checks, independent of the product's own, which may be wrong.

/** The parts of `windows` that are in none of `others`. */
export function subtractWindows(windows: readonly Window[], others: readonly Window[]): Window[] {
  const sorted = others.toSorted((a, b) => a.from - b.from);
  return windows.flatMap((window) => {
    const out: Window[] = [];
    let { from } = window;
    for (const other of sorted) {
      if (other.to <= from) continue;
      if (other.from >= window.to) break;
      if (other.from > from) out.push({ from, to: other.from });
      from = other.to;
    }
    return from < window.to ? [...out, { from, to: window.to }] : out;
  });
}

/** The contiguous end from `start` on. */
export function computeContiguousEnd(windows: readonly Window[], start: number): number {
  let end = start;
  for (const { from, to } of windows.toSorted((a, b) => a.from - b.from)) if (from <= end && to > end) end = to;
  return end;
}
