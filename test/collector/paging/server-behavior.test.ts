import { expect, test } from 'vitest';
import { hourMs } from '../../../src/base/window.ts';
import {
  createServerBehavior,
  getKnownPages,
  looksTruncated,
  noteComplete,
  noteEdges,
  noteReach,
  noteTruncated,
  splitToReach,
  toRequestedWindow,
} from '../../../src/collector/paging/server-behavior.ts';

const page = (received: number, isFull = false) => ({ received, isFull });

test('a page larger than any complete one looks truncated', () => {
  const behavior = createServerBehavior();
  expect(looksTruncated(behavior, page(10), 'high')).toBe(true);
  noteComplete(behavior, 10);
  expect([looksTruncated(behavior, page(10), 'high'), looksTruncated(behavior, page(11), 'high')]).toEqual([
    false,
    true,
  ]);
});

test('a page with the requested number of elements always looks truncated', () => {
  const behavior = createServerBehavior();
  noteComplete(behavior, 10);
  expect(looksTruncated(behavior, page(10, true), 'high')).toBe(true);
  expect(looksTruncated(behavior, page(1, true), 'high')).toBe(true);
});

test('a page near the size of truncated ones looks truncated at the side that they lost', () => {
  const behavior = createServerBehavior();
  noteTruncated(behavior, 100, 'high');
  expect(behavior.side).toBe('earliest');
  expect([79, 80, 100].map((count) => looksTruncated(behavior, page(count), 'high'))).toEqual([false, true, true]);
  expect(looksTruncated(behavior, page(100), 'low')).toBe(false);
  noteTruncated(behavior, 100, 'low');
  expect(behavior).toMatchObject({ side: null, isSideMixed: true });
  expect(looksTruncated(behavior, page(100), 'low')).toBe(true);
});

test('a truncated page smaller than a complete one makes page sizes unreliable', () => {
  const behavior = createServerBehavior();
  noteComplete(behavior, 100);
  noteTruncated(behavior, 100, 'high');
  expect(behavior.isErratic).toBe(false);
  noteTruncated(behavior, 99, 'high');
  expect(behavior.isErratic).toBe(true);
  expect(looksTruncated(behavior, page(5), 'low')).toBe(true);
});

test('a request omits its margin only where the ends are known to be included', () => {
  const behavior = createServerBehavior();
  const window = { from: 1000, to: 2000 };
  expect(toRequestedWindow(behavior, window, true)).toEqual({ from: 999, to: 2000 });
  noteEdges(behavior, { from: 999, to: 2000 }, Float64Array.from([999, 2000]));
  expect(toRequestedWindow(behavior, window, true)).toEqual({ from: 1000, to: 1999 });
  expect(toRequestedWindow(behavior, window, false)).toEqual({ from: 999, to: 2000 });
  // More than one tick outside of the window means that the server ignores from/to.
  const other = createServerBehavior();
  noteEdges(other, { from: 999, to: 2000 }, Float64Array.from([1, 2, 999, 2000]));
  expect(other).toMatchObject({ fromInclusive: false, toInclusive: false });
});

test('requests are made on the grid to which a server rounds, in the next run as well', () => {
  expect(getKnownPages(createServerBehavior())).toBeNull();
  const next = createServerBehavior(getKnownPages({ ...createServerBehavior(), gridMs: 1000 })!);
  for (const isExact of [true, false])
    expect(toRequestedWindow(next, { from: 2000, to: 3500 }, isExact)).toEqual({ from: 1000, to: 4000 });
});

test('windows are split into days or half days where answers reach less, and the reach is forgotten when they reach more', () => {
  const hours = (reach: number, from: number, to: number) =>
    splitToReach({ reachMs: reach * hourMs }, { from: from * hourMs, to: to * hourMs }).map((w) => [
      w.from / hourMs,
      w.to / hourMs,
    ]);
  expect(hours(24, 30, 55)).toEqual([
    [30, 37],
    [35, 49],
    [47, 55],
  ]);
  expect(hours(76, 30, 200)).toEqual([
    [30, 73],
    [71, 145],
    [143, 200],
  ]);
  for (const reach of [15, 120, Number.POSITIVE_INFINITY]) expect(hours(reach, 30, 200)).toEqual([[30, 200]]);
  expect(hours(24, 30, 42)).toEqual([[30, 42]]);
  const behavior = createServerBehavior();
  const note = (requested: number, reach: number) => {
    noteReach(behavior, { requestedMs: requested * hourMs, reachMs: reach * hourMs });
    return createServerBehavior(getKnownPages(behavior) ?? {}).reachMs / hourMs;
  };
  expect(note(192, 181)).toBe(Number.POSITIVE_INFINITY);
  expect(note(192, 24)).toBe(24);
  // A night that requested no more than was reached says nothing.
  expect(note(30, 25)).toBe(24);
  expect(note(192, 190)).toBe(Number.POSITIVE_INFINITY);
});
