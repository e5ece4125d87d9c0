import { describe, expect, test } from 'vitest';
import { cursorOf, gapsOf, isDue, isLive, lifeOf } from '../../src/core/life.ts';
import { unknownSymbol } from '../../src/core/market.ts';
import { factsOf } from './facts.ts';

const ever = Number.POSITIVE_INFINITY;

describe("a symbol's life", () => {
  test('begins when it opened, whatever was seen before', () => {
    expect(lifeOf(factsOf({ opensAt: 50, firstTick: 20, firstSeen: 10 })).from).toBe(50);
  });

  test('begins, where no opening is known, with the earlier of first tick and first sight', () => {
    expect(lifeOf(factsOf({ firstTick: 20, firstSeen: 30 })).from).toBe(20);
    expect(lifeOf(factsOf({ firstTick: 20, firstSeen: 10 })).from).toBe(10);
    expect(lifeOf(factsOf({ firstSeen: 10 })).from).toBe(10);
  });

  test('begins, where it is named by hand and nothing else is known, with the moment it was named, and has no end', () => {
    const named = unknownSymbol('S', 30);
    expect(named).toEqual(factsOf({ symbol: 'S', firstSeen: 30, lastSeen: 30, listed: false }));
    expect(lifeOf(named)).toEqual({ from: 30, to: ever });
  });

  test('has no end while it is active', () => {
    expect(lifeOf(factsOf({ lastTick: 70, closesAt: 60, lastSeen: 80 })).to).toBe(ever);
  });

  test('ends with its last sign of activity: resolution, a poll that showed it active, or a tick', () => {
    const gone = { inactiveSince: 90, lastSeen: 95 };
    expect(lifeOf(factsOf({ ...gone, lastActive: 80, lastTick: 70 })).to).toBe(80);
    expect(lifeOf(factsOf({ ...gone, lastActive: 80, lastTick: 85 })).to).toBe(86);
    expect(lifeOf(factsOf({ resolvedAt: 99, lastActive: 80, lastTick: 85 })).to).toBe(99);
    expect(lifeOf(factsOf(gone)).to).toBe(95);
  });

  test('has no end by a resolution that was only planned when the lists were last seen', () => {
    expect(lifeOf(factsOf({ resolvedAt: 500, lastSeen: 100 })).to).toBe(ever);
    expect(lifeOf(factsOf({ resolvedAt: 500, lastSeen: 100, inactiveSince: 90, lastActive: 80 })).to).toBe(80);
    expect(lifeOf(factsOf({ resolvedAt: 500, lastSeen: 500 })).to).toBe(500);
    // Told in hindsight, as by a recording: there is an outcome.
    expect(lifeOf(factsOf({ resolvedAt: 500, lastSeen: 100, outcome: 0 })).to).toBe(500);
  });

  test('ends with its last tick where files or backfills alone know it, and not where it is polled by name', () => {
    expect(lifeOf(factsOf({ listed: false, lastTick: 70 })).to).toBe(71);
    expect(lifeOf(factsOf({ listed: false, lastTick: 70, polledFrom: 5 })).to).toBe(ever);
    expect(lifeOf(factsOf({ listed: false })).to).toBe(ever);
  });

  test('goes on where a symbol that was resolved is shown active again', () => {
    const revived = { resolvedAt: 500, lastActive: 900, lastSeen: 900 };
    expect(lifeOf(factsOf(revived)).to).toBe(900);
    expect(isLive(factsOf(revived), 950, 950, { lingerMs: 1000, settleMs: 60 })).toBe(true);
  });

  test('does not end before it began', () => {
    const { from, to } = lifeOf(factsOf({ opensAt: 200, inactiveSince: 90, lastActive: 80 }));
    expect([from, to]).toEqual([200, 200]);
  });
});

describe('a listed symbol', () => {
  const rules = { lingerMs: 1000, settleMs: 10 };

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

  test('is not polled once it is retired, nor one that only backfills know', () => {
    expect(isLive(factsOf({ retiredAt: 5 }), 0, 10, rules)).toBe(false);
    expect(isLive(factsOf({ listed: false }), 0, 10, rules)).toBe(false);
  });
});

describe('the cursor', () => {
  const coverage = [
    { from: 10, to: 20 },
    { from: 30, to: 40 },
  ];

  test('is the end of the coverage that goes on from the first polled moment', () => {
    expect(cursorOf(factsOf({ polledFrom: 10 }), coverage)).toBe(20);
    expect(cursorOf(factsOf({ polledFrom: 30 }), coverage)).toBe(40);
  });

  test('stands at the beginning where nothing covers it', () => {
    expect(cursorOf(factsOf({ polledFrom: 25 }), coverage)).toBe(25);
    expect(cursorOf(factsOf({ opensAt: 5 }), coverage)).toBe(5);
  });
});

describe('gaps', () => {
  test('are windows of the life, inside what was asked, that nothing covers', () => {
    const facts = factsOf({ opensAt: 100, resolvedAt: 200, inactiveSince: 200 });
    expect(gapsOf(facts, [{ from: 120, to: 150 }], { from: 0, to: 180 }, true)).toEqual([
      { from: 100, to: 120 },
      { from: 150, to: 180 },
    ]);
    expect(gapsOf(facts, [{ from: 100, to: 200 }], { from: 0, to: 999 }, true)).toEqual([]);
  });

  test('begin, where no opening is known, with what was asked by name, else with the first tick or sight', () => {
    const facts = factsOf({ firstTick: 70, firstSeen: 90 });
    expect(gapsOf(facts, [], { from: 10, to: 100 }, true)).toEqual([{ from: 10, to: 100 }]);
    expect(gapsOf(facts, [], { from: 10, to: 100 }, false)).toEqual([{ from: 70, to: 100 }]);
  });
});

test('a symbol that was given up on is tried again after a week, and at once where that lies days ahead', () => {
  const dayMs = 86_400_000;
  const due = (nowMs: number): boolean => isDue(factsOf({ retiredAt: 100 * dayMs }), nowMs);
  expect(isDue(factsOf({ retiredAt: null }), 0)).toBe(true);
  expect([due(100 * dayMs), due(107 * dayMs - 1), due(107 * dayMs)]).toEqual([false, false, true]);
  expect([due(99 * dayMs), due(99 * dayMs - 1)]).toEqual([false, true]);
});
