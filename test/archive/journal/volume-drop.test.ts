import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  computeNewlyPolledMs,
  describeShortLists,
  describeVolumeDrops,
  type NightVolume,
} from '../../../src/archive/journal/nightly-comparison.ts';
import { checkProperty } from '../../harness/properties.ts';

const hour = 3_600_000;
const day = 24 * hour;
const rules = { marketsShareMax: 0.5, ticksShareMax: 0.8 };

/** The last of `n` nights, each a day long. */
const night = (n: number, markets: number | null, ticks: number, polledMs = day): NightVolume => ({
  polledTo: n * day,
  polledMs,
  markets,
  ticks,
});
const usual = [5, 4, 3, 2, 1].map((n) => night(n, 100, 2400));

test.each<[string, number, number[], number, boolean]>([
  ['no past days', 0, [], 0.5, false],
  ['the usual number', 90, [100, 98, 101], 0.5, false],
  ['fewer than the share allows', 40, [100, 98, 101], 0.5, true],
  ['fewer than the share allows, after two days', 40, [100, 98], 0.5, false],
  ['fewer than very few', 1, [4, 4, 4], 0.5, false],
  ['none after some, after one day', 0, [3], 1, true],
  ['none after none', 0, [0, 0], 0.5, false],
  ['the number of most of the last days', 40, [40, 40, 40, 40, 100, 100, 100], 0.5, false],
])('short lists: %s', (_, count, past, shareMax, isShort) => {
  expect(describeShortLists(count, past, shareMax) !== null).toBe(isShort);
});

describe('a night', () => {
  test('like the last ones reports nothing', () => {
    expect(describeVolumeDrops(usual, night(6, 96, 2200), rules)).toEqual([]);
  });

  test('with many more markets or ticks reports nothing', () => {
    expect(describeVolumeDrops(usual, night(6, 1000, 99_000), rules)).toEqual([]);
  });

  test('reports markets that fell by more than the share', () => {
    expect(describeVolumeDrops(usual, night(6, 50, 2400), rules)).toEqual([]);
    expect(describeVolumeDrops(usual, night(6, 49, 2400), rules)).toEqual([
      'markets fell by 51 %: the lists name 49, the median of the last 5 nights is 100 (drops.markets_share_max is 0.5)',
    ]);
  });

  test('reports ticks that fell by more than the share, per hour and not per night', () => {
    expect(describeVolumeDrops(usual, night(6, 100, 480), rules)).toEqual([]);
    expect(describeVolumeDrops(usual, night(6, 100, 479), rules)).toEqual([
      'ticks fell by 80 %: 20 new ticks per hour, the median of the last 5 nights is 100 (drops.ticks_share_max is 0.8)',
    ]);
    expect(describeVolumeDrops(usual, night(6, 100, 480, 2 * day), rules)).toHaveLength(1);
    expect(describeVolumeDrops(usual, night(6, 100, 90, 2 * hour), rules)).toEqual([]);
  });

  test('without any data reports both', () => {
    const [markets, ticks] = describeVolumeDrops(usual, night(6, 0, 0), rules);
    expect(markets).toContain('fell by 100 %: the lists name 0,');
    expect(ticks).toContain('fell by 100 %: 0 new ticks per hour');
  });

  test('is not compared before three others are known', () => {
    expect(describeVolumeDrops(usual.slice(0, 2), night(6, 0, 0), rules)).toEqual([]);
    expect(describeVolumeDrops(usual.slice(0, 3), night(6, 0, 0), rules)).toHaveLength(2);
  });

  test('without complete lists is compared by ticks only, and gives later nights no market count', () => {
    expect(describeVolumeDrops(usual, night(6, null, 2400), rules)).toEqual([]);
    const unknown = usual.map((past) => ({ ...past, markets: null }));
    expect(describeVolumeDrops([...usual.slice(0, 2), ...unknown.slice(2)], night(6, 0, 2400), rules)).toEqual([]);
  });

  test('is compared with the median: the middle value, or the mean of the middle two', () => {
    const past = (...counts: number[]) => counts.map((n, i) => night(9 - i, n, 24 * n));
    const described = (...counts: number[]) =>
      describeVolumeDrops(past(...counts), night(10, 0, 0), rules).map((line) => /nights is (\S+) \(/.exec(line)?.[1]);
    expect(described(100, 10, 30)).toEqual(['30', '30']);
    expect(described(100, 30, 10, 50)).toEqual(['40', '40']);
    // Values below ten are shown with one decimal.
    expect(described(9, 6, 5, 8)).toEqual(['7', '7']);
    expect(described(9, 7.5, 5)).toEqual(['7.5', '7.5']);
    expect(described(100, 30.6, 10)).toEqual(['31', '31']);
  });

  test('is compared with at least three complete lists, wherever they are', () => {
    const past = [null, 100, null].map((markets, i) => night(9 - i, markets, 0));
    expect(describeVolumeDrops(past, night(10, 0, 0), rules)).toEqual([]);
  });

  test('is compared if five markets, or twenty ticks, are usual', () => {
    const least = [5, 4, 3].map((n) => night(n, 5, 20, hour));
    expect(describeVolumeDrops(least, night(6, 0, 0, hour), rules)).toHaveLength(2);
  });

  test('is not compared below that, where ticks may be missing by chance', () => {
    const few = [5, 4, 3].map((n) => night(n, 4, 19));
    expect(describeVolumeDrops(few, night(6, 0, 0), rules)).toEqual([]);
  });

  test('is never reported with shares of 1, and strictly with shares of 0', () => {
    expect(describeVolumeDrops(usual, night(6, 0, 0), { marketsShareMax: 1, ticksShareMax: 1 })).toEqual([]);
    expect(describeVolumeDrops(usual, night(6, 99, 2399), { marketsShareMax: 0, ticksShareMax: 0 })).toHaveLength(2);
  });

  test('becomes the usual level after four low ones, and one odd night of seven changes nothing', () => {
    let past: NightVolume[] = [7, 6, 5, 4, 3, 2, 1].map((n) => night(n, 100, 2400));
    const reported = [8, 9, 10, 11, 12, 13].map((n) => {
      const low = night(n, 20, 100);
      const falls = describeVolumeDrops(past, low, rules).length;
      past = [low, ...past];
      return falls;
    });
    expect(reported).toEqual([2, 2, 2, 2, 0, 0]);
    expect(describeVolumeDrops([night(7, 1, 1), ...usual], night(8, 90, 2300), rules)).toEqual([]);
  });

  test('is compared with the last seven only, in any order', () => {
    const any = fc.record({ markets: fc.integer({ min: 0, max: 200 }), ticks: fc.integer({ min: 0, max: 5000 }) });
    checkProperty([fc.array(any, { minLength: 7, maxLength: 12 }), any], 100, (list, last) => {
      const past = list.map(({ markets, ticks }, i) => night(50 - i, markets, ticks));
      const tonight = night(51, last.markets, last.ticks);
      const described = describeVolumeDrops(past, tonight, rules);
      expect(describeVolumeDrops(past.slice(0, 7), tonight, rules)).toEqual(described);
      expect(describeVolumeDrops(past.slice(0, 7).toReversed(), tonight, rules)).toEqual(described);
    });
  });
});

describe('the time that a night adds', () => {
  test('is the time since the last night, or the lookback for the first one', () => {
    expect(computeNewlyPolledMs(undefined, 10 * day, 7 * day)).toBe(7 * day);
    expect(computeNewlyPolledMs(night(9, 1, 1), 10 * day, 7 * day)).toBe(day);
  });

  test('is too short for a night below an hour, as for a repeated run', () => {
    expect(computeNewlyPolledMs(night(9, 1, 1), 9 * day + hour, day)).toBe(hour);
    expect(computeNewlyPolledMs(night(9, 1, 1), 9 * day + hour - 1, day)).toBe(null);
    expect(computeNewlyPolledMs(night(9, 1, 1), 5 * day, day)).toBe(null);
    expect(computeNewlyPolledMs(undefined, 10 * day, 0)).toBe(null);
  });
});
