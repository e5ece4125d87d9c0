import { expect, test } from 'vitest';
import {
  findLastListedDay,
  readCompleteListings,
  recordListings,
} from '../../../src/archive/journal/nightly-memory.ts';
import { opened } from '../scratch.ts';

const hourMs = 3_600_000;
const day = Date.UTC(2026, 6, 1);

test('keeps a complete list of a day, whatever comes before or after it', () => {
  const archive = opened({});
  const { db } = archive.state;
  const note = (hour: number, reason: string | null): void => {
    const at = day + hour * hourMs;
    recordListings(db, [{ view: 'matched', at, markets: 3, total: 3, reason }], { at, markets: 3, reason });
  };
  const isWhole = () => readCompleteListings(db, ['matched'])(day);
  expect(isWhole()).toBe(true);
  note(1, 'cut off');
  expect(isWhole()).toBe(false);
  expect(readCompleteListings(db, ['matched'])(day - 24 * hourMs)).toBe(false);
  note(2, null);
  expect(isWhole()).toBe(true);
  note(3, 'cut off');
  expect(isWhole()).toBe(true);
  expect(readCompleteListings(db, ['matched', 'other'])(day + 24 * hourMs)).toBe(false);
  // For a day before the first list, a complete list of a later day is sufficient.
  expect(readCompleteListings(db, ['matched'])(day - 24 * hourMs)).toBe(true);
  expect(findLastListedDay(db)).toBe(day);
  archive.close();
});
