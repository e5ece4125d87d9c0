import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { computeLifetime } from '../../../src/archive/completeness/symbol-lifetime.ts';
import type { CoveredWindow } from '../../../src/archive/format/coverage.ts';
import { dayMs, floorToDay, intersect, subtract, union, type Window } from '../../../src/base/window.ts';
import {
  addTail,
  beginAtAnchor,
  extendToLostWindows,
  findUnprovenStart,
  needsPolling,
  planBackfill,
  planPoll,
} from '../../../src/collector/paging/plan.ts';
import { factsOf } from '../../archive/format/facts.ts';

const end = Date.UTC(2026, 6, 10);
const hour = 3_600_000;
const minute = 60_000;
const rules = { overlapMs: 15 * minute, lookbackMs: 7 * dayMs, lingerMs: dayMs };
const polled = factsOf({ polledFrom: end - 5 * dayMs, opensAt: end - 5 * dayMs });
const until = (to: number): Window[] => [{ from: end - 5 * dayMs, to }];

test('a plan is extended to all of each lost window that it touches', () => {
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
  test('first begins the lookback before the symbol was first seen', () => {
    const plan = planPoll(factsOf({ firstSeen: end }), [], end, rules);
    expect(plan).toEqual({
      symbol: 'S',
      windows: [{ from: end - 7 * dayMs, to: end }],
      isFirst: true,
      hasMargin: true,
    });
  });

  test('first begins at the opening, at any distance', () => {
    for (const opensAt of [end - 2 * hour, end - 90 * dayMs])
      expect(planPoll(factsOf({ opensAt }), [], end, rules).windows).toEqual([{ from: opensAt, to: end }]);
  });

  test('requests nothing for a symbol that opens later', () => {
    expect(planPoll(factsOf({ opensAt: end + hour }), [], end, rules).windows).toEqual([]);
  });

  test('continues from the cursor, with the overlap', () => {
    const plan = planPoll(polled, until(end - hour), end, rules);
    expect(plan).toEqual({
      ...{ symbol: 'S', windows: [{ from: end - hour - 15 * minute, to: end }], isFirst: false, hasMargin: false },
    });
  });

  describe('of a symbol that is collected again', () => {
    const opensAt = end - 5 * dayMs;
    const back = (from: number, to: number) =>
      factsOf({ opensAt, unselected: [{ from, to, kind: 'excluded', reason: null, decidedAt: from }] });
    const plan = (to: number, covered: Window[] = [], from = Number.NEGATIVE_INFINITY) =>
      planPoll(back(from, to), covered, end, rules).windows;

    test('begins where that was decided, without the overlap', () => {
      expect(plan(end - hour)).toEqual([{ from: end - hour, to: end }]);
      expect(plan(end - minute)).toEqual([{ from: end - minute, to: end }]);
    });

    test('reads the overlap before it if the poll itself decided it, once', () => {
      for (const later of [0, minute])
        expect(plan(end + later)).toEqual([{ from: end + later - rules.overlapMs, to: end }]);
      expect(plan(end, [{ from: end - rules.overlapMs, to: end }])).toEqual([]);
      // The end of a past day, long before.
      expect(plan(end + rules.overlapMs)).toEqual([]);
      // A shorter time is fetched as a whole, and only once.
      expect(plan(end, until(end - minute), end - minute)).toEqual([{ from: end - 16 * minute, to: end }]);
    });
  });

  test('does not begin before the lifetime', () => {
    const young = factsOf({ opensAt: end - 5 * minute });
    const windows = planPoll(young, [{ from: end - 5 * minute, to: end - minute }], end, rules).windows;
    expect(windows).toEqual([{ from: end - 5 * minute, to: end }]);
  });

  test('does not repeat a covered past day', () => {
    expect(planPoll(polled, until(end), end, rules).windows).toEqual([]);
    expect(planPoll(polled, until(end + dayMs), end, rules).windows).toEqual([]);
  });

  test('requests one window for a quiet symbol after a long pause', () => {
    const old = factsOf({ opensAt: end - 100 * dayMs });
    const windows = planPoll(old, [{ from: end - 100 * dayMs, to: end - 60 * dayMs }], end, rules).windows;
    expect(windows).toEqual([{ from: end - 60 * dayMs - 15 * minute, to: end }]);
  });

  test('requests a gap before the cursor', () => {
    const covered = [
      { from: end - 5 * dayMs, to: end - 3 * dayMs },
      { from: end - 2 * dayMs, to: end - hour },
    ];
    expect(planPoll(polled, covered, end, rules).windows).toEqual([
      { from: end - 3 * dayMs, to: end - 2 * dayMs },
      { from: end - hour - 15 * minute, to: end },
    ]);
  });

  test('requests a gap even if everything later is covered', () => {
    const covered = [
      { from: end - 5 * dayMs, to: end - 3 * dayMs },
      { from: end - 2 * dayMs, to: end },
    ];
    expect(planPoll(polled, covered, end, rules).windows).toEqual([{ from: end - 3 * dayMs, to: end - 2 * dayMs }]);
  });

  test('requests owed windows before the known lifetime, but not before the opening', () => {
    const owed = [{ from: end - 30 * dayMs, to: end - 29 * dayMs }];
    const from = end - 10 * dayMs;
    const unknown = factsOf({ firstSeen: end });
    expect(planPoll(unknown, [{ from, to: end }], end, rules, owed).windows).toEqual(owed);
    expect(planPoll(unknown, [...owed, { from, to: end }], end, rules, owed).windows).toEqual([
      { from: owed[0]!.to, to: from },
    ]);
    expect(planPoll(factsOf({ opensAt: from }), [{ from, to: end }], end, rules, owed).windows).toEqual([]);
  });

  test('requests the uncovered part of the lifetime and nothing else', () => {
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
        const repeatedMs = intersect(windows, coverage).reduce((sum, w) => sum + w.to - w.from, 0);
        expect(repeatedMs).toBeLessThanOrEqual(rules.overlapMs);
      }),
      { numRuns: 500 },
    );
  });

  test('is wanted for a live symbol, and not for one that is resolved and proven to its end', () => {
    const nothing = () => [];
    expect(needsPolling(polled, [], nothing, end, rules)).toBe(true);
    const resolved = factsOf({ opensAt: 0, resolvedAt: end - 2 * hour, inactiveSince: end - 2 * hour });
    const covered = [{ from: 0, to: end }];
    const to = (at: number, evidence: CoveredWindow['evidence']) => () => [
      { from: 0, to: at, fetchedAt: end, origin: 'poll' as const, evidence },
    ];
    expect(needsPolling(resolved, [{ from: 0, to: end - 3 * hour }], to(end, 'confirmed'), end, rules)).toBe(true);
    expect(needsPolling(resolved, covered, to(end, 'inferred'), end, rules)).toBe(true);
    expect(needsPolling(resolved, covered, to(end - 3 * hour, 'confirmed'), end, rules)).toBe(true);
    expect(needsPolling(resolved, covered, to(end - 2 * hour, 'confirmed'), end, rules)).toBe(false);
  });
});

describe('a poll after one that did not prove its end', () => {
  const covered = (from: number, to: number, evidence: CoveredWindow['evidence'], fetchedAt = to): CoveredWindow => ({
    from,
    to,
    fetchedAt,
    evidence,
    origin: 'poll',
  });
  const last = end - dayMs;
  const begin = end - 5 * dayMs;
  const since = end - 7 * dayMs;
  const planAfter = (responses: CoveredWindow[], lastTick: number) => {
    const facts = { ...polled, lastTick };
    return addTail(planPoll(facts, union(responses), end, rules), facts, union(responses), rules);
  };
  const findStart = (responses: CoveredWindow[], lastTick = last - minute, firstSeen = end): number | null =>
    findUnprovenStart(planAfter(responses, lastTick), responses, since, firstSeen)?.start ?? null;

  test('begins where the coverage is no longer proven', () => {
    expect(findStart([covered(begin, last, 'inferred')])).toBe(begin);
    expect(
      findStart([covered(begin, last - 9 * hour, 'confirmed', last), covered(last - 9 * hour, last, 'inferred')]),
    ).toBe(last - 9 * hour);
    expect(findStart([covered(begin - 9 * dayMs, last, 'inferred')])).toBe(since);
  });

  test('begins at a hole in what is proven in the first nights after it, and then after 2, 4, 8 more', () => {
    const due = Array.from({ length: 20 }, (_, i) => i + 2).filter((nights) => {
      const hole = end - nights * dayMs;
      const responses = [
        covered(hole - dayMs, hole - hour, 'confirmed'),
        covered(hole - hour, hole, 'inferred'),
        covered(hole, last, 'confirmed'),
      ];
      const start = findUnprovenStart(planAfter(responses, last - minute), responses, end - 30 * dayMs, hole)?.start;
      return start === hole - hour;
    });
    expect(due).toEqual([2, 3, 4, 6, 10, 18]);
    const old = [covered(since - dayMs, since - hour, 'inferred'), covered(since - hour, last, 'confirmed')];
    expect(findStart(old, last - minute, since)).toBeNull();
  });

  test('begins as planned if all is proven, or nothing new is polled', () => {
    const proven = [covered(begin, last, 'confirmed')];
    expect(findStart(proven)).toBeNull();
    expect(findStart([covered(begin, end, 'inferred')])).toBeNull();
  });

  test('begins at the tick before, or at midnight if it is far', () => {
    const responses = [covered(begin, last, 'inferred')];
    const plan = planAfter(responses, last - minute);
    const at = (tick: number | null) => beginAtAnchor(plan, { start: last - hour, earliest: begin }, tick, 0);
    expect(at(last - 3 * hour).windows).toEqual([{ from: last - 3 * hour, to: end }]);
    expect(at(last - 3 * hour).tail!.knownTick).toBe(last - minute);
    expect(at(last - 3 * hour).tail!.isLowUnproven).toBeUndefined();
    const midnight = floorToDay(last - hour);
    for (const far of [last - 3 * dayMs, null])
      expect(at(far)).toMatchObject({ windows: [{ from: midnight, to: end }], tail: { isLowUnproven: true } });
  });
});

describe('a backfill', () => {
  const plain = { lookbackMs: 7 * dayMs, lifetimeMarginMs: dayMs, force: false, allKnown: false, named: false };
  const window = { from: end - 10 * dayMs, to: end };
  const facts = factsOf({
    opensAt: end - 6 * dayMs,
    resolvedAt: end - 3 * dayMs,
    inactiveSince: end - 3 * dayMs,
    lastActive: end - 4 * dayMs,
  });
  const lifetime = { from: end - 7 * dayMs, to: end - 2 * dayMs };

  test('requests the lifetime of a symbol with the margin', () => {
    expect(planBackfill(facts, [], window, plain)).toMatchObject({
      windows: [lifetime],
      isFirst: false,
      hasMargin: true,
    });
  });

  test('requests nothing outside of the lifetime', () => {
    expect(planBackfill(facts, [], { from: end - hour, to: end }, plain).windows).toEqual([]);
  });

  test('requests the full window if the opening is unknown', () => {
    expect(planBackfill(factsOf({ firstSeen: end }), [], window, plain).windows).toEqual([window]);
  });

  test('requests only uncovered windows', () => {
    const covered = [{ from: end - 6 * dayMs, to: end - 4 * dayMs }];
    expect(planBackfill(facts, covered, window, plain).windows).toEqual([
      { from: end - 7 * dayMs, to: end - 6 * dayMs },
      { from: end - 4 * dayMs, to: end - 2 * dayMs },
    ]);
    expect(planBackfill(facts, [window], window, plain).windows).toEqual([]);
  });

  test('requests the full lifetime if forced', () => {
    expect(planBackfill(facts, [window], window, { ...plain, force: true }).windows).toEqual([lifetime]);
  });

  test('requests nothing after the last tick of an imported symbol unless it is named', () => {
    const imported = factsOf({ listed: false, firstTick: end - 9 * dayMs, lastTick: end - 8 * dayMs, firstSeen: end });
    expect(planBackfill(imported, [], window, plain).windows).toEqual([{ from: window.from, to: end - 8 * dayMs + 1 }]);
    expect(planBackfill(imported, [], { from: end - 7 * dayMs, to: end }, plain).windows).toEqual([]);
    expect(planBackfill(imported, [], window, { ...plain, named: true }).windows).toEqual([window]);
  });

  test('extends to ticks after the listed lifetime, without a margin', () => {
    const tickedUntil = (lastTick: number) => planBackfill({ ...facts, lastTick }, [], window, plain).windows;
    expect(tickedUntil(end - 3 * dayMs + hour)).toEqual([lifetime]);
    expect(tickedUntil(end - dayMs)).toEqual([{ from: lifetime.from, to: end - dayMs + 1 }]);
    const early = { ...facts, firstTick: end - 9 * dayMs };
    expect(planBackfill(early, [], window, plain).windows).toEqual([lifetime]);
  });

  test('requests nothing outside of the lifetime even if forced', () => {
    expect(planBackfill(facts, [], { from: end - hour, to: end }, { ...plain, force: true }).windows).toEqual([]);
  });

  test('requests windows outside of the lifetime for all known symbols on demand', () => {
    expect(planBackfill(facts, [], window, { ...plain, allKnown: true }).windows).toEqual([window]);
  });
});
