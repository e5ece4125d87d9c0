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

const ever = Number.POSITIVE_INFINITY;

describe("a symbol's lifetime", () => {
  const lookback = { lookbackMs: 7 };
  const of = (known: Parameters<typeof factsOf>[0], ...covered: Window[]) =>
    computeLifetime(factsOf(known), covered, lookback);

  test('begins when it opened, whatever was seen before', () => {
    expect(of({ opensAt: 50, firstTick: 20, firstSeen: 10 }, { from: 5, to: 6 }).from).toBe(50);
  });

  test('begins, where no opening is known, with the earliest of tick, coverage, and first sight less the look back', () => {
    expect(of({ firstTick: 20, firstSeen: 30 }).from).toBe(20);
    expect(of({ firstTick: 20, firstSeen: 10 }).from).toBe(3);
    expect(of({ firstSeen: 10 }).from).toBe(3);
    expect(of({ firstTick: 20, firstSeen: 30 }, { from: 15, to: 16 }).from).toBe(15);
  });

  test('begins where the service does that says it goes back no further, unless more was had', () => {
    expect(of({ opensAt: 50, firstSeen: 90, servedFrom: 70 }).from).toBe(70);
    expect(of({ opensAt: 50, firstSeen: 90, servedFrom: 40 }).from).toBe(50);
    expect(of({ opensAt: 50, firstSeen: 90, servedFrom: 70 }, { from: 60, to: 65 }).from).toBe(60);
    expect(of({ firstSeen: 90, servedFrom: 86 }).from).toBe(86);
    expect(of({ opensAt: 50, firstSeen: 90, servedFrom: 70, firstTick: 55 }).from).toBe(55);
  });

  test('begins, where it is named by hand and nothing else is known, so long before, and has no end', () => {
    const named = createUnknownSymbol('S', 30);
    expect(named).toEqual(factsOf({ symbol: 'S', firstSeen: 30, lastSeen: 30, listed: false }));
    expect(computeLifetime(named, [], lookback)).toEqual({ from: 23, to: ever });
  });

  test('has no end while it is active', () => {
    expect(of({ lastTick: 70, closesAt: 60, lastSeen: 80 }).to).toBe(ever);
  });

  test('ends with the last of last listing, close and last tick', () => {
    const gone = { inactiveSince: 90, lastSeen: 95 };
    expect(of({ ...gone, lastActive: 80, lastTick: 70 }).to).toBe(80);
    expect(of({ ...gone, lastActive: 80, lastTick: 85 }).to).toBe(86);
    expect(of({ ...gone, lastActive: 80, lastTick: 70, closesAt: 83 }).to).toBe(83);
    // A close that lay ahead when it turned inactive is a plan.
    expect(of({ ...gone, lastActive: 80, closesAt: 500 }).to).toBe(90);
    expect(of({ resolvedAt: 99, lastActive: 80, lastTick: 85 }).to).toBe(99);
    expect(of(gone).to).toBe(95);
  });

  test('has no end by a resolution that was only planned when the lists were last seen', () => {
    expect(of({ resolvedAt: 500, lastSeen: 100 }).to).toBe(ever);
    expect(of({ resolvedAt: 500, lastSeen: 100, inactiveSince: 90, lastActive: 80 }).to).toBe(80);
    expect(of({ resolvedAt: 500, lastSeen: 500 }).to).toBe(500);
    // Told in hindsight, as by a recording: there is an outcome.
    expect(of({ resolvedAt: 500, lastSeen: 100, outcome: 0 }).to).toBe(500);
  });

  test('ends with its last tick where files or backfills alone know it, and not where it is polled by name', () => {
    expect(of({ listed: false, lastTick: 70 }).to).toBe(71);
    expect(of({ listed: false, lastTick: 70, polledFrom: 5 }).to).toBe(ever);
    expect(of({ listed: false }).to).toBe(ever);
  });

  test('goes on where a symbol that was resolved is shown active again', () => {
    const revived = { resolvedAt: 500, lastActive: 900, lastSeen: 900 };
    expect(of(revived).to).toBe(900);
    expect(isLive(factsOf(revived), 950, 950, { lookbackMs: 0, lingerMs: 1000, settleMs: 60 })).toBe(true);
  });

  test('does not end before it began', () => {
    const { from, to } = of({ opensAt: 200, inactiveSince: 90, lastActive: 80 });
    expect([from, to]).toEqual([200, 200]);
  });
});

describe('a listed symbol', () => {
  const rules = { lookbackMs: 0, lingerMs: 1000, settleMs: 10 };

  test('is polled as long as it is active', () => {
    expect(isLive(factsOf(), 0, 1e12, rules)).toBe(true);
  });

  test('is polled when it turns inactive until it has lingered', () => {
    const gone = factsOf({ inactiveSince: 500, lastActive: 400 });
    expect(isLive(gone, 450, 1499, rules)).toBe(true);
    expect(isLive(gone, 450, 1500, rules)).toBe(false);
  });

  test('is left alone once it is resolved and covered until it has settled, and not before', () => {
    const resolved = factsOf({ resolvedAt: 500, inactiveSince: 500, lastActive: 400 });
    expect(isLive(resolved, 509, 600, rules)).toBe(true);
    expect(isLive(resolved, 510, 600, rules)).toBe(false);
    expect(isLive(factsOf({ resolvedAt: 500, lastActive: 400 }), 510, 600, rules)).toBe(false);
  });

  test('lingers after it turned inactive, and no longer, where its resolution is only planned', () => {
    const planned = factsOf({ resolvedAt: 9e9, lastSeen: 500, inactiveSince: 500, lastActive: 400 });
    expect(isLive(planned, 1400, 1499, rules)).toBe(true);
    expect(isLive(planned, 1400, 1500, rules)).toBe(false);
  });

  test('that was resolved long before it was first seen is asked for until that is covered, within its lingering', () => {
    const late = factsOf({ resolvedAt: 500, lastSeen: 5000, inactiveSince: 5000 });
    expect(isLive(late, 0, 5000, rules)).toBe(true);
    expect(isLive(late, 4000, 5001, rules)).toBe(false);
    expect(isLive(late, 0, 6000, rules)).toBe(false);
  });

  test('is not asked for without end where its last stretch cannot be had', () => {
    const resolved = factsOf({ resolvedAt: 500, inactiveSince: 500 });
    expect(isLive(resolved, 100, 1500, rules)).toBe(false);
  });

  test('is not polled while it is suspended, nor one that only backfills know', () => {
    expect(isLive(factsOf({ suspendedAt: 5 }), 0, 10, rules)).toBe(false);
    expect(isLive(factsOf({ listed: false }), 0, 10, rules)).toBe(false);
  });
});

describe('the cursor', () => {
  const coverage = [
    { from: 10, to: 20 },
    { from: 30, to: 40 },
  ];
  const rules = { lookbackMs: 0 };

  test('is the end of the coverage that goes on from the start of the lifetime', () => {
    expect(computeCursor(factsOf({ opensAt: 10 }), coverage, rules)).toBe(20);
    expect(computeCursor(factsOf({ opensAt: 30 }), coverage, rules)).toBe(40);
    expect(computeCursor(factsOf({ firstSeen: 15 }), coverage, rules)).toBe(20);
  });

  test('stands at the start of the lifetime where nothing covers it', () => {
    expect(computeCursor(factsOf({ opensAt: 25 }), coverage, rules)).toBe(25);
    expect(computeCursor(factsOf({ opensAt: 5 }), coverage, rules)).toBe(5);
  });
});

describe('a suspended symbol', () => {
  const day = 86_400_000;
  const due = (triedAt: number | null, nowMs: number): boolean =>
    isRequestDue(factsOf({ suspendedAt: 5, triedAt }), nowMs);

  test('is asked for once a UTC day, whatever the hour', () => {
    expect([due(100 * day, 100 * day), due(100 * day, 101 * day - 1), due(101 * day - 1, 101 * day)]).toEqual([
      false,
      false,
      true,
    ]);
    expect(isRequestDue(factsOf({ triedAt: 100 * day }), 100 * day)).toBe(true);
  });

  test('is asked for at once where that is wanted, and where a clock that was ahead asked last', () => {
    expect([due(null, 7), due(900 * day, 100 * day)]).toEqual([true, true]);
  });

  test('is too much from more than one in a hundred on', () => {
    expect([
      hasTooManySuspended(0, 0),
      hasTooManySuspended(1, 100),
      hasTooManySuspended(2, 100),
      hasTooManySuspended(1, 99),
    ]).toEqual([false, false, true, true]);
  });

  test('is one that polls are for where the lists name it as active, or it is named by hand', () => {
    expect(isActive(factsOf(), null)).toBe(true);
    expect(isActive(factsOf({ inactiveSince: 3 }), null)).toBe(false);
    expect(isActive(factsOf({ resolvedAt: 3 }), null)).toBe(false);
    expect(isActive(factsOf({ listed: false }), null)).toBe(false);
    expect(isActive(factsOf({ listed: false }), new Set(['S']))).toBe(true);
    expect(isActive(factsOf(), new Set(['T']))).toBe(false);
  });
});
