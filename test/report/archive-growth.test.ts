import { expect, test } from 'vitest';
import { formatDay } from '../../src/base/time.ts';
import { computeGrowth, estimateSlope } from '../../src/report/health-status.ts';

const dayMs = 86_400_000;
const first = Date.UTC(2026, 5, 1);
const daysOf = (bytes: readonly (number | null)[]) =>
  bytes.flatMap((value, i) => (value === null ? [] : [{ date: formatDay(first + i * dayMs), bytes: value }]));
const space = { freeBytes: 1000, totalBytes: 5000 };
const at = (days: number) => ({
  nowMs: first + days * dayMs,
  shownFrom: first,
  shownTo: first + Math.ceil(days) * dayMs,
});

test('estimates the slope by least squares', () => {
  expect(estimateSlope([0, 10, 20, 30])).toBe(10);
  // By hand: mean 3; (-1.5, -0.5, 0.5, 1.5) · (-2, 1, -1, 2) = 5; 5 / 5 = 1.
  expect(estimateSlope([1, 4, 2, 5])).toBe(1);
  expect(estimateSlope([7])).toBe(0);
});

test('forecasts a full disk from the growth of the last finished days', () => {
  // Four finished days of 100 bytes, and half of today.
  const growth = computeGrowth(daysOf([100, 100, 100, 100, 30]), space, at(4.5));
  expect(growth).toMatchObject({ bytesPerDay: 100, days: 4, fullAt: first + 14.5 * dayMs });
  expect(growth.sizes.map(({ bytes }) => bytes)).toEqual([100, 200, 300, 400, 430]);
});

test('a day without files counts as no growth', () => {
  // Sizes 90, 90, 180, 180, 270: (-2, …, 2) · (-72, -72, 18, 18, 108) = 450; 450 / 10 = 45.
  expect(computeGrowth(daysOf([90, null, 90, null, 90]), space, at(5)).bytesPerDay).toBe(45);
});

test('gives no forecast without growth, for slow growth or for too few days', () => {
  expect(computeGrowth(daysOf([100, 100, 1]), space, at(2.5))).toMatchObject({ bytesPerDay: null, fullAt: null });
  expect(computeGrowth(daysOf([0.1, 0.1, 0.1, 0.1]), space, at(4))).toMatchObject({ fullAt: null });
  // Forty days after the last one.
  expect(computeGrowth(daysOf([100, 100, 100]), space, { ...at(43), shownTo: first + 3 * dayMs })).toMatchObject({
    bytesPerDay: 0,
    fullAt: null,
  });
  expect(computeGrowth(daysOf([100, 100, 100]), null, at(3))).toMatchObject({ bytesPerDay: 100, fullAt: null });
  expect(computeGrowth([], space, at(3))).toEqual({ sizes: [], bytesPerDay: null, days: 0, fullAt: null });
});
