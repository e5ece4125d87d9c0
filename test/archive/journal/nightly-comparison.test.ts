import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compareWithPast,
  computeMarketChanges,
  computeMedian,
  computeNightCoverage,
  isThinnedBeforeFetch,
  type ListedState,
  selectSimilarNights,
} from '../../../src/archive/journal/nightly-comparison.ts';
import { checkProperty } from '../../harness/properties.ts';

const day = 86_400_000;
const minute = 60_000;
const allTime = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

describe('the median', () => {
  test('is the middle value, or the mean of the middle two, in any order', () => {
    expect(computeMedian([5, 1, 9])).toBe(5);
    expect(computeMedian([8, 1, 9, 2])).toBe(5);
    checkProperty([fc.array(fc.nat(1000), { minLength: 1, maxLength: 9 })], 100, (values) => {
      const median = computeMedian(values);
      expect(values.filter((v) => v < median).length).toBeLessThanOrEqual(values.length / 2);
      expect(values.filter((v) => v > median).length).toBeLessThanOrEqual(values.length / 2);
    });
  });

  test('ignores nights without a count, and is null without any', () => {
    expect(compareWithPast(7, [3, 5])).toEqual({ count: 7, median: 4 });
    expect(compareWithPast(7, [])).toEqual({ count: 7, median: null });
    expect(compareWithPast(0, [0, 0, 0])).toEqual({ count: 0, median: 0 });
  });
});

test('a night is compared with the last seven that did not poll many times as long, such as the first', () => {
  const nights = [day, day, 3 * day, ...Array.from({ length: 6 }, () => 2 * day), 7 * day].map((polledMs, n) => ({
    polledMs,
    n,
  }));
  expect(selectSimilarNights(nights, day).map(({ n }) => n)).toEqual([0, 1, 3, 4, 5, 6, 7]);
  expect(selectSimilarNights(nights.slice(-1), day)).toEqual([]);
});

describe('market changes', () => {
  const state = (symbol: string, rest: Partial<ListedState> = {}): ListedState => ({
    symbol,
    firstSeen: 10,
    inactiveSince: null,
    closesAt: null,
    resolved: false,
    resolutionSeen: null,
    ...rest,
  });

  test('by hand: each is new, resolved or gone at most once, and also overdue', () => {
    const changes = computeMarketChanges(
      [
        state('OLD'),
        state('NEW', { firstSeen: 101 }),
        state('NEW-RESOLVED', { firstSeen: 101, resolved: true, resolutionSeen: 101, inactiveSince: 101 }),
        state('RESOLVED', { resolved: true, resolutionSeen: 101, inactiveSince: 101, closesAt: 50 }),
        state('RESOLVED-BEFORE', { resolved: true, resolutionSeen: 100, inactiveSince: 100 }),
        state('GONE', { inactiveSince: 101, closesAt: 50 }),
        state('GONE-BEFORE', { inactiveSince: 100 }),
        state('LATE', { closesAt: 190 }),
        state('LATER', { closesAt: 90 }),
        state('CLOSES-NOW', { closesAt: 200 }),
      ],
      100,
      200,
    );
    expect(changes).toEqual({
      new: { count: 2, names: ['NEW', 'NEW-RESOLVED'] },
      resolved: { count: 1, names: ['RESOLVED'] },
      delisted: { count: 1, names: ['GONE'] },
      overdue: { count: 2, names: ['LATER', 'LATE'] },
    });
  });

  test('names twenty and counts all', () => {
    const states = Array.from({ length: 33 }, (_, i) => state(`S${i}`, { firstSeen: 101 }));
    const { new: fresh } = computeMarketChanges(states, 100, 200);
    expect(fresh.count).toBe(33);
    expect(fresh.names).toEqual(states.slice(0, 20).map(({ symbol }) => symbol));
  });
});

describe('the coverage of a night', () => {
  const night = { from: 0, to: day };
  const uncovered = (symbol: string, from: number, to: number, lifetime = allTime) => ({
    symbol,
    from,
    to,
    lifetime: lifetime,
  });

  test('by hand: sums minutes over symbols, each once, inside the night and the lifetime', () => {
    const windows = [
      uncovered('A', 10 * minute, 20 * minute),
      uncovered('A', 15 * minute, 25 * minute),
      uncovered('B', -30 * minute, 5 * minute),
      uncovered('C', 0, day, { from: 0, to: 7 * minute }),
      uncovered('DEAD', 10 * minute, day, { from: -day, to: 10 * minute }),
      uncovered('OLD', -day, 0),
    ];
    expect(computeNightCoverage(100, windows, night)).toEqual({ symbols: 97, gap_minutes: 15 + 5 + 7 });
  });

  test('counts a gap of a moment as a minute, and no gap as 0', () => {
    expect(computeNightCoverage(1, [uncovered('A', 5, 6)], night)).toEqual({ symbols: 0, gap_minutes: 1 });
    expect(computeNightCoverage(3, [], night)).toEqual({ symbols: 3, gap_minutes: 0 });
  });

  test('never exceeds all lifetimes in the night', () => {
    const window = fc.tuple(fc.constantFrom('A', 'B', 'C'), fc.integer({ min: -20, max: 40 }), fc.nat(30));
    checkProperty([fc.array(window, { maxLength: 12 })], 100, (windows) => {
      const list = windows.map(([symbol, from, length]) =>
        uncovered(symbol, from * minute, (from + length) * minute, { from: 0, to: 12 * minute }),
      );
      const { symbols, gap_minutes } = computeNightCoverage(3, list, { from: 0, to: 20 * minute });
      expect(gap_minutes).toBeLessThanOrEqual(12 * (3 - symbols));
      expect(gap_minutes > 0).toBe(symbols < 3);
    });
  });
});

describe('a late first request', () => {
  const now = 20 * day + 5 * 3_600_000;

  test("is for an uncovered day that ended before the server's unthinned history", () => {
    const requested = [{ from: 10 * day, to: 20 * day }];
    expect(isThinnedBeforeFetch(requested, [], now, 7 * day)).toBe(true);
    expect(isThinnedBeforeFetch(requested, [{ from: 0, to: 13 * day }], now, 7 * day)).toBe(false);
    expect(isThinnedBeforeFetch(requested, [{ from: 0, to: 12.9 * day }], now, 7 * day)).toBe(true);
    expect(isThinnedBeforeFetch([{ from: 13 * day, to: 20 * day }], [], now, 7 * day)).toBe(false);
    expect(isThinnedBeforeFetch([{ from: 13 * day - 1, to: 20 * day }], [], now, 7 * day)).toBe(true);
  });

  test('is in time with a first lookback as long as that history', () => {
    expect(isThinnedBeforeFetch([{ from: now - 7 * day, to: now }], [], now + 90_000, 7 * day)).toBe(false);
  });
});
