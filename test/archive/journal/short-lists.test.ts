import { expect, test } from 'vitest';
import { describeShortLists, recordListings } from '../../../src/archive/journal/nightly-memory.ts';
import { dayMs, now, opened } from '../scratch.ts';

test.each<[string, number, number[], boolean]>([
  ['no past days', 0, [], false],
  ['the usual number', 90, [101, 98, 100], false],
  ['half of the usual number', 50, [101, 98, 100], false],
  ['fewer than half', 49, [101, 98, 100], true],
  ['fewer than half, after two days', 40, [98, 100], false],
  ['fewer than very few', 1, [4, 4, 4], false],
  ['none after some, after one day', 0, [3], true],
  ['none after none', 0, [0, 0], false],
  ['the number of most of the last days', 40, [100, 100, 100, 40, 40, 40, 40], false],
  ['the number of most of the last week', 40, [100, 100, 100, 100, 40, 40, 40, 40], false],
])('short lists: %s', (_, count, past, isShort) => {
  const { db } = opened().state;
  for (const [i, markets] of past.entries())
    recordListings(db, [], { at: now + i * dayMs, markets, reason: i % 2 === 0 ? null : 'short', doubt: null });
  recordListings(db, [], { at: now + past.length * dayMs, markets: 1, reason: 'cut off', doubt: null });
  const short = describeShortLists(db, count, now + 10 * dayMs);
  expect(short !== null).toBe(isShort);
  if (isShort) expect(short).toContain(`the lists name ${count}, the median of the last ${past.length} day`);
});
