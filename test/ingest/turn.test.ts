import { describe, expect, test } from 'vitest';
import type { Window } from '../../src/core/window.ts';
import type { Answer, Ask } from '../../src/ingest/ask.ts';
import { type Learned, nothingLearned } from '../../src/ingest/learned.ts';
import { isIdle, isNeedless, readClaims, spanOf, turnOf, turnOfNeedless } from '../../src/ingest/paging.ts';

const minute = 60_000;
const ask: Ask = { from: 1000, to: 2000, kind: 'whole' };
const observedAt = 10_000_000;
const learnedWith = (known: Partial<Learned>): Learned => ({ ...nothingLearned(), ...known });
const spanAs = (ends: readonly [number, number] | null) => (ends === null ? null : { first: ends[0], last: ends[1] });

/** An answer that speaks for all that was asked, with ticks between these ends. */
function answerOf(count: number, ends: readonly [number, number] | null, rest: Partial<Answer> = {}): Answer {
  const span = spanAs(ends);
  const asked = { from: ask.from, to: ask.to };
  return {
    ...{ count, span, brought: span, observedAt, asked, requested: { from: 999, to: 2000 } },
    ...{ answered: [asked], unclaimed: [], spoke: true, ...rest },
  };
}

const w = (from: number, to: number): Window => ({ from, to });

test('the span of ticks in any order is from the first to the last', () => {
  expect(spanOf({ t: Float64Array.of(5, 3, 9, 4), p: new Float64Array(4) })).toEqual({ first: 3, last: 9 });
  expect(spanOf({ t: Float64Array.of(5), p: new Float64Array(1) })).toEqual({ first: 5, last: 5 });
  expect(spanOf({ t: new Float64Array(0), p: new Float64Array(0) })).toBeNull();
});

describe('what an answer claims', () => {
  const claimsOf = (
    said: { from?: number; to?: number; gaps?: Window[] },
    ends: readonly [number, number] | null = null,
    known: Partial<Learned> = {},
    at = observedAt,
  ) => readClaims(ask, { from: null, to: null, gaps: [], ...said }, spanAs(ends), at, learnedWith(known));

  test('is all that was asked, up to its moment, where it does not say', () => {
    expect(claimsOf({})).toEqual({ answered: [w(1000, 2000)], unclaimed: [], spoke: true });
    expect(claimsOf({}, null, {}, 1500)).toEqual({ answered: [w(1000, 1500)], unclaimed: [], spoke: true });
    expect(claimsOf({}, null, {}, 1000)).toEqual({ answered: [], unclaimed: [], spoke: false });
  });

  test('is between the ends that it states, which count themselves only where that is known or a tick lies there', () => {
    expect(claimsOf({ from: 1200, to: 1500 })).toEqual({
      ...{ answered: [w(1201, 1500)], unclaimed: [w(1000, 1201), w(1500, 2000)], spoke: true },
    });
    expect(claimsOf({ from: 1200, to: 1500 }, null, { fromInclusive: true }).answered).toEqual([w(1200, 1500)]);
    expect(claimsOf({ from: 1200, to: 1500 }, null, { toInclusive: true }).answered).toEqual([w(1201, 1501)]);
    expect(claimsOf({ from: 1200, to: 1500 }, [1200, 1400]).answered).toEqual([w(1200, 1500)]);
    expect(claimsOf({ from: 1200, to: 1500 }, [1300, 1500]).answered).toEqual([w(1201, 1501)]);
  });

  test('is without the gaps that it names, and still something said', () => {
    const gaps = [w(1300, 1400)];
    expect(claimsOf({ gaps }).answered).toEqual([w(1000, 1300), w(1400, 2000)]);
    expect(claimsOf({ gaps: [w(0, 9999)] })).toEqual({ answered: [], unclaimed: [], spoke: true });
    expect(claimsOf({ from: 2000, to: 3000 })).toEqual({ answered: [], unclaimed: [w(1000, 2000)], spoke: false });
  });
});

describe('an answer that is not full', () => {
  const learned = learnedWith({ cap: 100 });

  test('settles all that it claims', () => {
    for (const answer of [answerOf(50, [1100, 1900]), answerOf(0, null)])
      expect(turnOf(learned, ask, answer)).toEqual({ claim: [w(1000, 2000)], next: [], stuck: [] });
  });

  test('is asked on for what it does not claim; before the start that it states only until that is refused', () => {
    const part = answerOf(50, [1400, 1500], { answered: [w(1300, 1600)], unclaimed: [w(1000, 1300), w(1600, 2000)] });
    expect(turnOf(learned, ask, part)).toEqual({
      claim: [w(1300, 1600)],
      next: [
        { ...w(1000, 1300), kind: 'earlier' },
        { ...w(1600, 2000), kind: 'whole' },
      ],
      stuck: [],
    });
    expect(turnOf(learnedWith({ cap: 100, refusesEarlier: true }), ask, part)).toEqual({
      ...{ claim: [w(1300, 1600)], next: [{ ...w(1600, 2000), kind: 'whole' }], stuck: [w(1000, 1300)] },
    });
    // One that states just the span of its ticks says nothing of where its past begins.
    const tight = answerOf(50, [1300, 1500], { answered: [w(1300, 1501)], unclaimed: [w(1000, 1300), w(1501, 2000)] });
    expect(turnOf(learnedWith({ cap: 100, refusesEarlier: true }), ask, tight)).toMatchObject({
      next: [
        { from: 1000, kind: 'whole' },
        { from: 1501, kind: 'whole' },
      ],
      stuck: [],
    });
  });

  test('that claims nothing is stuck, unless it was asked for with edges that are known better by now', () => {
    const silent = answerOf(0, null, { answered: [], unclaimed: [w(1000, 2000)], spoke: false });
    expect(turnOf(learned, ask, silent)).toEqual({ claim: [], next: [], stuck: [w(1000, 2000)] });
    for (const known of [{ fromInclusive: true }, { toInclusive: true }])
      expect(turnOf(learnedWith({ cap: 100, ...known }), ask, silent)).toEqual({ claim: [], next: [ask], stuck: [] });
    // With ticks in it, it is no answer to ask for again.
    const some = { ...silent, count: 50, span: { first: 1100, last: 1200 } };
    expect(turnOf(learnedWith({ cap: 100, fromInclusive: true }), ask, some).stuck).toEqual([w(1000, 2000)]);
  });
});

describe('a full answer', () => {
  const full = answerOf(100, [1200, 1700]);

  test('is sure between its first and its last tick; both sides are asked for, the wider first', () => {
    const learned = learnedWith({ cap: 100 });
    const [low, high] = [
      { ...w(1000, 1201), kind: 'low', parent: full },
      { ...w(1700, 2000), kind: 'high', parent: full },
    ];
    expect(turnOf(learned, ask, full)).toEqual({ claim: [w(1201, 1700)], next: [high, low], stuck: [] });
    const late = answerOf(100, [1400, 1800]);
    expect(turnOf(learned, ask, late).next.map(({ kind }) => kind)).toEqual(['low', 'high']);
    const even = answerOf(100, [1199, 1800]);
    expect(turnOf(learned, ask, even).next.map(({ kind }) => kind)).toEqual(['high', 'low']);
  });

  test('is sure beyond the ticks on the side that the service keeps', () => {
    expect(turnOf(learnedWith({ cap: 100, side: 'earliest' }), ask, full)).toMatchObject({
      ...{ claim: [w(1000, 1700)], next: [{ from: 1700, to: 2000, kind: 'high' }], stuck: [] },
    });
    expect(turnOf(learnedWith({ cap: 100, side: 'latest' }), ask, full)).toMatchObject({
      ...{ claim: [w(1201, 2000)], next: [{ from: 1000, to: 1201, kind: 'low' }], stuck: [] },
    });
  });

  test('of one moment settles that moment, since no request can bring more of it', () => {
    const one = answerOf(100, [1500, 1500]);
    const known = { cap: 100, fromInclusive: false };
    expect(turnOf(learnedWith(known), ask, one)).toMatchObject({
      claim: [w(1500, 1501)],
      next: [
        { from: 1000, to: 1500, kind: 'low' },
        { from: 1501, to: 2000, kind: 'high' },
      ],
    });
    expect(turnOf(learnedWith({ ...known, fromInclusive: true }), ask, one)).toEqual({
      ...{ claim: [], next: [ask], stuck: [] },
    });
    // With two moments it is worth going on at once.
    expect(turnOf(learnedWith({ ...known, fromInclusive: true }), ask, full).claim).toEqual([w(1201, 1700)]);
    expect(turnOf(learnedWith({ cap: 100, side: 'earliest' }), ask, answerOf(100, [1999, 1999]))).toMatchObject({
      ...{ claim: [w(1000, 2000)], next: [] },
    });
  });

  test('without a usable tick in the window, or without a claim, is stuck', () => {
    const learned = learnedWith({ cap: 100 });
    for (const answer of [answerOf(100, null), { ...full, spoke: false }])
      expect(turnOf(learned, ask, answer)).toEqual({ claim: [], next: [], stuck: [ask] });
    expect(turnOf(learnedWith({ cap: 100, toInclusive: true }), ask, answerOf(100, null)).next).toEqual([ask]);
  });

  test('needs no asking on the side that the service keeps: the parent settles it', () => {
    const low: Ask = { ...w(1000, 1201), kind: 'low', parent: full };
    const high: Ask = { ...w(1700, 2000), kind: 'high', parent: full };
    const needless = (side: Learned['side']) => [low, high, ask].map((one) => isNeedless(learnedWith({ side }), one));
    expect(needless(null)).toEqual([false, false, false]);
    expect(needless('earliest')).toEqual([true, false, false]);
    expect(needless('latest')).toEqual([false, true, false]);
    expect(turnOfNeedless(learnedWith({ cap: 100, side: 'earliest' }), low, full)).toEqual({
      ...{ claim: [w(1000, 1201)], next: [], stuck: [] },
    });
  });
});

describe('an answer of a service that does not heed the window', () => {
  const ignoring = (known: Partial<Learned> = {}) => learnedWith({ windowIgnored: true, cap: 100, ...known });

  test('is believed from its first tick to its last, and the rest is stuck', () => {
    const answer = answerOf(50, [1200, 1300], { brought: { first: 900, last: 1300 } });
    expect(turnOf(ignoring(), ask, answer)).toEqual({ claim: [w(1000, 1301)], next: [], stuck: [w(1301, 2000)] });
    expect(turnOf(ignoring(), ask, answerOf(0, null))).toEqual({ claim: [], next: [], stuck: [w(1000, 2000)] });
  });

  test('is not believed for the moments at which it may be cut off', () => {
    const answer = answerOf(100, [1200, 1300]);
    expect(turnOf(ignoring(), ask, answer).claim).toEqual([w(1201, 1300)]);
    const claims = (side: Learned['side']) => turnOfNeedless(ignoring({ side }), ask, answer).claim;
    expect(claims(null)).toEqual([w(1201, 1300)]);
    expect(claims('earliest')).toEqual([w(1200, 1300)]);
    expect(claims('latest')).toEqual([w(1201, 1301)]);
  });

  test('is believed on to its moment where its last tick is of the minute before, and none was left out there', () => {
    const recent: Ask = { from: observedAt - 10 * minute, to: observedAt + minute, kind: 'whole' };
    const at = (last: number, count = 50, known: Partial<Learned> = {}) => {
      const answered = [w(recent.from, observedAt)];
      const answer = answerOf(count, [recent.from, last], { asked: recent, answered });
      return turnOfNeedless(ignoring(known), recent, answer).claim;
    };
    expect(at(observedAt - minute)).toEqual([w(recent.from, observedAt)]);
    expect(at(observedAt - minute - 1)).toEqual([w(recent.from, observedAt - minute)]);
    expect(at(observedAt - 1000, 100, { side: 'latest' })).toEqual([w(recent.from + 1, observedAt)]);
    expect(at(observedAt - 1000, 100, { side: 'earliest' })).toEqual([w(recent.from, observedAt - 1000)]);
  });

  test('is not asked for what lies beside the only tick of the window: it would give the same page again', () => {
    const one = answerOf(100, [1500, 1500], { brought: { first: 900, last: 1500 } });
    expect(turnOf(ignoring(), ask, one)).toEqual({ claim: [w(1000, 1500)], next: [], stuck: [w(1500, 2000)] });
  });
});

describe('an answer that leaves more to ask', () => {
  const next: Ask[] = [ask];
  const idle = (count: number, ends: readonly [number, number] | null, claimMs: number, cap = 100, asks = next) =>
    isIdle(learnedWith({ cap }), answerOf(count, ends), { claim: [w(0, claimMs)], next: asks, stuck: [] });

  test('is idle where it speaks for less than a minute, or is a page full of one moment', () => {
    expect(idle(5, [1, 2], 59_999)).toBe(true);
    expect(idle(5, [1, 2], 60_000)).toBe(false);
    expect(idle(100, [1, 2], 0)).toBe(false);
    expect(idle(100, [1, 1], 1_000_000)).toBe(true);
    expect(idle(10, [1, 1], 0, 10)).toBe(true);
    expect(idle(9, [1, 1], 0, 9)).toBe(false);
    expect(idle(5, [1, 2], 0, 100, [])).toBeNull();
    const two = { claim: [w(0, 30_000), w(40_000, 70_000)], next, stuck: [] };
    expect(isIdle(learnedWith({ cap: 100 }), answerOf(5, null), two)).toBe(false);
  });
});
