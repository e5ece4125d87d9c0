import { expect, test } from 'vitest';
import { findLastListedDay, readDayLists, recordListings } from '../../../src/archive/journal/nightly-memory.ts';
import { opened } from '../scratch.ts';

const hourMs = 3_600_000;
const day = Date.UTC(2026, 6, 1);

test('keeps a complete list of a day, whatever comes before or after it', () => {
  const archive = opened({});
  const { db } = archive.state;
  const note = (hour: number, reason: string | null): void => {
    const at = day + hour * hourMs;
    recordListings(db, [{ view: 'matched', at, markets: 3, total: 3, reason, doubt: null }], {
      at,
      markets: 3,
      reason,
      doubt: null,
    });
  };
  const isWhole = () => readDayLists(db, ['matched'])(day).isComplete;
  expect(isWhole()).toBe(true);
  note(1, 'cut off');
  expect(isWhole()).toBe(false);
  expect(readDayLists(db, ['matched'])(day - 24 * hourMs).isComplete).toBe(false);
  note(2, null);
  expect(isWhole()).toBe(true);
  note(3, 'cut off');
  expect(isWhole()).toBe(true);
  expect(readDayLists(db, ['matched', 'other'])(day + 24 * hourMs).isComplete).toBe(false);
  // For a day before the first list, a complete list of a later day is sufficient.
  expect(readDayLists(db, ['matched'])(day - 24 * hourMs).isComplete).toBe(true);
  expect(findLastListedDay(db)).toBe(day);
  archive.close();
});
