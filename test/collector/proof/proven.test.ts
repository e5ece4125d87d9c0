import { describe, expect, test } from 'vitest';
import { findRepeated, findSupport } from '../../../src/collector/proof/proven.ts';
import type { Witnessed } from '../../../src/collector/proof/shown.ts';
import { day, hour } from './world.ts';

const start = Date.UTC(2026, 5, 1);
const nightAt = (days: number, hours: number, from = 0, to = 10) => ({
  from: start + from * hour,
  to: start + to * hour,
  observedAt: start + (9 + days) * day + hours * hour,
});
const repeated = (...nights: ReturnType<typeof nightAt>[]) =>
  findRepeated(nights).map(({ from, to }) => [(from - start) / hour, (to - start) / hour]);

describe('three nights', () => {
  test('prove what is empty in all of them', () => {
    expect(repeated(nightAt(0, 3), nightAt(1, 3))).toEqual([]);
    expect(repeated(nightAt(0, 3), nightAt(1, 3, 5, 15), nightAt(2, 3, 8, 20))).toEqual([[8, 10]]);
    // Of four nights, any three.
    expect(repeated(nightAt(0, 3), nightAt(1, 3, 5, 15), nightAt(2, 3, 8, 20), nightAt(3, 3, 9, 12))).toEqual([
      [8, 12],
    ]);
  });

  test('are of three UTC days, and at least 12 hours apart', () => {
    expect(repeated(nightAt(0, 3), nightAt(1, 3), nightAt(1, 20))).toEqual([]);
    expect(repeated(nightAt(0, 23), nightAt(1, 1), nightAt(2, 3))).toEqual([]);
    expect(repeated(nightAt(0, 14), nightAt(1, 2), nightAt(2, 3))).toEqual([[0, 10]]);
  });

  test('are among the last eight', () => {
    expect(repeated(nightAt(0, 3), nightAt(6, 3), nightAt(7, 3))).toEqual([[0, 10]]);
    expect(repeated(nightAt(0, 3), nightAt(7, 3), nightAt(8, 3))).toEqual([]);
  });
});

test('an empty response supports nothing of the last hour before it, because a replica may be behind', () => {
  const night = { latest: start + 30 * day, earliest: start - 30 * day, before: { hours: 999, days: 99 } };
  const after = { hours: 999, days: 99 };
  const find = (to: number, at: number, window = { from: start, to }, passed = after) =>
    findSupport(window, { from: start, to }, at, { ...night, before: passed, after: passed } as Witnessed);
  expect(find(start + day, start + day)).toEqual({ from: start, to: start + day - hour });
  expect(find(start + day, start + day + hour)).toEqual({ from: start, to: start + day });
  // A server may round the end of the request down to midnight.
  expect(find(start + day + hour, start + 3 * day)).toEqual({ from: start, to: start + day });
  expect(find(start + 9 * hour, start + 3 * day)).toBeNull();
  // A server that gives up after two days may have searched the request from either end, not from that of a part of it.
  const part = { from: start + 3 * day, to: start + 5 * day };
  expect(find(start + 9 * day, start + 10 * day, part, { hours: 48, days: 2 })).toBeNull();
  expect(find(start + 9 * day, start + 10 * day, part, { hours: 144, days: 6 })).toEqual(part);
});
