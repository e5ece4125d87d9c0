import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type CoveredWindow,
  computeSettledWindows,
  type Evidence,
  evidenceKinds,
  isProven,
  joinFinalWindows,
  joinForPublishing,
  overlayCoverage,
  overlayLayers,
  overlayLayersOnto,
  subtractWindow,
} from '../../../src/archive/format/coverage.ts';
import { dayMs, floorToDay, isEmpty, splitByDay } from '../../../src/base/window.ts';
import type { Origin } from '../../../src/contract/raw-page.ts';

const size = 20;
/** Moments are quarters of a day, so that stretches meet at midnight too. */
const step = dayMs / 4;
const anyAnswer: fc.Arbitrary<CoveredWindow> = fc.record({
  from: fc.integer({ min: 0, max: size }).map((n) => n * step),
  to: fc.integer({ min: 0, max: size }).map((n) => n * step),
  fetchedAt: fc.integer({ min: 0, max: size + 4 }).map((n) => n * step),
  origin: fc.constantFrom<Origin>('poll', 'backfill', 'import'),
  evidence: fc.constantFrom(...evidenceKinds),
});
const anyAnswers = fc.array(anyAnswer, { maxLength: 9 });

interface Voice {
  readonly fetchedAt: number;
  readonly origin: Origin;
  readonly evidence: Evidence;
}

/** Moment by moment, the windows that hold it. */
const moments = <T>(
  answers: readonly CoveredWindow[],
  pick: (holding: readonly CoveredWindow[], t: number) => T,
): T[] =>
  Array.from({ length: size }, (_, i) =>
    pick(
      answers.filter((a) => a.from <= i * step && i * step < a.to),
      i * step,
    ),
  );

/** The model: for each moment, who speaks for it. Proven before inferred, then the later, then the greater names. */
function voices(answers: readonly CoveredWindow[]): (Voice | null)[] {
  const rank = (a: CoveredWindow): unknown[] => [isProven(a), a.fetchedAt, a.origin, a.evidence];
  const isGreater = (a: unknown[], b: unknown[]): boolean => {
    const i = a.findIndex((value, at) => value !== b[at]);
    return i >= 0 && (a[i] as number) > (b[i] as number);
  };
  return moments(answers, (holding) => {
    const voice = holding.reduce<CoveredWindow | null>(
      (best, a) => (best === null || isGreater(rank(a), rank(best)) ? a : best),
      null,
    );
    return voice && { fetchedAt: voice.fetchedAt, origin: voice.origin, evidence: voice.evidence };
  });
}

const proven = (list: readonly CoveredWindow[]) => list.filter(isProven);
const inferred = (list: readonly CoveredWindow[]) => list.filter((w) => !isProven(w));

const isDisjoint = (answers: readonly CoveredWindow[]): boolean =>
  answers.every((a, i) => !isEmpty(a) && (i === 0 || answers[i - 1]!.to <= a.from));

const at = (from: number, to: number, rest: Partial<CoveredWindow> = {}): CoveredWindow => ({
  from,
  to,
  fetchedAt: 50,
  origin: 'poll',
  evidence: 'confirmed',
  ...rest,
});

describe('coverage', () => {
  test('is, at each moment, of the latest proven response, else of the latest inferred one', () => {
    fc.assert(
      fc.property(anyAnswers, (answers) => {
        const laid = overlayCoverage(answers);
        expect(isDisjoint(laid)).toBe(true);
        expect(voices(laid)).toEqual(voices(answers));
      }),
      { numRuns: 300 },
    );
  });

  test('is the same however the answers were ordered and grouped', () => {
    fc.assert(
      fc.property(anyAnswers, fc.infiniteStream(fc.nat()), fc.nat(9), (answers, order, cut) => {
        const shuffled = answers
          .map((answer) => ({ answer, key: order.next().value as number }))
          .sort((a, b) => a.key - b.key)
          .map(({ answer }) => answer);
        const inTwo = overlayCoverage([...overlayCoverage(shuffled.slice(0, cut)), ...shuffled.slice(cut)]);
        expect(inTwo).toEqual(overlayCoverage(answers));
      }),
    );
  });

  test('is published with neighbours of one origin and evidence as one, never over midnight, under the earliest time', () => {
    fc.assert(
      fc.property(anyAnswers, (answers) => {
        const cut = overlayCoverage(answers).flatMap((a) => splitByDay(a).map((w): CoveredWindow => ({ ...a, ...w })));
        const published = joinForPublishing(cut);
        const kinds = (list: readonly CoveredWindow[]) => voices(list).map((v) => v && [v.origin, v.evidence]);
        expect(isDisjoint(published)).toBe(true);
        expect(kinds(published)).toEqual(kinds(cut));
        published.forEach((w, i) => {
          expect(floorToDay(w.to - 1)).toBe(floorToDay(w.from));
          const inside = cut.filter((piece) => w.from <= piece.from && piece.to <= w.to);
          expect(w.fetchedAt).toBe(Math.min(...inside.map((piece) => piece.fetchedAt)));
          const next = published[i + 1];
          const joinable =
            next !== undefined && next.from === w.to && next.origin === w.origin && next.evidence === w.evidence;
          if (joinable) expect(w.to % dayMs).toBe(0);
        });
      }),
    );
  });

  test('is kept in two layers, each with the latest response of its kind', () => {
    fc.assert(
      fc.property(anyAnswers, (answers) => {
        const laid = overlayLayers(answers);
        expect(isDisjoint(proven(laid))).toBe(true);
        expect(isDisjoint(inferred(laid))).toBe(true);
        expect(voices(proven(laid))).toEqual(voices(proven(answers)));
        const latestProven = voices(proven(answers)).map((v) => v?.fetchedAt ?? Number.NEGATIVE_INFINITY);
        const needed = voices(inferred(answers)).map((v, i) => (v && v.fetchedAt > latestProven[i]! ? v : null));
        expect(voices(inferred(laid))).toEqual(needed);
      }),
      { numRuns: 300 },
    );
  });

  test('is final where some response came long enough afterwards, by proven responses alone and by all', () => {
    const settle = (answers: readonly CoveredWindow[], steps: number) => {
      const final = computeSettledWindows(answers, steps * step);
      return moments(answers, (_, t) => final.some((w) => w.from <= t && t < w.to));
    };
    fc.assert(
      fc.property(anyAnswers, anyAnswers, fc.nat(6), (before, added, steps) => {
        const answers = [...before, ...added];
        const laid = overlayLayersOnto(overlayLayers(before), added);
        const isFinal = (list: readonly CoveredWindow[]) =>
          moments(list, (holding, t) => holding.some((a) => t < a.fetchedAt - steps * step));
        expect(settle(laid, steps)).toEqual(isFinal(answers));
        expect(settle(proven(laid), steps)).toEqual(isFinal(proven(answers)));
        // Old windows that are joined settle the same.
        const joined = joinFinalWindows(laid, steps * step, size * step);
        expect(settle(joined, steps)).toEqual(isFinal(answers));
        expect(settle(proven(joined), steps)).toEqual(isFinal(proven(answers)));
        expect(isDisjoint(proven(joined)) && isDisjoint(inferred(joined))).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  test('of a service that names many holes is told hole by hole, under an older answer without any', () => {
    const pieces = Array.from({ length: 20_000 }, (_, i) => at(2 * i, 2 * i + 1, { fetchedAt: 2 }));
    const laid = overlayCoverage([...pieces, at(0, 40_000, { fetchedAt: 1 })]);
    expect(laid.length).toBe(40_000);
    expect(laid.every((w, i) => w.fetchedAt === 2 - (i % 2) && w.to - w.from === pieces[0]!.to)).toBe(true);
    expect(overlayLayersOnto(laid, [])).toEqual(laid);
  });

  test('laid onto what is laid already is as if all had been laid together', () => {
    fc.assert(
      fc.property(anyAnswers, anyAnswers, (before, added) => {
        const laid = overlayLayers(before);
        const onto = overlayLayersOnto(laid, added);
        expect(onto).toEqual(overlayLayers([...before, ...added]));
        expect(laid).toEqual(overlayLayers(before));
      }),
      { numRuns: 500 },
    );
  });

  test('stays as it is, to the object, where nothing that is laid onto it touches it', () => {
    const [early, late] = [at(0, 2), at(9, 10)];
    const laid = overlayLayersOnto([early, at(4, 5), late], [at(3, 6, { fetchedAt: 99 })]);
    expect(laid).toEqual([early, at(3, 6, { fetchedAt: 99 }), late]);
    expect([laid[0], laid[2]].every((w, i) => w === [early, late][i])).toBe(true);
    // What adjoins is looked at, since it may be of the same answer.
    expect(overlayLayersOnto([at(0, 2), at(4, 6)], [at(2, 4)])).toEqual([at(0, 6)]);
    expect(overlayLayersOnto([early, late], [])).toEqual([early, late]);
  });

  test('is final nowhere where it was answered before its start had settled', () => {
    expect(computeSettledWindows([at(10, 20, { fetchedAt: 15 }), at(20, 30, { fetchedAt: 26 })], 5)).toEqual([
      { from: 20, to: 21 },
    ]);
  });

  test('without a window is what lies before and after it', () => {
    expect(subtractWindow(at(2, 8), { from: 4, to: 6 })).toEqual([at(2, 4), at(6, 8)]);
    expect(subtractWindow(at(2, 8), { from: 0, to: 6 })).toEqual([at(6, 8)]);
    expect(subtractWindow(at(2, 8), { from: 2, to: 9 })).toEqual([]);
    expect(subtractWindow(at(2, 8), { from: 8, to: 9 })).toEqual([at(2, 8)]);
    // A window without a moment takes nothing away.
    expect(subtractWindow(at(2, 8), { from: 5, to: 5 })).toEqual([at(2, 8)]);
  });
});

describe('what a symbol keeps of its coverage', () => {
  const pieces = [at(0, 10, { fetchedAt: 20 }), at(10, 20, { fetchedAt: 30 })];

  test('is one row where neighbours of one origin and evidence are final, under the latest time', () => {
    expect(joinFinalWindows(pieces, 10, 20)).toEqual([at(0, 20, { fetchedAt: 30 })]);
    const late = [at(0, 10, { fetchedAt: 90 }), pieces[1]!];
    expect(joinFinalWindows(late, 10, 20)).toEqual([at(0, 20, { fetchedAt: 90 })]);
  });

  test('stays apart where one of them was answered too early, ends too late, is of another origin or apart', () => {
    expect(joinFinalWindows(pieces, 11, 20)).toEqual(pieces);
    expect(joinFinalWindows(pieces, 10, 19)).toEqual(pieces);
    const unlike = [
      [at(0, 10, { fetchedAt: 19 }), pieces[1]!],
      [pieces[0]!, at(10, 20, { fetchedAt: 29 })],
      [pieces[0]!, at(10, 20, { origin: 'backfill' })],
      [pieces[0]!, { ...pieces[1]!, evidence: 'stated' as const }],
      [pieces[0]!, at(11, 20)],
    ];
    for (const two of unlike) expect(joinFinalWindows(two, 10, 20)).toEqual(two);
  });
});
