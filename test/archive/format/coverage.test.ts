import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type CoveredWindow,
  type Evidence,
  isProven,
  joinForPublishing,
  joinProvenWindows,
  overlayCoverage,
  subtractWindow,
} from '../../../src/archive/format/coverage.ts';
import { dayMs, floorToDay, isEmpty, splitByDay } from '../../../src/base/window.ts';
import type { Origin } from '../../../src/contract/raw-page.ts';
import { evidenceKinds } from '../../../src/contract/raw-page.ts';
import { checkProperty } from '../../harness/properties.ts';

const size = 20;
/** Times are quarters of a day, so that windows also meet at midnight. */
const step = dayMs / 4;
const arbitraryResponse: fc.Arbitrary<CoveredWindow> = fc.record({
  from: fc.integer({ min: 0, max: size }).map((n) => n * step),
  to: fc.integer({ min: 0, max: size }).map((n) => n * step),
  fetchedAt: fc.integer({ min: 0, max: size + 4 }).map((n) => n * step),
  origin: fc.constantFrom<Origin>('poll', 'backfill', 'import'),
  evidence: fc.constantFrom(...evidenceKinds),
});
const arbitraryResponses = fc.array(arbitraryResponse, { maxLength: 9 });

interface ModelWindow {
  readonly fetchedAt: number;
  readonly origin: Origin;
  readonly evidence: Evidence;
}

/** The windows that contain each moment. */
const moments = <T>(
  responses: readonly CoveredWindow[],
  pick: (containing: readonly CoveredWindow[], t: number) => T,
): T[] =>
  Array.from({ length: size }, (_, i) =>
    pick(
      responses.filter((a) => a.from <= i * step && i * step < a.to),
      i * step,
    ),
  );

/** The model: the window that wins each moment. Proven before inferred, then the later, then the greater names. */
function findModelWindows(responses: readonly CoveredWindow[]): (ModelWindow | null)[] {
  const rank = (a: CoveredWindow): unknown[] => [isProven(a), a.fetchedAt, a.origin, a.evidence];
  const isGreater = (a: unknown[], b: unknown[]): boolean => {
    const i = a.findIndex((value, at) => value !== b[at]);
    return i >= 0 && (a[i] as number) > (b[i] as number);
  };
  return moments(responses, (containing) => {
    const winner = containing.reduce<CoveredWindow | null>(
      (best, a) => (best === null || isGreater(rank(a), rank(best)) ? a : best),
      null,
    );
    return winner && { fetchedAt: winner.fetchedAt, origin: winner.origin, evidence: winner.evidence };
  });
}

const isDisjoint = (responses: readonly CoveredWindow[]): boolean =>
  responses.every((a, i) => !isEmpty(a) && (i === 0 || responses[i - 1]!.to <= a.from));

const at = (from: number, to: number, rest: Partial<CoveredWindow> = {}): CoveredWindow => ({
  from,
  to,
  fetchedAt: 50,
  origin: 'poll',
  evidence: 'confirmed',
  ...rest,
});

describe('coverage', () => {
  test('uses, at each moment, the latest proven response, else the latest inferred one', () => {
    checkProperty([arbitraryResponses], 300, (responses) => {
      const overlaid = overlayCoverage(responses);
      expect(isDisjoint(overlaid)).toBe(true);
      expect(findModelWindows(overlaid)).toEqual(findModelWindows(responses));
    });
  });

  test('does not depend on the order and grouping of responses', () => {
    checkProperty([arbitraryResponses, fc.infiniteStream(fc.nat()), fc.nat(9)], 100, (responses, order, split) => {
      const shuffled = responses
        .map((response) => ({ answer: response, key: order.next().value as number }))
        .sort((a, b) => a.key - b.key)
        .map(({ answer: response }) => response);
      const inTwoSteps = overlayCoverage([...overlayCoverage(shuffled.slice(0, split)), ...shuffled.slice(split)]);
      expect(inTwoSteps).toEqual(overlayCoverage(responses));
    });
  });

  test('is published with adjacent windows of one origin and evidence joined under the earliest time, but not across midnight', () => {
    checkProperty([arbitraryResponses], 100, (responses) => {
      const split = overlayCoverage(responses).flatMap((a) =>
        splitByDay(a).map((w): CoveredWindow => ({ ...a, ...w })),
      );
      const published = joinForPublishing(split);
      const kinds = (list: readonly CoveredWindow[]) => findModelWindows(list).map((v) => v && [v.origin, v.evidence]);
      expect(isDisjoint(published)).toBe(true);
      expect(kinds(published)).toEqual(kinds(split));
      published.forEach((w, i) => {
        expect(floorToDay(w.to - 1)).toBe(floorToDay(w.from));
        const inside = split.filter((window) => w.from <= window.from && window.to <= w.to);
        expect(w.fetchedAt).toBe(Math.min(...inside.map((window) => window.fetchedAt)));
        const next = published[i + 1];
        const joinable =
          next !== undefined && next.from === w.to && next.origin === w.origin && next.evidence === w.evidence;
        if (joinable) expect(w.to % dayMs).toBe(0);
      });
    });
  });

  test('keeps every gap of a server that states many, over an older response without gaps', () => {
    const windows = Array.from({ length: 20_000 }, (_, i) => at(2 * i, 2 * i + 1, { fetchedAt: 2 }));
    const overlaid = overlayCoverage([...windows, at(0, 40_000, { fetchedAt: 1 })]);
    expect(overlaid.length).toBe(40_000);
    expect(overlaid.every((w, i) => w.fetchedAt === 2 - (i % 2) && w.to - w.from === windows[0]!.to)).toBe(true);
  });

  test('less a window is the parts before and after it', () => {
    expect(subtractWindow(at(2, 8), { from: 4, to: 6 })).toEqual([at(2, 4), at(6, 8)]);
    expect(subtractWindow(at(2, 8), { from: 0, to: 6 })).toEqual([at(6, 8)]);
    expect(subtractWindow(at(2, 8), { from: 2, to: 9 })).toEqual([]);
    expect(subtractWindow(at(2, 8), { from: 8, to: 9 })).toEqual([at(2, 8)]);
    // An empty window removes nothing.
    expect(subtractWindow(at(2, 8), { from: 5, to: 5 })).toEqual([at(2, 8)]);
  });
});

describe('the stored coverage of a symbol', () => {
  const windows = [at(0, 10, { fetchedAt: 20 }), at(10, 20, { fetchedAt: 30 })];

  test('joins adjacent proven windows of one origin and evidence under the earliest time', () => {
    expect(joinProvenWindows(windows, 20)).toEqual([at(0, 20, { fetchedAt: 20 })]);
    const late = [at(0, 10, { fetchedAt: 90 }), windows[1]!];
    expect(joinProvenWindows(late, 20)).toEqual([at(0, 20, { fetchedAt: 30 })]);
  });

  test('does not join windows that end too late, are of another origin or evidence, or not adjacent', () => {
    expect(joinProvenWindows(windows, 19)).toEqual(windows);
    const different = [
      [windows[0]!, at(10, 20, { origin: 'backfill' })],
      [windows[0]!, { ...windows[1]!, evidence: 'stated' as const }],
      [windows[0]!, at(11, 20)],
    ];
    for (const two of different) expect(joinProvenWindows(two, 20)).toEqual(two);
  });

  // Where the upstream was found to omit ticks, one that was fetched since is not fetched again.
  test('does not join inferred windows of two responses', () => {
    const two = windows.map((w) => ({ ...w, evidence: 'inferred' as const }));
    expect(joinProvenWindows(two, 20)).toEqual(two);
  });
});
