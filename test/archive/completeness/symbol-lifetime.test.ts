import { describe, expect, test } from 'vitest';
import {
  computeCursor,
  computeLifetime,
  hasTooManySuspended,
  isActive,
  isLive,
  isRequestDue,
} from '../../../src/archive/completeness/symbol-lifetime.ts';
import { createUnknownSymbol } from '../../../src/archive/format/market.ts';
import type { Window } from '../../../src/base/window.ts';
import { factsOf } from '../format/facts.ts';

const allTime = Number.POSITIVE_INFINITY;

describe("a symbol's lifetime", () => {
  const lookback = { lookbackMs: 7 };
  const of = (known: Parameters<typeof factsOf>[0], ...covered: Window[]) =>
    computeLifetime(factsOf(known), covered, lookback);

  test('starts at the opening, whatever was seen before', () => {
    expect(of({ opensAt: 50, firstTick: 20, firstSeen: 10 }, { from: 5, to: 6 }).from).toBe(50);
  });

  test('starts at the earliest of tick, coverage, and first appearance less the lookback if the opening is unknown', () => {
    expect(of({ firstTick: 20, firstSeen: 30 }).from).toBe(20);
    expect(of({ firstTick: 20, firstSeen: 10 }).from).toBe(3);
    expect(of({ firstSeen: 10 }).from).toBe(3);
    expect(of({ firstTick: 20, firstSeen: 30 }, { from: 15, to: 16 }).from).toBe(15);
  });

  test("starts at the server's history, unless something earlier is covered", () => {
    expect(of({ opensAt: 50, firstSeen: 90, servedFrom: 70 }).from).toBe(70);
    expect(of({ opensAt: 50, firstSeen: 90, servedFrom: 40 }).from).toBe(50);
    expect(of({ opensAt: 50, firstSeen: 90, servedFrom: 70 }, { from: 60, to: 65 }).from).toBe(60);
    expect(of({ firstSeen: 90, servedFrom: 86 }).from).toBe(86);
    expect(of({ opensAt: 50, firstSeen: 90, servedFrom: 70, firstTick: 55 }).from).toBe(70);
  });

  test('starts a lookback ago and has no end for a symbol named by hand', () => {
    const named = createUnknownSymbol('S', 30);
    expect(named).toEqual(factsOf({ symbol: 'S', firstSeen: 30, lastSeen: 30, listed: false }));
    expect(computeLifetime(named, [], lookback)).toEqual({ from: 23, to: allTime });
  });

  test('has no end while the symbol is active', () => {
    expect(of({ lastTick: 70, closesAt: 60, lastSeen: 80 }).to).toBe(allTime);
  });

  test('ends with the last of last listing, close and last tick', () => {
    const gone = { inactiveSince: 90, lastSeen: 95 };
    expect(of({ ...gone, lastActive: 80, lastTick: 70 }).to).toBe(80);
    expect(of({ ...gone, lastActive: 80, lastTick: 85 }).to).toBe(86);
    expect(of({ ...gone, lastActive: 80, lastTick: 70, closesAt: 83 }).to).toBe(83);
    // A close after the symbol turned inactive was only planned.
    expect(of({ ...gone, lastActive: 80, closesAt: 500 }).to).toBe(90);
    expect(of({ resolvedAt: 99, lastActive: 80, lastTick: 85 }).to).toBe(99);
    expect(of(gone).to).toBe(95);
  });

  test('is not ended by a resolution that was only planned when last listed', () => {
    expect(of({ resolvedAt: 500, lastSeen: 100 }).to).toBe(allTime);
    expect(of({ resolvedAt: 500, lastSeen: 100, inactiveSince: 90, lastActive: 80 }).to).toBe(80);
    expect(of({ resolvedAt: 500, lastSeen: 500 }).to).toBe(500);
    // Known in hindsight, as from a recording: there is an outcome.
    expect(of({ resolvedAt: 500, lastSeen: 100, outcome: 0 }).to).toBe(500);
  });

  test('ends with the last tick for a symbol from files or backfills, but not if it is polled by name', () => {
    expect(of({ listed: false, lastTick: 70 }).to).toBe(71);
    expect(of({ listed: false, lastTick: 70, polledFrom: 5 }).to).toBe(allTime);
    expect(of({ listed: false }).to).toBe(allTime);
  });

  test('continues if a resolved symbol is listed as active again', () => {
    const revived = { resolvedAt: 500, lastActive: 900, lastSeen: 900 };
    expect(of(revived).to).toBe(900);
    expect(isLive(factsOf(revived), { cursor: 950, provenTo: 850 }, 950, { lookbackMs: 0, lingerMs: 1000 })).toBe(true);
  });

  test('never ends before it starts', () => {
    const { from, to } = of({ opensAt: 200, inactiveSince: 90, lastActive: 80 });
    expect([from, to]).toEqual([200, 200]);
  });
});

/** Proven up to `to` without a gap. */
const covered = (to: number) => ({ cursor: to, provenTo: to });

describe('a listed symbol', () => {
  const rules = { lookbackMs: 0, lingerMs: 1000 };

  test('is polled while it is active', () => {
    expect(isLive(factsOf(), covered(0), 1e12, rules)).toBe(true);
  });

  test('is polled after it turns inactive, for the linger time', () => {
    const gone = factsOf({ inactiveSince: 500, lastActive: 400 });
    expect(isLive(gone, covered(450), 1499, rules)).toBe(true);
    expect(isLive(gone, covered(450), 1500, rules)).toBe(false);
  });

  test('is polled after its resolution until its end is covered and proven', () => {
    const resolved = factsOf({ resolvedAt: 500, inactiveSince: 500, lastActive: 400 });
    expect(isLive(resolved, covered(499), 600, rules)).toBe(true);
    expect(isLive(resolved, covered(500), 600, rules)).toBe(false);
    expect(isLive(resolved, { cursor: 600, provenTo: 499 }, 600, rules)).toBe(true);
    expect(isLive(resolved, { cursor: 499, provenTo: 600 }, 600, rules)).toBe(true);
    expect(isLive(factsOf({ resolvedAt: 500, lastActive: 400 }), covered(500), 600, rules)).toBe(false);
  });

  test('is polled until its last tick is proven, if that came after its resolution, but no longer than it lingers', () => {
    const traded = factsOf({ resolvedAt: 500, inactiveSince: 500, lastTick: 700 });
    expect(isLive(traded, covered(700), 800, rules)).toBe(true);
    expect(isLive(traded, covered(701), 800, rules)).toBe(false);
    expect(isLive(traded, covered(700), 1500, rules)).toBe(false);
  });

  test('lingers and no longer if its resolution is only planned', () => {
    const planned = factsOf({ resolvedAt: 9e9, lastSeen: 500, inactiveSince: 500, lastActive: 400 });
    expect(isLive(planned, covered(1400), 1499, rules)).toBe(true);
    expect(isLive(planned, covered(1400), 1500, rules)).toBe(false);
  });

  test('is polled within the linger time if it was resolved long before it was first seen', () => {
    const late = factsOf({ resolvedAt: 500, lastSeen: 5000, inactiveSince: 5000 });
    expect(isLive(late, covered(0), 5000, rules)).toBe(true);
    expect(isLive(late, covered(4000), 5001, rules)).toBe(false);
    expect(isLive(late, covered(0), 6000, rules)).toBe(false);
  });

  test('is not polled forever if its last window cannot be fetched', () => {
    const resolved = factsOf({ resolvedAt: 500, inactiveSince: 500 });
    expect(isLive(resolved, covered(100), 1500, rules)).toBe(false);
  });

  test('is not polled while suspended, nor if only backfills know it', () => {
    expect(isLive(factsOf({ suspendedAt: 5 }), covered(0), 10, rules)).toBe(false);
    expect(isLive(factsOf({ listed: false }), covered(0), 10, rules)).toBe(false);
  });
});

describe('the cursor', () => {
  const coverage = [
    { from: 10, to: 20 },
    { from: 30, to: 40 },
  ];
  const rules = { lookbackMs: 0 };

  test('is the contiguous end of coverage from the start of the lifetime', () => {
    expect(computeCursor(factsOf({ opensAt: 10 }), coverage, rules)).toBe(20);
    expect(computeCursor(factsOf({ opensAt: 30 }), coverage, rules)).toBe(40);
    expect(computeCursor(factsOf({ firstSeen: 15 }), coverage, rules)).toBe(20);
  });

  test('is the start of the lifetime if nothing covers it', () => {
    expect(computeCursor(factsOf({ opensAt: 25 }), coverage, rules)).toBe(25);
    expect(computeCursor(factsOf({ opensAt: 5 }), coverage, rules)).toBe(5);
  });
});

describe('a suspended symbol', () => {
  const day = 86_400_000;
  const isDue = (triedAt: number | null, nowMs: number): boolean =>
    isRequestDue(factsOf({ suspendedAt: 5, triedAt }), nowMs);

  test('is requested once per UTC day, at any hour', () => {
    expect([isDue(100 * day, 100 * day), isDue(100 * day, 101 * day - 1), isDue(101 * day - 1, 101 * day)]).toEqual([
      false,
      false,
      true,
    ]);
    expect(isRequestDue(factsOf({ triedAt: 100 * day }), 100 * day)).toBe(true);
  });

  test('is requested at once if never tried, or if the last try has a future time', () => {
    expect([isDue(null, 7), isDue(900 * day, 100 * day)]).toEqual([true, true]);
  });

  test('is too many from more than one in a hundred on', () => {
    expect([
      hasTooManySuspended(0, 0),
      hasTooManySuspended(1, 100),
      hasTooManySuspended(2, 100),
      hasTooManySuspended(1, 99),
    ]).toEqual([false, false, true, true]);
  });

  test('counts as polled if the lists name it as active, or if it is named by hand', () => {
    expect(isActive(factsOf(), null)).toBe(true);
    expect(isActive(factsOf({ inactiveSince: 3 }), null)).toBe(false);
    expect(isActive(factsOf({ resolvedAt: 3 }), null)).toBe(false);
    expect(isActive(factsOf({ listed: false }), null)).toBe(false);
    expect(isActive(factsOf({ listed: false }), new Set(['S']))).toBe(true);
    expect(isActive(factsOf(), new Set(['T']))).toBe(false);
  });
});
