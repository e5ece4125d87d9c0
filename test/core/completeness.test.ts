import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { completeness, type Question } from '../../src/core/completeness.ts';
import type { Covered } from '../../src/core/coverage.ts';
import { isLive, lifeOf, mayBeLive } from '../../src/core/life.ts';
import type { SymbolFacts } from '../../src/core/market.ts';
import { dayMs } from '../../src/core/window.ts';
import { factsOf } from './facts.ts';

/** All times are quarters of a day, so that a model can look at every one of them. */
const step = dayMs / 4;
const size = 12;
const moment = fc.integer({ min: 0, max: size }).map((n) => n * step);
const maybe = fc.option(moment, { nil: null, freq: 2 });

const anySymbol = fc.record({
  opensAt: maybe,
  resolvedAt: maybe,
  inactiveSince: maybe,
  lastActive: maybe,
  polledFrom: maybe,
  firstSeen: moment,
  lastSeen: moment,
  listed: fc.boolean(),
  retiredAt: maybe,
  // A life that ends with a tick ends on the model's grid.
  lastTick: maybe.map((t) => (t === null || t === 0 ? null : t - 1)),
  ticks: fc.nat(1),
});
const anyCovered: fc.Arbitrary<Covered[]> = fc.array(fc.tuple(moment, moment, moment), { maxLength: 4 }).map((list) => {
  // Disjoint and sorted, as the state keeps it; each answered at its end or later.
  const out: Covered[] = [];
  for (const [from, length, delay] of list.sort((a, b) => a[0] - b[0])) {
    const start = Math.max(from, out.at(-1)?.to ?? 0);
    const to = Math.min(size * step, start + length);
    if (start < to) out.push({ from: start, to, fetchedAt: to + (delay % dayMs), origin: 'poll' });
  }
  return out;
});
const days = [0, 1, 2].map((n) => n * dayMs);
const rules = { lingerMs: dayMs, settleMs: step };

const anyQuestion: fc.Arbitrary<Question> = fc
  .record({
    symbols: fc.array(fc.tuple(anySymbol, anyCovered), { maxLength: 4 }),
    named: fc.option(fc.subarray(['S0', 'S1']), { nil: null }),
    nowMs: moment,
  })
  .map(({ symbols, named, nowMs }) => ({
    symbols: symbols.map(([known], i) => factsOf({ ...known, symbol: `S${i}` })),
    coverage: new Map(symbols.map(([, covered], i) => [`S${i}`, covered])),
    named: named === null ? null : new Set(named),
    days,
    nowMs,
    rules,
  }));

const quarters = (day: number) => [0, 1, 2, 3].map((n) => day + n * step);

/** The model, quarter by quarter. */
function modelDay({ symbols, coverage, named, nowMs }: Question, day: number) {
  const all = [...coverage.values()].flat();
  const newest = Math.max(Number.NEGATIVE_INFINITY, ...all.map((c) => c.to));
  let complete = nowMs >= day + dayMs;
  const expected: string[] = [];
  const covered: string[] = [];
  for (const facts of symbols) {
    const answers = coverage.get(facts.symbol)!;
    const wanted = named === null ? facts.listed : named.has(facts.symbol);
    const unasked = answers.length === 0 && !wanted;
    if (answers.length === 0 && ((!wanted && facts.ticks === 0) || facts.retiredAt !== null)) continue;
    const life = lifeOf(facts);
    // Of one that was given up on nothing is expected after its last answer.
    const last = Math.max(...answers.map((c) => c.to));
    const alive = quarters(day).filter((t) => life.from <= t && t < life.to && (facts.retiredAt === null || t < last));
    if (alive.length === 0) continue;
    expected.push(facts.symbol);
    const answerAt = (t: number) => answers.find((c) => c.from <= t && t < c.to);
    if (alive.every((t) => (t >= newest && !unasked) || answerAt(t) !== undefined)) covered.push(facts.symbol);
    if (!alive.every((t) => (answerAt(t)?.fetchedAt ?? 0) - rules.settleMs >= t + step)) complete = false;
  }
  const missing = expected.filter((symbol) => !covered.includes(symbol));
  return { complete, expected: expected.length, covered: covered.length, missing };
}

/** The first quarter from where a symbol was first polled, or its life began, that no answer covers. */
function modelCursor(facts: SymbolFacts, answers: readonly Covered[]): number {
  let t = facts.polledFrom ?? lifeOf(facts).from;
  while (answers.some((c) => c.from <= t && t < c.to)) t += step;
  return t;
}

function modelWatermark({ symbols, coverage, named, nowMs }: Question): number | null {
  const cursors = symbols.flatMap((facts) => {
    const cursor = modelCursor(facts, coverage.get(facts.symbol)!);
    const live =
      named === null ? isLive(facts, cursor, nowMs, rules) : named.has(facts.symbol) && facts.retiredAt === null;
    return live ? [cursor] : [];
  });
  return cursors.length === 0 ? null : Math.min(nowMs, ...cursors);
}

describe('completeness', () => {
  test('says of each day what looking at every symbol and quarter says', () => {
    fc.assert(
      fc.property(anyQuestion, (question) => {
        const { days: states } = completeness(question);
        for (const day of days) expect(states.get(day)).toEqual(modelDay(question, day));
      }),
      { numRuns: 1000 },
    );
  });

  test('says the same whatever the order of the days, and of many days as of few', () => {
    const many = Array.from({ length: 12 }, (_, n) => (n - 4) * dayMs);
    fc.assert(
      fc.property(anyQuestion, (question) => {
        const ordered = completeness({ ...question, days: many });
        const turned = completeness({ ...question, days: many.toReversed() });
        for (const day of many) expect(ordered.days.get(day)).toEqual(turned.days.get(day));
        const few = completeness(question);
        for (const day of days) expect(ordered.days.get(day)).toEqual(few.days.get(day));
      }),
      { numRuns: 500 },
    );
  });

  test('has its watermark where every live symbol is covered without a hole', () => {
    fc.assert(
      fc.property(anyQuestion, (question) => {
        expect(completeness(question).watermark).toBe(modelWatermark(question));
      }),
      { numRuns: 1000 },
    );
  });

  const all = { from: 0, to: dayMs, origin: 'poll' as const };
  const ask = (fetchedAt: number, nowMs = 2 * dayMs) =>
    completeness({
      symbols: [factsOf({ polledFrom: 0 })],
      coverage: new Map([['S', [{ ...all, fetchedAt }]]]),
      named: null,
      days: [0],
      nowMs,
      rules,
    }).days.get(0)!;

  test('takes a day for complete only by answers that came long enough after it', () => {
    expect(ask(dayMs + rules.settleMs).complete).toBe(true);
    expect(ask(dayMs + rules.settleMs - 1).complete).toBe(false);
  });

  test('never takes a day for complete that is not over', () => {
    expect(ask(dayMs + rules.settleMs, dayMs - 1).complete).toBe(false);
  });

  test('is not held up by a symbol that was given up on', () => {
    const well = factsOf({ symbol: 'well', polledFrom: 0 });
    const gone = factsOf({ symbol: 'gone', polledFrom: 0, retiredAt: 5 * dayMs });
    const answered = (to: number): Covered[] => [{ from: 0, to, fetchedAt: to + dayMs, origin: 'poll' }];
    const coverage = new Map([
      ['well', answered(3 * dayMs)],
      ['gone', answered(1.5 * dayMs)],
    ]);
    const asked = { coverage, named: null, days, nowMs: 5 * dayMs, rules };
    const states = (facts: SymbolFacts) => [...completeness({ ...asked, symbols: [well, facts] }).days.values()];
    expect(states(gone).map(({ complete, expected }) => [complete, expected])).toEqual([
      [true, 2],
      [true, 2],
      [true, 1],
    ]);
    expect(states({ ...gone, retiredAt: null }).map(({ complete }) => complete)).toEqual([true, false, false]);
    expect(completeness({ ...asked, symbols: [well, gone] }).watermark).toBe(3 * dayMs);
  });

  test('a loss holds up the watermark, and not how far collecting has come', () => {
    const symbols = [factsOf({ symbol: 'A', polledFrom: 0 }), factsOf({ symbol: 'B', polledFrom: 0 })];
    const answered = (from: number, to: number): Covered => ({ from, to, fetchedAt: 9 * dayMs, origin: 'poll' });
    const coverage = new Map([
      ['A', [answered(0, dayMs / 2), answered(0.75 * dayMs, 3 * dayMs)]],
      ['B', [answered(0, 2.5 * dayMs)]],
    ]);
    const question = { symbols, coverage, named: null, days, nowMs: 9 * dayMs, rules };
    const loss = { dataset: 'ticks', symbol: 'A', from: dayMs / 2, to: 0.75 * dayMs, ticks: 1 };
    expect(completeness(question)).toMatchObject({ watermark: dayMs / 2, reached: dayMs / 2 });
    expect(completeness({ ...question, lost: [loss] })).toMatchObject({ watermark: dayMs / 2, reached: 2.5 * dayMs });
    // A hole beside it is one that a poll can still fill.
    const part = { ...loss, to: loss.to - 1 };
    expect(completeness({ ...question, lost: [part] })).toMatchObject({ watermark: dayMs / 2, reached: part.to });
    const atFirst = { ...loss, from: 0, to: dayMs / 2 };
    const rest = new Map([...coverage, ['A', [answered(dayMs / 2, 3 * dayMs)]] as const]);
    expect(completeness({ ...question, coverage: rest, lost: [atFirst], nowMs: 2 * dayMs })).toMatchObject({
      ...{ watermark: 0, reached: 2 * dayMs },
    });
  });

  test('takes no day for complete on which there are ticks of rows that nothing is known to cover', () => {
    const told = { symbol: 'FILE', listed: false, firstTick: 0, lastTick: dayMs / 2, ticks: 2 };
    const symbols = [factsOf({ polledFrom: 0 }), factsOf(told)];
    const coverage = new Map([['S', [{ ...all, fetchedAt: 9 * dayMs }]]]);
    const question = { symbols, named: null, days: [0, dayMs], nowMs: 9 * dayMs, rules };
    expect(completeness({ ...question, coverage }).days.get(0)).toEqual({
      ...{ complete: false, expected: 2, covered: 1, missing: ['FILE'] },
    });
    const { days: states, watermark } = completeness({ ...question, symbols: [factsOf(told)], coverage: new Map() });
    expect(states.get(0)).toEqual({ complete: false, expected: 1, covered: 0, missing: ['FILE'] });
    // It ended with its last tick.
    expect(states.get(dayMs)).toMatchObject({ expected: 0 });
    expect(watermark).toBeNull();
  });

  describe('where ticks of a day were lost before a symbol is known to have lived', () => {
    const lost = [{ dataset: 'ticks', symbol: 'S', from: 10, to: 20, ticks: 1 }];
    const state = (coverage: Covered[], windows = lost, day = 0) =>
      completeness({
        symbols: [factsOf({ opensAt: dayMs, polledFrom: dayMs }), factsOf({ symbol: 'T', opensAt: dayMs })],
        coverage: new Map([['S', coverage]]),
        ...{ named: null, lost: windows, days: [0, dayMs], nowMs: 9 * dayMs, rules },
      }).days.get(day)!;
    const answer = (from: number, to: number): Covered => ({ from, to, fetchedAt: 9 * dayMs, origin: 'poll' });

    test('expects it there, and misses it until that window is covered', () => {
      expect(state([])).toEqual({ complete: false, expected: 1, covered: 0, missing: ['S'] });
      expect(state([answer(0, 5)])).toEqual({ complete: false, expected: 1, covered: 0, missing: ['S'] });
      expect(state([answer(0, 15)])).toMatchObject({ covered: 0 });
      expect(state([answer(10, 20)])).toEqual({ complete: true, expected: 1, covered: 1, missing: [] });
    });

    test('expects nothing on other days, nor of other symbols', () => {
      expect(state([], [])).toEqual({ complete: true, expected: 0, covered: 0, missing: [] });
      const elsewhere = lost.map((w) => ({ ...w, from: 2 * dayMs, to: 2 * dayMs + 1 }));
      expect(state([], elsewhere)).toMatchObject({ complete: true, expected: 0 });
      expect(state([answer(dayMs, 2 * dayMs)], lost, dayMs)).toMatchObject({ expected: 2, covered: 1, missing: ['T'] });
    });
  });

  test('lists at most twenty of the missing, and counts them all', () => {
    const symbols = Array.from({ length: 30 }, (_, i) => factsOf({ symbol: `S${i}` }));
    const coverage = new Map([['other', [{ ...all, fetchedAt: dayMs }]]]);
    const { days: states } = completeness({ symbols, coverage, named: null, days: [0], nowMs: dayMs, rules });
    expect(states.get(0)).toMatchObject({ expected: 30, covered: 0, complete: false });
    expect(states.get(0)!.missing).toHaveLength(20);
  });
});

test('a symbol that is live with some coverage may be live, and one that is with none may not', () => {
  fc.assert(
    fc.property(anySymbol, fc.array(moment, { minLength: 1 }), moment, (known, cursors, nowMs) => {
      const facts = factsOf({ ...known, symbol: 'S' });
      const live = [...cursors, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY].map((cursor) =>
        isLive(facts, cursor, nowMs, rules),
      );
      expect(mayBeLive(facts, nowMs, rules)).toBe(live.includes(true));
    }),
    { numRuns: 1000 },
  );
});
