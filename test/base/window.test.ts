import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  covers,
  dayMs,
  findContiguousEnd,
  floorToDay,
  intersect,
  intersectTwo,
  isEmpty,
  isWithin,
  splitByDay,
  subtract,
  union,
  type Window,
} from '../../src/base/window.ts';
import { checkProperty } from '../harness/properties.ts';

const size = 24;
const anyWindow = fc
  .tuple(fc.integer({ min: 0, max: size }), fc.integer({ min: 0, max: size }))
  .map(([from, to]): Window => ({ from, to }));
const anyWindows = fc.array(anyWindow, { maxLength: 8 });

/** The model: a window is the set of its instants. */
const moments = (windows: readonly Window[]): boolean[] =>
  Array.from({ length: size }, (_, t) => windows.some((w) => w.from <= t && t < w.to));

const both = (a: readonly boolean[], b: readonly boolean[], join: (x: boolean, y: boolean) => boolean): boolean[] =>
  a.map((x, i) => join(x, b[i]!));

/** Sorted, disjoint, not adjacent and not empty: the canonical form of a set of instants. */
function expectTidy(windows: readonly Window[]): void {
  windows.forEach((w, i) => {
    expect(w.from).toBeLessThan(w.to);
    if (i > 0) expect(windows[i - 1]!.to).toBeLessThan(w.from);
  });
}

describe('windows', () => {
  test('include their start and exclude their end', () => {
    expect([4, 5, 6, 7].map((t) => isWithin(t, { from: 5, to: 7 }))).toEqual([false, true, true, false]);
    expect(isEmpty({ from: 5, to: 5 })).toBe(true);
    expect(isEmpty({ from: 6, to: 5 })).toBe(true);
    expect(isEmpty({ from: 5, to: 6 })).toBe(false);
  });

  test('unite in any order and with any overlap', () => {
    checkProperty([anyWindows], 100, (windows) => {
      const all = union(windows);
      expectTidy(all);
      expect(moments(all)).toEqual(moments(windows));
    });
  });

  test('subtract', () => {
    checkProperty([anyWindows, anyWindows], 100, (windows, taken) => {
      const left = subtract(windows, taken);
      expectTidy(left);
      expect(moments(left)).toEqual(both(moments(windows), moments(taken), (x, y) => x && !y));
    });
  });

  test('intersect', () => {
    checkProperty([anyWindows, anyWindows], 100, (windows, others) => {
      const shared = intersect(windows, others);
      expectTidy(shared);
      expect(moments(shared)).toEqual(both(moments(windows), moments(others), (x, y) => x && y));
    });
    checkProperty([anyWindow, anyWindow], 100, (a, b) => {
      expect(moments([intersectTwo(a, b)])).toEqual(both(moments([a]), moments([b]), (x, y) => x && y));
    });
  });

  test('cover a window only if they contain every instant', () => {
    checkProperty([anyWindows, anyWindow], 100, (windows, w) => {
      const missing = both(moments([w]), moments(windows), (x, y) => x && !y);
      expect(covers(windows, w)).toBe(!missing.includes(true));
    });
  });

  test('have a contiguous end: the first uncovered instant from the start', () => {
    checkProperty([anyWindows, fc.integer({ min: 0, max: size })], 100, (windows, start) => {
      const set = moments(windows);
      let end = start;
      while (set[end] === true) end++;
      expect(findContiguousEnd(windows, start)).toBe(end);
    });
  });

  test('may be unbounded', () => {
    const always = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
    expect(subtract([always], [{ from: 3, to: 5 }])).toEqual([
      { from: Number.NEGATIVE_INFINITY, to: 3 },
      { from: 5, to: Number.POSITIVE_INFINITY },
    ]);
    expect(intersect([always], [{ from: 3, to: 5 }])).toEqual([{ from: 3, to: 5 }]);
  });

  test('are split at midnights into adjacent windows of one day', () => {
    const anyTime = fc.integer({ min: -3 * dayMs, max: 5 * dayMs });
    checkProperty([anyTime, anyTime], 100, (from, to) => {
      const pieces = splitByDay({ from, to });
      expect(union(pieces)).toEqual(from < to ? [{ from, to }] : []);
      for (const piece of pieces) {
        expect(isEmpty(piece)).toBe(false);
        expect(floorToDay(piece.from)).toBe(floorToDay(piece.to - 1));
      }
      expect(pieces.slice(1).every((piece, i) => piece.from === pieces[i]!.to && piece.from % dayMs === 0)).toBe(true);
    });
  });
});
