import { expect, test } from 'vitest';
import {
  comparePagesAtSide,
  findMedianTick,
  findOutermostTick,
  findTickNearEnd,
  hasTickBeyond,
  isTruncatedInside,
} from '../../../src/collector/paging/fetch-side.ts';

const page = (...times: number[]) => Float64Array.from(times);

test.each([
  ['same', [1, 2, 3, 4], [3, 4], 3, 'high'],
  ['same', [1, 2, 3, 4], [1, 2], 2, 'low'],
  ['further', [1, 2, 3, 4], [3, 4, 5], 3, 'high'],
  ['further', [1, 2, 3, 4], [0, 1, 2], 2, 'low'],
  ['shorter', [1, 2, 3, 4], [2, 3], 2, 'high'],
  ['shorter', [1, 2, 3, 4], [2, 3], 3, 'low'],
  ['contradicts', [1, 2, 3, 4], [4, 5], 3, 'high'],
  ['contradicts', [1, 2, 4, 5], [2, 3, 4, 5], 2, 'high'],
  ['contradicts', [1, 2, 3, 4], [], 3, 'high'],
  // Ticks inward of the common begin are not compared: a server may return the tick before a window.
  ['same', [1, 2, 3, 4], [0, 3, 4], 3, 'high'],
] as const)('the pages are %s: %j and %j from %d on, at the %s side', (relation, a, b, begin, side) => {
  expect(comparePagesAtSide(page(...a), page(...b), begin, side)).toBe(relation);
});

test.each([
  ['truncated at its inner end', [1, 2, 3, 4, 5, 6], [1, 2], 4, 'low', true],
  ['truncated at its inner end', [1, 2, 3, 4, 5, 6], [5, 6], 3, 'high', true],
  ['further out', [1, 2, 3, 4, 5, 6], [0, 1, 2], 4, 'low', false],
  ['whole', [1, 2, 3, 4], [1, 2, 3], 3, 'low', false],
  ['of other ticks', [1, 3, 4, 5, 6], [1, 2], 4, 'low', false],
  ['of one tick', [1, 2, 3, 4], [4], 2, 'high', false],
  ['empty', [1, 2, 3, 4], [], 2, 'high', false],
] as const)('the second page is %s: %j and %j from %d on, at the %s side', (_, a, b, begin, side, isCut) => {
  expect(isTruncatedInside(page(...a), page(...b), begin, side)).toBe(isCut);
});

test.each([
  ['a tick after it', [1, 2, 3], 2, 'high', 9, true],
  ['a tick before it', [1, 2, 3], 2, 'low', 9, true],
  ['only the tick itself', [1, 2], 2, 'high', 9, false],
  ['only the tick itself', [2, 3], 2, 'low', 9, false],
  ['only ticks that followed the page', [2, 5, 6], 2, 'high', 5, false],
  ['a tick before those that followed the page', [2, 4, 6], 2, 'high', 5, true],
  ['no tick', [], 2, 'high', 9, false],
] as const)('the page has %s: %j beyond %d, at the %s side, before %d', (_, times, tick, side, before, isThere) => {
  expect(hasTickBeyond(page(...times), tick, side, before)).toBe(isThere);
});

test('the median of an even number of ticks is the inner one', () => {
  expect(findMedianTick(page(1, 2, 3, 4), 'high')).toBe(2);
  expect(findMedianTick(page(1, 2, 3, 4), 'low')).toBe(3);
  expect([findMedianTick(page(7), 'high'), findMedianTick(page(7), 'low')]).toEqual([7, 7]);
});

test('the overlap with the next page is 2 % of the ticks', () => {
  const times = Float64Array.from({ length: 100 }, (_, i) => i);
  expect([findTickNearEnd(times, 'high'), findTickNearEnd(times, 'low')]).toEqual([97, 2]);
  expect([findOutermostTick(times, 'high'), findOutermostTick(times, 'low')]).toEqual([99, 0]);
});
