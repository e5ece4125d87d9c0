import { describe, expect, test } from 'vitest';
import { computeSymbolCompleteness } from '../../../src/archive/completeness/symbol-completeness.ts';
import { union, type Window } from '../../../src/base/window.ts';
import { factsOf } from '../format/facts.ts';

describe('gaps of a symbol', () => {
  const rules = { lookbackMs: 3, lingerMs: 0 };
  interface Given {
    readonly requested?: Window;
    readonly fromNamed?: boolean;
    readonly isEndOpen?: boolean;
    readonly owed?: readonly Window[];
    readonly damaged?: readonly Window[];
    readonly accepted?: readonly Window[];
    readonly lingerMs?: number;
  }
  const compute = (facts: Parameters<typeof factsOf>[0], covered: readonly Window[], given: Given) => {
    const {
      requested: window = { from: 0, to: 100 },
      fromNamed = false,
      isEndOpen = false,
      owed = [],
      damaged = [],
      accepted = [],
      lingerMs = 0,
    } = given;
    const coverage = covered.map((w) => ({ ...w, fetchedAt: w.to, origin: 'poll', evidence: 'confirmed' }) as const);
    const mark = { kind: 'failed', reason: 'HTTP 500', since: 1 } as const;
    const known = {
      coverage,
      lost: [],
      accepted: accepted.map((w) => ({ ...w, reason: 'known', acceptedAt: 1 })),
      owed: owed.map((w) => ({ ...w, ...mark })),
      damaged,
    };
    const query = {
      namedSymbols: null,
      nowMs: 100,
      lifetimeRules: { ...rules, lingerMs },
      window: window,
      isStartExplicit: fromNamed,
      isEndOpen,
      isRequestedByName: false,
    };
    return computeSymbolCompleteness(factsOf(facts), known, query);
  };
  const gaps = (facts: Parameters<typeof factsOf>[0], covered: readonly Window[], given: Given): Window[] =>
    union(compute(facts, covered, given)?.gaps ?? []);

  test('are the uncovered windows of the lifetime inside the query window', () => {
    const facts = { opensAt: 100, resolvedAt: 200, inactiveSince: 200 };
    expect(gaps(facts, [{ from: 120, to: 150 }], { requested: { from: 0, to: 180 }, fromNamed: true })).toEqual([
      { from: 100, to: 120 },
      { from: 150, to: 180 },
    ]);
    expect(gaps(facts, [{ from: 100, to: 200 }], { requested: { from: 0, to: 999 }, fromNamed: true })).toEqual([]);
  });

  test('start at an explicit query start if the opening is unknown, unless the server keeps less history', () => {
    const facts = { firstTick: 70, firstSeen: 90 };
    expect(gaps(facts, [], { fromNamed: true })).toEqual([{ from: 0, to: 100 }]);
    expect(gaps(facts, [], {})).toEqual([{ from: 70, to: 100 }]);
    expect(gaps({ ...facts, servedFrom: 60 }, [], { fromNamed: true })).toEqual([{ from: 70, to: 100 }]);
  });

  test('include owed windows before the known lifetime, but not before the opening', () => {
    const owed = [{ from: 10, to: 20 }];
    expect(
      gaps(
        { firstSeen: 93 },
        [
          { from: 12, to: 14 },
          { from: 90, to: 100 },
        ],
        { owed },
      ),
    ).toEqual([
      { from: 10, to: 12 },
      { from: 14, to: 90 },
    ]);
    expect(gaps({ firstSeen: 93, opensAt: 15 }, [{ from: 15, to: 100 }], { owed })).toEqual([]);
    expect(gaps({ firstSeen: 93, servedFrom: 90 }, [{ from: 90, to: 100 }], { owed })).toEqual(owed);
  });

  test('include the days of a damaged file, and the cursor stops before them', () => {
    const found = compute({ opensAt: 0 }, [{ from: 0, to: 100 }], { damaged: [{ from: 20, to: 30 }] })!;
    expect(found.gaps).toEqual([{ from: 20, to: 30, reason: 'damaged' }]);
    expect(found.reach).toEqual({ cursor: 20, watermark: 20, reached: 20 });
  });

  test('of a damaged file are not excepted where they were accepted, because a repair can restore them', () => {
    const given = { damaged: [{ from: 20, to: 30 }], accepted: [{ from: 10, to: 40 }] };
    const found = compute(
      { opensAt: 0 },
      [
        { from: 0, to: 10 },
        { from: 20, to: 100 },
      ],
      given,
    )!;
    expect(found.excepted).toEqual([
      { from: 10, to: 20 },
      { from: 30, to: 40 },
    ]);
    expect(found.reach).toEqual({ cursor: 10, watermark: 20, reached: 20 });
    expect(union(found.gaps)).toEqual([{ from: 10, to: 30 }]);
  });

  test('of a damaged file do not make an ended symbol live again', () => {
    const ended = { opensAt: 0, resolvedAt: 60, inactiveSince: 60 };
    const isLive = (covered: readonly Window[], damaged: readonly Window[]): boolean =>
      compute(ended, covered, { damaged, lingerMs: 100 })!.reach !== null;
    expect(isLive([{ from: 0, to: 60 }], [])).toBe(false);
    expect(isLive([{ from: 0, to: 60 }], [{ from: 20, to: 30 }])).toBe(false);
    expect(isLive([{ from: 0, to: 50 }], [{ from: 20, to: 30 }])).toBe(true);
  });

  test('do not include the end of a poll of a server whose clock is behind, unless it failed', () => {
    const covered = [{ from: 0, to: 95 }];
    expect(gaps({ opensAt: 0 }, covered, { isEndOpen: true })).toEqual([]);
    expect(gaps({ opensAt: 0 }, covered, {})).toEqual([{ from: 95, to: 100 }]);
    const tail = { from: 95, to: 100 };
    expect(gaps({ opensAt: 0 }, covered, { isEndOpen: true, owed: [tail] })).toEqual([tail]);
    const hours = { requested: { from: 0, to: 7_200_000 }, isEndOpen: true };
    expect(gaps({ opensAt: 0 }, covered, hours)).toEqual([{ from: 95, to: 7_200_000 }]);
  });
});
