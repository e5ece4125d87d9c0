import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Covered,
  joinFinal,
  joinForPublishing,
  type Origin,
  overlay,
  overlayOnto,
  settled,
  without,
} from '../../src/core/coverage.ts';
import { dayFloor, dayMs, isEmpty, splitByDay } from '../../src/core/window.ts';

const size = 20;
/** Moments are quarters of a day, so that stretches meet at midnight too. */
const step = dayMs / 4;
const anyAnswer: fc.Arbitrary<Covered> = fc.record({
  from: fc.integer({ min: 0, max: size }).map((n) => n * step),
  to: fc.integer({ min: 0, max: size }).map((n) => n * step),
  fetchedAt: fc.integer({ min: 0, max: size + 4 }).map((n) => n * step),
  origin: fc.constantFrom<Origin>('poll', 'backfill', 'import'),
});
const anyAnswers = fc.array(anyAnswer, { maxLength: 9 });

interface Voice {
  readonly fetchedAt: number;
  readonly origin: Origin;
}

/** The model: for each moment, who speaks for it. Among answers of one time the greater origin does. */
function voices(answers: readonly Covered[]): (Voice | null)[] {
  return Array.from({ length: size }, (_, i) => {
    const speaking = answers.filter((a) => a.from <= i * step && i * step < a.to);
    const voice = speaking.toSorted((a, b) => b.fetchedAt - a.fetchedAt || (a.origin < b.origin ? 1 : -1))[0];
    return voice === undefined ? null : { fetchedAt: voice.fetchedAt, origin: voice.origin };
  });
}

const isDisjoint = (answers: readonly Covered[]): boolean =>
  answers.every((a, i) => !isEmpty(a) && (i === 0 || answers[i - 1]!.to <= a.from));

const at = (from: number, to: number, rest: Partial<Covered> = {}): Covered => ({
  ...{ from, to, fetchedAt: 50, origin: 'poll' },
  ...rest,
});

describe('coverage', () => {
  test('belongs, at each moment, to the latest answer', () => {
    fc.assert(
      fc.property(anyAnswers, (answers) => {
        const laid = overlay(answers);
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
        const inTwo = overlay([...overlay(shuffled.slice(0, cut)), ...shuffled.slice(cut)]);
        expect(inTwo).toEqual(overlay(answers));
      }),
    );
  });

  test('is published with neighbours of one origin as one, never over midnight, under the latest time', () => {
    fc.assert(
      fc.property(anyAnswers, (answers) => {
        const cut = overlay(answers).flatMap((a) => splitByDay(a).map((w): Covered => ({ ...a, ...w })));
        const published = joinForPublishing(cut);
        const origins = (list: readonly Covered[]) => voices(list).map((voice) => voice?.origin ?? null);
        expect(isDisjoint(published)).toBe(true);
        expect(origins(published)).toEqual(origins(cut));
        published.forEach((w, i) => {
          expect(dayFloor(w.to - 1)).toBe(dayFloor(w.from));
          const inside = cut.filter((piece) => w.from <= piece.from && piece.to <= w.to);
          expect(w.fetchedAt).toBe(Math.max(...inside.map((piece) => piece.fetchedAt)));
          const next = published[i + 1];
          const joinable = next !== undefined && next.from === w.to && next.origin === w.origin;
          if (joinable) expect(w.to % dayMs).toBe(0);
        });
      }),
    );
  });

  test('is final where it was answered long enough afterwards, and only there', () => {
    fc.assert(
      fc.property(anyAnswers, fc.integer({ min: 0, max: 6 }), (answers, steps) => {
        const laid = overlay(answers);
        const final = settled(laid, steps * step);
        const isFinal = (t: number) => final.some((w) => w.from <= t && t < w.to);
        voices(laid).forEach((voice, i) => {
          expect(isFinal(i * step)).toBe(voice !== null && i * step < voice.fetchedAt - steps * step);
        });
      }),
    );
  });

  test('of a service that names many holes is told hole by hole, under an older answer without any', () => {
    const pieces = Array.from({ length: 20_000 }, (_, i) => at(2 * i, 2 * i + 1, { fetchedAt: 2 }));
    const laid = overlay([...pieces, at(0, 40_000, { fetchedAt: 1 })]);
    expect(laid.length).toBe(40_000);
    expect(laid.every((w, i) => w.fetchedAt === 2 - (i % 2) && w.to - w.from === pieces[0]!.to)).toBe(true);
    expect(overlayOnto(laid, [])).toEqual(laid);
  });

  test('laid onto what is laid already is as if all had been laid together', () => {
    fc.assert(
      fc.property(anyAnswers, anyAnswers, (before, added) => {
        const laid = overlay(before);
        const onto = overlayOnto(laid, added);
        expect(onto).toEqual(overlay([...before, ...added]));
        expect(laid).toEqual(overlay(before));
      }),
      { numRuns: 500 },
    );
  });

  test('stays as it is, to the object, where nothing that is laid onto it touches it', () => {
    const [early, late] = [at(0, 2), at(9, 10)];
    const laid = overlayOnto([early, at(4, 5), late], [at(3, 6, { fetchedAt: 99 })]);
    expect(laid).toEqual([early, at(3, 6, { fetchedAt: 99 }), late]);
    expect([laid[0], laid[2]].every((w, i) => w === [early, late][i])).toBe(true);
    // What adjoins is looked at, since it may be of the same answer.
    expect(overlayOnto([at(0, 2), at(4, 6)], [at(2, 4)])).toEqual([at(0, 6)]);
    expect(overlayOnto([early, late], [])).toEqual([early, late]);
  });

  test('is final nowhere where it was answered before its start had settled', () => {
    expect(settled([at(10, 20, { fetchedAt: 15 }), at(20, 30, { fetchedAt: 26 })], 5)).toEqual([{ from: 20, to: 21 }]);
  });

  test('without a window is what lies before and after it', () => {
    expect(without(at(2, 8), { from: 4, to: 6 })).toEqual([at(2, 4), at(6, 8)]);
    expect(without(at(2, 8), { from: 0, to: 6 })).toEqual([at(6, 8)]);
    expect(without(at(2, 8), { from: 2, to: 9 })).toEqual([]);
    expect(without(at(2, 8), { from: 8, to: 9 })).toEqual([at(2, 8)]);
    // A window without a moment takes nothing away.
    expect(without(at(2, 8), { from: 5, to: 5 })).toEqual([at(2, 8)]);
  });
});

describe('what a symbol keeps of its coverage', () => {
  const pieces = [at(0, 10, { fetchedAt: 20 }), at(10, 20, { fetchedAt: 30 })];

  test('is one row where neighbours of one origin are final, under the latest time', () => {
    expect(joinFinal(pieces, 10, 20)).toEqual([at(0, 20, { fetchedAt: 30 })]);
    const late = [at(0, 10, { fetchedAt: 90 }), pieces[1]!];
    expect(joinFinal(late, 10, 20)).toEqual([at(0, 20, { fetchedAt: 90 })]);
  });

  test('stays apart where one of them was answered too early, ends too late, is of another origin or apart', () => {
    expect(joinFinal(pieces, 11, 20)).toEqual(pieces);
    expect(joinFinal(pieces, 10, 19)).toEqual(pieces);
    const unlike = [
      [at(0, 10, { fetchedAt: 19 }), pieces[1]!],
      [pieces[0]!, at(10, 20, { fetchedAt: 29 })],
      [pieces[0]!, at(10, 20, { origin: 'backfill' })],
      [pieces[0]!, at(11, 20)],
    ];
    for (const two of unlike) expect(joinFinal(two, 10, 20)).toEqual(two);
  });
});
