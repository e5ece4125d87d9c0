import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Covered, joinForPublishing, type Origin, overlay, settled } from '../../src/core/coverage.ts';
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
});
