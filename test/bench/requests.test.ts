import { expect, test } from 'vitest';
import { pagesOf } from '../../bench/requests.ts';

test('ticks take as many pages as they fill, a partial one included', () => {
  expect([1, 999, 1000, 1001, 2000, 2001].map((ticks) => pagesOf(ticks, 1000))).toEqual([1, 1, 1, 2, 2, 3]);
});

test('no ticks take one response', () => {
  expect(pagesOf(0, 1000)).toBe(1);
});
