import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compareWithPast,
  computeMarketChanges,
  computeMedian,
  computeNightCoverage,
  isThinnedBeforeFetch,
  type ListedState,
} from '../../../src/archive/journal/nightly-comparison.ts';

const day = 86_400_000;
const minute = 60_000;
const always = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

describe('the median', () => {
  test('is the middle one, or halfway between the middle two, whatever their order', () => {
    expect(computeMedian([5, 1, 9])).toBe(5);
    expect(computeMedian([8, 1, 9, 2])).toBe(5);
    fc.assert(
      fc.property(fc.array(fc.nat(1000), { minLength: 1, maxLength: 9 }), (values) => {
        const median = computeMedian(values);
        expect(values.filter((v) => v < median).length).toBeLessThanOrEqual(values.length / 2);
        expect(values.filter((v) => v > median).length).toBeLessThanOrEqual(values.length / 2);
      }),
    );
  });

  test('leaves out nights that nobody counted, and is null where none was', () => {
    expect(compareWithPast(7, [null, 3, null, 5])).toEqual({ count: 7, median: 4 });
    expect(compareWithPast(7, [null])).toEqual({ count: 7, median: null });
    expect(compareWithPast(7, [])).toEqual({ count: 7, median: null });
    expect(compareWithPast(0, [0, 0, 0])).toEqual({ count: 0, median: 0 });
  });
});

describe('what changed among the markets', () => {
  const state = (symbol: string, rest: Partial<ListedState> = {}): ListedState => ({
    symbol,
    firstSeen: 10,
    inactiveSince: null,
    closesAt: null,
    resolved: false,
    resolutionSeen: null,
    ...rest,
  });

  test('by hand: each is new, resolved or gone at most once, and overdue beside that', () => {
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

  test('twenty are named and all are counted', () => {
    const states = Array.from({ length: 33 }, (_, i) => state(`S${i}`, { firstSeen: 101 }));
    const { new: fresh } = computeMarketChanges(states, 100, 200);
    expect(fresh.count).toBe(33);
    expect(fresh.names).toEqual(states.slice(0, 20).map(({ symbol }) => symbol));
  });
});

describe('what of a night is covered', () => {
  const night = { from: 0, to: day };
  const lacking = (symbol: string, from: number, to: number, life = always) => ({ symbol, from, to, lifetime: life });

  test('by hand: minutes are summed over symbols, counted once, inside of the night and of a life', () => {
    const windows = [
      lacking('A', 10 * minute, 20 * minute),
      lacking('A', 15 * minute, 25 * minute),
      lacking('B', -30 * minute, 5 * minute),
      lacking('C', 0, day, { from: 0, to: 7 * minute }),
      lacking('DEAD', 10 * minute, day, { from: -day, to: 10 * minute }),
      lacking('OLD', -day, 0),
    ];
    expect(computeNightCoverage(100, windows, night)).toEqual({ symbols: 97, gap_minutes: 15 + 5 + 7 });
  });

  test('a gap of a moment is a minute, and none is none', () => {
    expect(computeNightCoverage(1, [lacking('A', 5, 6)], night)).toEqual({ symbols: 0, gap_minutes: 1 });
    expect(computeNightCoverage(3, [], night)).toEqual({ symbols: 3, gap_minutes: 0 });
  });

  test('never more than all of all lives in the night', () => {
    const window = fc.tuple(fc.constantFrom('A', 'B', 'C'), fc.integer({ min: -20, max: 40 }), fc.nat(30));
    fc.assert(
      fc.property(fc.array(window, { maxLength: 12 }), (windows) => {
        const list = windows.map(([symbol, from, length]) =>
          lacking(symbol, from * minute, (from + length) * minute, { from: 0, to: 12 * minute }),
        );
        const { symbols, gap_minutes } = computeNightCoverage(3, list, { from: 0, to: 20 * minute });
        expect(gap_minutes).toBeLessThanOrEqual(12 * (3 - symbols));
        expect(gap_minutes > 0).toBe(symbols < 3);
      }),
    );
  });
});

describe('what is asked for too late', () => {
  const now = 20 * day + 5 * 3_600_000;

  test('is a day that ended longer ago than the service keeps its past fine, and was not covered before', () => {
    const asked = [{ from: 10 * day, to: 20 * day }];
    expect(isThinnedBeforeFetch(asked, [], now, 7 * day)).toBe(true);
    expect(isThinnedBeforeFetch(asked, [{ from: 0, to: 13 * day }], now, 7 * day)).toBe(false);
    expect(isThinnedBeforeFetch(asked, [{ from: 0, to: 12.9 * day }], now, 7 * day)).toBe(true);
    expect(isThinnedBeforeFetch([{ from: 13 * day, to: 20 * day }], [], now, 7 * day)).toBe(false);
    expect(isThinnedBeforeFetch([{ from: 13 * day - 1, to: 20 * day }], [], now, 7 * day)).toBe(true);
  });

  test('a first look back by as many days as the service keeps is in time', () => {
    expect(isThinnedBeforeFetch([{ from: now - 7 * day, to: now }], [], now + 90_000, 7 * day)).toBe(false);
  });
});
