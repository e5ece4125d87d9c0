import { describe, expect, test } from 'vitest';
import type { CoveredWindow } from '../../../src/archive/format/coverage.ts';
import {
  cleanWindowsMin,
  computeOverlapMs,
  emptyRecheckHistory,
  findDoubtfulWindows,
  type RecheckHistory,
  recheckNightsMax,
  recordLateness,
  recordRechecks,
  sumRechecks,
} from '../../../src/archive/journal/recheck-results.ts';
import { dayMs } from '../../../src/base/window.ts';

const hourMs = 3_600_000;
const day = Date.UTC(2026, 6, 1);
const night = (rest = {}) => ({
  at: day,
  windows: 4,
  contradicted: 0,
  leftOut: 0,
  seen: 100,
  found: 0,
  latenessMs: 0,
  isProven: false,
  isPagingContradicted: false,
  ...rest,
});
const covered = (from: number, to: number, fetchedAt: number, rest: Partial<CoveredWindow> = {}): CoveredWindow => ({
  from: day + from,
  to: day + to,
  fetchedAt: day + fetchedAt,
  origin: 'poll',
  evidence: 'confirmed',
  ...rest,
});

describe('the overlap in use', () => {
  test('is as configured while no tick is late', () => {
    expect(computeOverlapMs(emptyRecheckHistory, hourMs, dayMs)).toBe(hourMs);
  });

  test('is 1.5 times the greatest lateness, up to a bound that never shortens the configured one', () => {
    const late = recordLateness(
      recordLateness(emptyRecheckHistory, day, 2 * hourMs, day),
      day + dayMs,
      hourMs,
      day + dayMs,
    );
    expect(computeOverlapMs(late, hourMs, dayMs)).toBe(3 * hourMs);
    expect(computeOverlapMs(late, hourMs, 2 * hourMs)).toBe(2 * hourMs);
    expect(computeOverlapMs(late, 5 * hourMs, 2 * hourMs)).toBe(5 * hourMs);
  });

  test('ignores a lateness after thirty days', () => {
    const late = recordLateness(emptyRecheckHistory, day, 9 * hourMs, day);
    const after = recordLateness(late, day + recheckNightsMax * dayMs, hourMs, day);
    expect(computeOverlapMs(after, hourMs, dayMs)).toBe(1.5 * hourMs);
  });
});

describe('a server', () => {
  test('counts as leaving out ticks after one proven window, or two unproven ones', () => {
    expect(recordRechecks(emptyRecheckHistory, night({ leftOut: 1, contradicted: 1, isProven: true })).caughtAt).toBe(
      day,
    );
    const once = recordRechecks(emptyRecheckHistory, night({ leftOut: 1, contradicted: 1 }));
    expect(once.caughtAt).toBeNull();
    expect(recordRechecks(once, night({ at: day + dayMs, leftOut: 1, contradicted: 1 })).caughtAt).toBe(day + dayMs);
  });

  test('does not count as leaving out ticks if they are late', () => {
    expect(recordRechecks(emptyRecheckHistory, night({ contradicted: 4, latenessMs: hourMs })).caughtAt).toBeNull();
  });

  test('counts clean windows since the last contradiction, including one between pages', () => {
    let memory: RecheckHistory = { ...emptyRecheckHistory, caughtAt: day };
    memory = recordRechecks(memory, night({ windows: cleanWindowsMin }));
    expect(memory.cleanWindows).toBe(cleanWindowsMin);
    expect(recordRechecks(memory, night({ isPagingContradicted: true })).cleanWindows).toBe(0);
    expect(recordRechecks(memory, night({ contradicted: 1 })).cleanWindows).toBe(0);
  });

  test('has a history of thirty nights', () => {
    let memory = emptyRecheckHistory;
    for (let n = 0; n < 40; n++) memory = recordRechecks(memory, night({ at: day + n * dayMs }));
    expect(memory.nights).toHaveLength(recheckNightsMax);
    expect(memory.nights.at(-1)!.at).toBe(day + 39 * dayMs);
  });
});

describe('windows in doubt', () => {
  test('are none if nothing was found', () => {
    expect(findDoubtfulWindows([covered(0, dayMs, dayMs)], emptyRecheckHistory, hourMs)).toEqual([]);
  });

  test('are those fetched before the server was found to leave out ticks, by day, latest first, without imports', () => {
    const coverage = [
      covered(0, 2 * dayMs, 2 * dayMs, { evidence: 'inferred' }),
      covered(2 * dayMs, 3 * dayMs, 4 * dayMs),
      covered(-dayMs, 0, 0, { origin: 'import' }),
    ];
    expect(findDoubtfulWindows(coverage, { ...emptyRecheckHistory, caughtAt: day + 3 * dayMs }, hourMs)).toEqual([
      { from: day + dayMs, to: day + 2 * dayMs },
      { from: day, to: day + dayMs },
    ]);
  });

  test('are those fetched so soon that late ticks may be missing, and not again since', () => {
    const late = { ...emptyRecheckHistory, lateAt: day + 30 * hourMs };
    const coverage = [covered(0, 24 * hourMs, 24 * hourMs), covered(20 * hourMs, 22 * hourMs, 40 * hourMs)];
    expect(findDoubtfulWindows(coverage, late, 6 * hourMs)).toEqual([
      { from: day + 22 * hourMs, to: day + 24 * hourMs },
      { from: day + 18 * hourMs, to: day + 20 * hourMs },
    ]);
  });
});

describe('the sum of the nights', () => {
  test('gives no estimate from a few windows', () => {
    const sum = sumRechecks(recordRechecks(emptyRecheckHistory, night({ windows: 29, contradicted: 1, found: 1 })));
    expect(sum).toMatchObject({ windows: 29, contradicted: 1, found: 1, missingShare: null });
  });

  test('gives the share of missing ticks, and a bound of incomplete windows', () => {
    const sum = sumRechecks(
      recordRechecks(emptyRecheckHistory, night({ windows: 100, seen: 1000, found: 20, contradicted: 5 })),
    );
    expect(sum.missingShare).toBe(0.02);
    expect(sum.contradictedShareMax).toBeGreaterThan(0.05);
    expect(sum.contradictedShareMax).toBeLessThan(0.12);
    expect(sumRechecks(recordRechecks(emptyRecheckHistory, night({ windows: 100 }))).contradictedShareMax).toBeCloseTo(
      0.026,
      3,
    );
    expect(sumRechecks(emptyRecheckHistory).contradictedShareMax).toBe(1);
  });
});
