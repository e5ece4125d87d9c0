import { expect, test } from 'vitest';
import { countPolled, readLastNights, recordNight } from '../../../src/archive/journal/nightly-memory.ts';
import { addLateTickCount, addRecoveredTicks, addRunTally, startRun } from '../../../src/archive/journal/runs.ts';
import { dayMs, now, opened } from '../scratch.ts';

test('keeps the latest thirty nights, latest first', () => {
  const { db } = opened().state;
  const night = (n: number) => ({
    runId: `run ${n}`,
    polledTo: now + n * dayMs,
    polledMs: dayMs,
    markets: n % 2 === 0 ? n : null,
    ticks: 10 * n,
    late: 3 * n,
    conflicts: n,
    listedAt: n % 2 === 0 ? now + n : null,
  });
  for (let n = 0; n < 33; n++) recordNight(db, night(n));
  recordNight(db, { ...night(32), ticks: 7 });
  const expected = Array.from({ length: 30 }, (_, i) => night(32 - i));
  expect(readLastNights(db)).toEqual([{ ...expected[0], ticks: 7 }, ...expected.slice(1)]);
});

test("counts a night's own ticks and those of polls since the last one, but not of backfills", () => {
  const { db } = opened().state;
  const recordRun = (runId: string, job: string, accepted: number): void => {
    startRun(db, runId, job, 1, now);
    addRunTally(db, runId, { accepted, duplicates: 5, conflicts: 5 });
    addLateTickCount(db, runId, 7);
  };
  recordRun('20260601T030000Z-zzz', 'nightly', 1);
  recordRun('20260601T120000Z-aaa', 'ticks', 20);
  recordRun('20260601T130000Z-aaa', 'backfill', 300);
  recordRun('20260602T030000Z-aaa', 'nightly', 4000);
  addRecoveredTicks(db, '20260602T030000Z-aaa', 'broken', { accepted: 50_000, duplicates: 0, conflicts: 0 });
  const both = { ticks: 54_020, late: 14, conflicts: 10 };
  expect(countPolled(db, '20260602T030000Z-aaa', '20260601T030000Z-zzz')).toEqual(both);
  const own = { ticks: 54_000, late: 7, conflicts: 5 };
  expect(countPolled(db, '20260602T030000Z-aaa', '20260602T030000Z-aaa')).toEqual(own);
});

test('counts a poll during a night once, and one with a clock that was ahead never', () => {
  const { db } = opened().state;
  const recordRun = (runId: string, accepted: number): void => {
    startRun(db, runId, 'ticks', 1, now);
    addRunTally(db, runId, { accepted, duplicates: 0, conflicts: 0 });
  };
  recordRun('20260602T030500Z-aaa', 20);
  recordRun('20270101T000000Z-aaa', 300);
  const nights = ['20260601T030000Z-zzz', '20260602T030000Z-zzz', '20260603T030000Z-zzz', '20260604T030000Z-zzz'];
  const ticks = nights.slice(1).map((night, n) => countPolled(db, night, nights[n]!).ticks);
  expect(ticks).toEqual([0, 20, 0]);
});
