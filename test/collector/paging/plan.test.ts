import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { computeLifetime } from '../../../src/archive/completeness/symbol-lifetime.ts';
import { dayMs, intersect, subtract, union, type Window } from '../../../src/base/window.ts';
import {
  estimateRequests,
  extendToLostWindows,
  isWanted,
  planBackfill,
  planPoll,
} from '../../../src/collector/paging/plan.ts';
import { factsOf } from '../../archive/format/facts.ts';

const end = Date.UTC(2026, 6, 10);
const hour = 3_600_000;
const minute = 60_000;
const rules = { overlapMs: 15 * minute, lookbackMs: 7 * dayMs, lingerMs: dayMs, settleMs: hour };
const polled = factsOf({ polledFrom: end - 5 * dayMs, opensAt: end - 5 * dayMs });
const until = (to: number): Window[] => [{ from: end - 5 * dayMs, to }];

test('a lost window is asked for whole, or not at all', () => {
  const plan = { symbol: 'S', windows: [{ from: 10, to: 20 }], isFirst: false };
  const lost = [
    { from: 0, to: 5 },
    { from: 8, to: 11 },
    { from: 19, to: 25 },
    { from: 25, to: 30 },
  ];
  expect(extendToLostWindows(plan, lost).windows).toEqual([{ from: 8, to: 25 }]);
  expect(extendToLostWindows(plan, [lost[0]!, lost[3]!])).toBe(plan);
});

describe('a poll', () => {
  test('begins, the first time, so many days before its first sight', () => {
    const plan = planPoll(factsOf({ firstSeen: end }), [], end, rules);
    expect(plan).toEqual({ symbol: 'S', windows: [{ from: end - 7 * dayMs, to: end }], isFirst: true });
  });

  test('begins, the first time, with the opening, however long ago that is', () => {
    for (const opensAt of [end - 2 * hour, end - 90 * dayMs])
      expect(planPoll(factsOf({ opensAt }), [], end, rules).windows).toEqual([{ from: opensAt, to: end }]);
  });

  test('asks nothing of a symbol that opens only later', () => {
    expect(planPoll(factsOf({ opensAt: end + hour }), [], end, rules).windows).toEqual([]);
  });

  test('goes on from the cursor, with an overlap for late ticks', () => {
    const plan = planPoll(polled, until(end - hour), end, rules);
    expect(plan).toEqual({ symbol: 'S', windows: [{ from: end - hour - 15 * minute, to: end }], isFirst: false });
  });

  test('does not overlap what lies before the lifetime', () => {
    const young = factsOf({ opensAt: end - 5 * minute });
    const windows = planPoll(young, [{ from: end - 5 * minute, to: end - minute }], end, rules).windows;
    expect(windows).toEqual([{ from: end - 5 * minute, to: end }]);
  });

  test('asks nothing again of a past day that is covered', () => {
    expect(planPoll(polled, until(end), end, rules).windows).toEqual([]);
    expect(planPoll(polled, until(end + dayMs), end, rules).windows).toEqual([]);
  });

  test('asks a quiet symbol once, however long ago the last poll was', () => {
    const old = factsOf({ opensAt: end - 100 * dayMs });
    const windows = planPoll(old, [{ from: end - 100 * dayMs, to: end - 60 * dayMs }], end, rules).windows;
    expect(windows).toEqual([{ from: end - 60 * dayMs - 15 * minute, to: end }]);
  });

  test('asks again for a hole before the cursor', () => {
    const covered = [
      { from: end - 5 * dayMs, to: end - 3 * dayMs },
      { from: end - 2 * dayMs, to: end - hour },
    ];
    expect(planPoll(polled, covered, end, rules).windows).toEqual([
      { from: end - 3 * dayMs, to: end - 2 * dayMs },
      { from: end - hour - 15 * minute, to: end },
    ]);
  });

  test('asks for a hole though all since is covered', () => {
    const covered = [
      { from: end - 5 * dayMs, to: end - 3 * dayMs },
      { from: end - 2 * dayMs, to: end },
    ];
    expect(planPoll(polled, covered, end, rules).windows).toEqual([{ from: end - 3 * dayMs, to: end - 2 * dayMs }]);
  });

  test('asks for what is owed, be it before what is known of the lifetime, and not before the opening', () => {
    const owed = [{ from: end - 30 * dayMs, to: end - 29 * dayMs }];
    const from = end - 10 * dayMs;
    const unknown = factsOf({ firstSeen: end });
    expect(planPoll(unknown, [{ from, to: end }], end, rules, owed).windows).toEqual(owed);
    expect(planPoll(unknown, [...owed, { from, to: end }], end, rules, owed).windows).toEqual([
      { from: owed[0]!.to, to: from },
    ]);
    expect(planPoll(factsOf({ opensAt: from }), [{ from, to: end }], end, rules, owed).windows).toEqual([]);
  });

  test('asks for all that is lacking of the lifetime, tidily, and for nothing beyond its bounds', () => {
    const moment = fc.integer({ min: -40, max: 4 }).map((n) => end + n * 6 * hour);
    const anyWindow = fc.tuple(moment, moment).map(([from, to]): Window => ({ from, to }));
    const known = fc.record({ opensAt: fc.option(moment, { nil: null }), firstSeen: moment });
    fc.assert(
      fc.property(known, fc.array(anyWindow, { maxLength: 5 }), (facts, list) => {
        const coverage = union(list);
        const { windows, isFirst } = planPoll(factsOf(facts), coverage, end, rules);
        const { from } = computeLifetime(factsOf(facts), coverage, rules);
        expect(isFirst).toBe(coverage.length === 0);
        expect(subtract(subtract([{ from, to: end }], coverage), windows)).toEqual([]);
        expect(union(windows)).toEqual(windows);
        for (const w of windows) expect(from <= w.from && w.to <= end).toBe(true);
        const again = intersect(windows, coverage).reduce((sum, w) => sum + w.to - w.from, 0);
        expect(again).toBeLessThanOrEqual(rules.overlapMs);
      }),
      { numRuns: 500 },
    );
  });

  test('is wanted for a live symbol, and no more for one that is resolved and covered', () => {
    expect(isWanted(polled, [], end, rules)).toBe(true);
    const resolved = factsOf({ opensAt: 0, resolvedAt: end - 2 * hour, inactiveSince: end - 2 * hour });
    expect(isWanted(resolved, [{ from: 0, to: end - 2 * hour }], end, rules)).toBe(true);
    expect(isWanted(resolved, [{ from: 0, to: end }], end, rules)).toBe(false);
  });
});

describe('a backfill', () => {
  const plain = { lookbackMs: 7 * dayMs, lifetimeMarginMs: dayMs, force: false, allKnown: false, named: false };
  const asked = { from: end - 10 * dayMs, to: end };
  const alive = factsOf({
    opensAt: end - 6 * dayMs,
    resolvedAt: end - 3 * dayMs,
    inactiveSince: end - 3 * dayMs,
    lastActive: end - 4 * dayMs,
  });
  const lifetime = { from: end - 7 * dayMs, to: end - 2 * dayMs };

  test('asks within the life of a symbol and the margin', () => {
    expect(planBackfill(alive, [], asked, plain)).toEqual({ symbol: 'S', windows: [lifetime], isFirst: false });
  });

  test('asks for nothing of a symbol that did not live then', () => {
    expect(planBackfill(alive, [], { from: end - hour, to: end }, plain).windows).toEqual([]);
  });

  test('goes back as far as was asked where no opening is known', () => {
    expect(planBackfill(factsOf({ firstSeen: end }), [], asked, plain).windows).toEqual([asked]);
  });

  test('asks only for what coverage lacks', () => {
    const covered = [{ from: end - 6 * dayMs, to: end - 4 * dayMs }];
    expect(planBackfill(alive, covered, asked, plain).windows).toEqual([
      { from: end - 7 * dayMs, to: end - 6 * dayMs },
      { from: end - 4 * dayMs, to: end - 2 * dayMs },
    ]);
    expect(planBackfill(alive, [asked], asked, plain).windows).toEqual([]);
  });

  test('asks for all of it where it is forced, still within the life', () => {
    expect(planBackfill(alive, [asked], asked, { ...plain, force: true }).windows).toEqual([lifetime]);
  });

  test('asks for nothing after the last tick of a symbol that files alone brought, unless it is named', () => {
    const brought = factsOf({ listed: false, firstTick: end - 9 * dayMs, lastTick: end - 8 * dayMs, firstSeen: end });
    expect(planBackfill(brought, [], asked, plain).windows).toEqual([{ from: asked.from, to: end - 8 * dayMs + 1 }]);
    expect(planBackfill(brought, [], { from: end - 7 * dayMs, to: end }, plain).windows).toEqual([]);
    expect(planBackfill(brought, [], asked, { ...plain, named: true }).windows).toEqual([asked]);
  });

  test('asks as far as ticks came, where the lists tell of less; the margin is around what the lists tell', () => {
    const tickedUntil = (lastTick: number) => planBackfill({ ...alive, lastTick }, [], asked, plain).windows;
    expect(tickedUntil(end - 3 * dayMs + hour)).toEqual([lifetime]);
    expect(tickedUntil(end - dayMs)).toEqual([{ from: lifetime.from, to: end - dayMs + 1 }]);
    const early = { ...alive, firstTick: end - 9 * dayMs };
    expect(planBackfill(early, [], asked, plain).windows).toEqual([lifetime]);
  });

  test('asks for nothing outside of the life, though it is forced', () => {
    expect(planBackfill(alive, [], { from: end - hour, to: end }, { ...plain, force: true }).windows).toEqual([]);
  });

  test('asks beyond the life for all known symbols, where told to', () => {
    expect(planBackfill(alive, [], asked, { ...plain, allKnown: true }).windows).toEqual([asked]);
  });
});

describe('the expected requests', () => {
  test('are one a window, and more where the past was denser than a page', () => {
    const plan = {
      symbol: 'S',
      windows: [
        { from: 0, to: 1000 },
        { from: 2000, to: 2010 },
      ],
      isFirst: false,
    };
    expect(estimateRequests(plan, factsOf(), 100)).toBe(2);
    expect(estimateRequests(plan, factsOf({ firstTick: 0, lastTick: 1000, ticks: 1000 }), 100)).toBe(11);
    expect(estimateRequests(plan, factsOf({ firstTick: 5000, lastTick: 6000, ticks: 1000 }), 100)).toBe(11);
    for (const known of [{ firstTick: 1000 }, { lastTick: 1000 }, { firstTick: 1000, lastTick: 1000 }])
      expect(estimateRequests(plan, factsOf({ ...known, ticks: 1000 }), 100)).toBe(2);
  });
});
