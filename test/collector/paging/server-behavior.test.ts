import { expect, test } from 'vitest';
import {
  createServerBehavior,
  looksTruncated,
  needsEndCheck,
  needsGapCheck,
  noteEdges,
  noteTruncated,
  noteWhole,
  toRequestedWindow,
} from '../../../src/collector/paging/server-behavior.ts';

const page = (received: number, isFull = false) => ({ received, isFull });

test('a page looks truncated while nothing as large was seen whole', () => {
  const behavior = createServerBehavior();
  expect(looksTruncated(behavior, page(10), 'high')).toBe(true);
  noteWhole(behavior, 10);
  expect([looksTruncated(behavior, page(10), 'high'), looksTruncated(behavior, page(11), 'high')]).toEqual([
    false,
    true,
  ]);
});

test('a page of as many elements as were requested looks truncated, however many were seen whole', () => {
  const behavior = createServerBehavior();
  noteWhole(behavior, 10);
  expect(looksTruncated(behavior, page(10, true), 'high')).toBe(true);
  expect(looksTruncated(behavior, page(1, true), 'high')).toBe(true);
});

test('a page looks truncated near the size of truncated ones, at the side that they lost', () => {
  const behavior = createServerBehavior();
  noteTruncated(behavior, 100, 'high');
  expect(behavior.side).toBe('earliest');
  expect([79, 80, 100].map((count) => looksTruncated(behavior, page(count), 'high'))).toEqual([false, true, true]);
  expect(looksTruncated(behavior, page(100), 'low')).toBe(false);
  noteTruncated(behavior, 100, 'low');
  expect(behavior).toMatchObject({ side: null, isSideMixed: true });
  expect(looksTruncated(behavior, page(100), 'low')).toBe(true);
});

test('a truncated page smaller than a whole one shows that sizes mean nothing; one of the same size does not', () => {
  const behavior = createServerBehavior();
  noteWhole(behavior, 100);
  noteTruncated(behavior, 100, 'high');
  expect(behavior.isErratic).toBe(false);
  noteTruncated(behavior, 99, 'high');
  expect(behavior.isErratic).toBe(true);
  expect(looksTruncated(behavior, page(5), 'low')).toBe(true);
});

test('an end is checked at first, now and then, and always where no room was made or the server was caught', () => {
  const behavior = createServerBehavior();
  const checks = Array.from({ length: 48 }, () => needsEndCheck(behavior, 10, 20, 'high'));
  expect(checks.filter(Boolean)).toHaveLength(4 + 1);
  expect(needsEndCheck(behavior, 20, 20, 'high')).toBe(true);
  expect(needsEndCheck({ ...createServerBehavior(), contradictions: 1, endChecks: 5 }, 10, 20, 'high')).toBe(true);
});

test('the widest gap is asked for once in 48 windows, and always of a server that was caught', () => {
  const behavior = createServerBehavior();
  expect(Array.from({ length: 96 }, () => needsGapCheck(behavior)).filter(Boolean)).toHaveLength(2);
  behavior.contradictions = 1;
  expect(needsGapCheck(behavior)).toBe(true);
});

test('a request leaves the edges out only where they are known to be included', () => {
  const behavior = createServerBehavior();
  const window = { from: 1000, to: 2000 };
  expect(toRequestedWindow(behavior, window, true)).toEqual({ from: 999, to: 2000 });
  noteEdges(behavior, { from: 999, to: 2000 }, Float64Array.from([999, 2000]));
  expect(toRequestedWindow(behavior, window, true)).toEqual({ from: 1000, to: 1999 });
  expect(toRequestedWindow(behavior, window, false)).toEqual({ from: 999, to: 2000 });
  // More than one tick beyond the edges comes from a server that ignores them.
  const other = createServerBehavior();
  noteEdges(other, { from: 999, to: 2000 }, Float64Array.from([1, 2, 999, 2000]));
  expect(other).toMatchObject({ fromInclusive: false, toInclusive: false });
});
