import { expect, test } from 'vitest';
import { isThinnedBeforeFetch } from '../../src/collector/steps/poll-plans.ts';
import { dayMs } from '../archive/scratch.ts';

const now = 20.25 * dayMs;

test('a first request is late for an uncovered day that ended before the unthinned history of the server', () => {
  const requested = [{ from: 10 * dayMs, to: 20 * dayMs }];
  expect(isThinnedBeforeFetch(requested, [], now, 7 * dayMs)).toBe(true);
  expect(isThinnedBeforeFetch(requested, [{ from: 0, to: 13 * dayMs }], now, 7 * dayMs)).toBe(false);
  expect(isThinnedBeforeFetch(requested, [{ from: 0, to: 12.9 * dayMs }], now, 7 * dayMs)).toBe(true);
  expect(isThinnedBeforeFetch([{ from: 13 * dayMs, to: 20 * dayMs }], [], now, 7 * dayMs)).toBe(false);
  expect(isThinnedBeforeFetch([{ from: 13 * dayMs - 1, to: 20 * dayMs }], [], now, 7 * dayMs)).toBe(true);
});

test('a first lookback as long as that history is in time', () => {
  expect(isThinnedBeforeFetch([{ from: now - 7 * dayMs, to: now }], [], now + 90_000, 7 * dayMs)).toBe(false);
});
