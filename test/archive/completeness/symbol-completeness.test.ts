import { describe, expect, test } from 'vitest';
import { computeSymbolCompleteness } from '../../../src/archive/completeness/symbol-completeness.ts';
import { union, type Window } from '../../../src/base/window.ts';
import { factsOf } from '../format/facts.ts';

describe('gaps of a symbol', () => {
  const rules = { lookbackMs: 3, lingerMs: 0, settleMs: 0 };
  interface Given {
    readonly asked?: Window;
    readonly fromNamed?: boolean;
    readonly isEndOpen?: boolean;
    readonly owed?: readonly Window[];
    readonly damaged?: readonly Window[];
  }
  const judged = (facts: Parameters<typeof factsOf>[0], covered: readonly Window[], given: Given) => {
    const { asked = { from: 0, to: 100 }, fromNamed = false, isEndOpen = false, owed = [], damaged = [] } = given;
    const answers = covered.map((w) => ({ ...w, fetchedAt: w.to, origin: 'poll', evidence: 'confirmed' }) as const);
    const mark = { kind: 'failed', reason: 'answered 500', since: 1 } as const;
    const known = { coverage: answers, lost: [], accepted: [], owed: owed.map((w) => ({ ...w, ...mark })), damaged };
    const by = {
      namedSymbols: null,
      nowMs: 100,
      lifetimeRules: rules,
      window: asked,
      isStartExplicit: fromNamed,
      isEndOpen,
      isRequestedByName: false,
    };
    return computeSymbolCompleteness(factsOf(facts), known, by);
  };
  const gaps = (facts: Parameters<typeof factsOf>[0], covered: readonly Window[], given: Given): Window[] =>
    union(judged(facts, covered, given)?.gaps ?? []);

  test('are windows of the lifetime, inside what was asked, that nothing covers', () => {
    const facts = { opensAt: 100, resolvedAt: 200, inactiveSince: 200 };
    expect(gaps(facts, [{ from: 120, to: 150 }], { asked: { from: 0, to: 180 }, fromNamed: true })).toEqual([
      { from: 100, to: 120 },
      { from: 150, to: 180 },
    ]);
    expect(gaps(facts, [{ from: 100, to: 200 }], { asked: { from: 0, to: 999 }, fromNamed: true })).toEqual([]);
  });

  test('begin, where no opening is known, with what was asked by name, unless the service goes back no further', () => {
    const facts = { firstTick: 70, firstSeen: 90 };
    expect(gaps(facts, [], { fromNamed: true })).toEqual([{ from: 0, to: 100 }]);
    expect(gaps(facts, [], {})).toEqual([{ from: 70, to: 100 }]);
    expect(gaps({ ...facts, servedFrom: 60 }, [], { fromNamed: true })).toEqual([{ from: 70, to: 100 }]);
  });

  test('hold what is owed before the lifetime as far as it is known, and not before the opening', () => {
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

  test('are where a damaged file was to have the ticks, and the cursor stands before them', () => {
    const found = judged({ opensAt: 0 }, [{ from: 0, to: 100 }], { damaged: [{ from: 20, to: 30 }] })!;
    expect(found.gaps).toEqual([{ from: 20, to: 30, reason: 'damaged' }]);
    expect(found.reach).toEqual({ cursor: 20, watermark: 20, reached: 20 });
  });

  test('are not the tail that a poll left whose service has a clock that is behind, unless it failed', () => {
    const covered = [{ from: 0, to: 95 }];
    expect(gaps({ opensAt: 0 }, covered, { isEndOpen: true })).toEqual([]);
    expect(gaps({ opensAt: 0 }, covered, {})).toEqual([{ from: 95, to: 100 }]);
    const tail = { from: 95, to: 100 };
    expect(gaps({ opensAt: 0 }, covered, { isEndOpen: true, owed: [tail] })).toEqual([tail]);
    const hours = { asked: { from: 0, to: 7_200_000 }, isEndOpen: true };
    expect(gaps({ opensAt: 0 }, covered, hours)).toEqual([{ from: 95, to: 7_200_000 }]);
  });
});
