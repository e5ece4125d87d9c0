import { expect, test } from 'vitest';
import { addFeedTimes, type FeedTimes, isFeedFrozen } from '../../../src/archive/journal/feed-silence.ts';
import { hourMs } from '../../../src/base/window.ts';

const after = (known: FeedTimes | null, ...hours: number[]): FeedTimes =>
  addFeedTimes(known, hours, Math.max(...hours) * hourMs + 5);

test('the longest silence is the widest gap between hours with ticks of any symbol', () => {
  expect(after(null, 7)).toEqual({ newestTick: 7 * hourMs + 5, longestSilenceMs: 0 });
  expect(after(null, 12, 5, 7, 7)).toEqual({ newestTick: 12 * hourMs + 5, longestSilenceMs: 5 * hourMs });
  // From the newest tick before to the first of these, and an older window changes no newest tick.
  expect(after(after(null, 7), 17, 18)).toEqual({ newestTick: 18 * hourMs + 5, longestSilenceMs: 10 * hourMs });
  expect(after(after(null, 17, 18), 3)).toMatchObject({ newestTick: 18 * hourMs + 5, longestSilenceMs: 15 * hourMs });
});

test.each<[string, number[], number, boolean]>([
  ['with one tick ever', [7], 1000, false],
  ['for three times as long as ever', [0, 3], 3 + 9, false],
  ['for longer', [0, 3], 3 + 9.1, true],
  ['for less than six hours', [0, 1], 1 + 6, false],
  ['for more than six hours, where there is a tick each hour', [0, 1], 1 + 6.1, true],
])('a feed is frozen or not: no tick %s', (_, hours, nowHours, isFrozen) => {
  expect(isFeedFrozen(after(null, ...hours), nowHours * hourMs)).toBe(isFrozen);
});
