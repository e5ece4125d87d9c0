import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Completeness,
  type CompletenessInput,
  computeCompleteness,
} from '../../../src/archive/completeness/completeness.ts';
import { canBeLive, computeLifetime, isLive } from '../../../src/archive/completeness/symbol-lifetime.ts';
import { type CoveredWindow, type Evidence, isProven, overlayLayers } from '../../../src/archive/format/coverage.ts';
import type { SymbolFacts } from '../../../src/archive/format/market.ts';
import { dayMs, type Window } from '../../../src/base/window.ts';
import { factsOf } from '../format/facts.ts';

interface Question extends CompletenessInput {
  readonly days: readonly number[];
  /** Accepted windows. */
  readonly excepted?: ReadonlyMap<string, readonly Window[]>;
}

/** What the judge says of these days. */
function completeness({ days, excepted = new Map(), ...state }: Question): Completeness {
  const why = { reason: 'accepted', acceptedAt: 0 };
  const accepted = new Map([...excepted].map(([symbol, list]) => [symbol, list.map((w) => ({ ...w, ...why }))]));
  return computeCompleteness({ ...state, accepted }, { days });
}

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
  suspendedAt: maybe,
  // A life that ends with a tick ends on the model's grid.
  lastTick: maybe.map((t) => (t === null || t === 0 ? null : t - 1)),
  ticks: fc.nat(1),
});
const anyEvidence = fc.constantFrom<Evidence>('confirmed', 'stated', 'inferred', 'inferred');
const anyCovered: fc.Arbitrary<CoveredWindow[]> = fc
  .array(fc.tuple(moment, moment, moment, anyEvidence), { maxLength: 4 })
  .map((list) => {
    // In layers, as the state keeps it; each answered at its end or later.
    const out: CoveredWindow[] = [];
    for (const [from, length, delay, evidence] of list) {
      const to = Math.min(size * step, from + length);
      if (from < to) out.push({ from, to, fetchedAt: to + (delay % dayMs), origin: 'poll', evidence });
    }
    return overlayLayers(out);
  });
const days = [0, 1, 2].map((n) => n * dayMs);
const rules = { lookbackMs: 0, lingerMs: dayMs, settleMs: step };

const anyQuestion: fc.Arbitrary<Question> = fc
  .record({
    symbols: fc.array(fc.tuple(anySymbol, anyCovered), { maxLength: 4 }),
    named: fc.option(fc.subarray(['S0', 'S1']), { nil: null }),
    nowMs: moment,
    exceptions: fc.array(
      fc.record({ symbol: fc.constantFrom('S0', 'S1'), from: moment, to: moment }).filter((w) => w.from < w.to),
      { maxLength: 2 },
    ),
  })
  .map(({ symbols, named, nowMs, exceptions }) => ({
    excepted: Map.groupBy<string, Window & { symbol: string }>(exceptions, ({ symbol }) => symbol),
    symbols: symbols.map(([known], i) => factsOf({ ...known, symbol: `S${i}` })),
    coverage: new Map(symbols.map(([, covered], i) => [`S${i}`, covered])),
    namedSymbols: named === null ? null : new Set(named),
    days,
    nowMs,
    lifetimeRules: rules,
  }));

const quarters = (day: number) => [0, 1, 2, 3].map((n) => day + n * step);

const holding = (windows: readonly Window[], t: number): boolean => windows.some((w) => w.from <= t && t < w.to);
const exceptedOf = ({ excepted }: Question, symbol: string) => excepted?.get(symbol) ?? [];
const inOrder = (windows: readonly Window[]): Window[] => windows.toSorted((a, b) => a.from - b.from);

/** The model, quarter by quarter. */
function modelDay(question: Question, day: number) {
  const { symbols, coverage, namedSymbols, nowMs } = question;
  const all = [...coverage.values()].flat();
  const newest = all.length === 0 ? nowMs : Math.max(...all.map((c) => c.to));
  const expected: string[] = [];
  const covered: string[] = [];
  /** Of each quarter of each symbol what it rests on. */
  const grounds = new Set<'nothing' | 'inferred' | 'excepted' | 'proven'>();
  let exceptions = 0;
  for (const facts of symbols) {
    const answers = coverage.get(facts.symbol)!;
    const wanted = namedSymbols === null ? facts.listed : namedSymbols.has(facts.symbol);
    const unasked = answers.length === 0 && !wanted;
    if (unasked && facts.ticks === 0) continue;
    const life = computeLifetime(facts, inOrder(answers), rules);
    const alive = quarters(day).filter((t) => life.from <= t && t < life.to);
    if (alive.length === 0) continue;
    expected.push(facts.symbol);
    if (alive.every((t) => (t >= newest && !unasked) || holding(answers, t))) covered.push(facts.symbol);
    const excepted = exceptedOf(question, facts.symbol);
    const isFinal = (t: number, list: readonly CoveredWindow[]) =>
      list.some((c) => c.from <= t && t < c.to && c.fetchedAt - rules.settleMs >= t + step);
    const groundOf = (t: number) =>
      isFinal(t, answers.filter(isProven)) ? 'proven' : isFinal(t, answers) ? 'inferred' : 'nothing';
    const ofQuarters = alive.map((t) => ({ t, ground: groundOf(t) }));
    const lacking = ofQuarters.filter(({ ground }) => ground === 'nothing').map(({ t }) => t);
    const isExcepted = lacking.every((t) => holding(excepted, t));
    if (lacking.length > 0 && isExcepted)
      exceptions += excepted.filter((w) => lacking.some((t) => holding([w], t))).length;
    else if (lacking.length > 0 && facts.suspendedAt !== null) exceptions++;
    else if (lacking.length > 0) grounds.add('nothing');
    // An excepted window needs no proof where something else is missing that is excepted, too.
    const needsNoProof = (t: number) => lacking.length > 0 && isExcepted && holding(excepted, t);
    for (const { t, ground } of ofQuarters) if (ground === 'inferred' && !needsNoProof(t)) grounds.add('inferred');
  }
  const isOver = nowMs >= day + dayMs;
  const state =
    expected.length === 0
      ? 'empty'
      : !isOver || grounds.has('nothing')
        ? 'incomplete'
        : grounds.has('inferred')
          ? 'provisional'
          : exceptions > 0
            ? 'complete_with_exceptions'
            : 'complete';
  const missing = expected.filter((symbol) => !covered.includes(symbol));
  return { state, expected: expected.length, covered: covered.length, missing, exceptions };
}

/** The first quarter from where a symbol's lifetime began that none of the windows holds. */
function modelCursor(facts: SymbolFacts, answers: readonly CoveredWindow[], windows: readonly Window[]): number {
  let t = computeLifetime(facts, inOrder(answers), rules).from;
  while (holding(windows, t)) t += step;
  return t;
}

function modelReach(question: Question, isCounted: (covered: CoveredWindow) => boolean): number | null {
  const { symbols, coverage, namedSymbols, nowMs } = question;
  const cursors = symbols.flatMap((facts) => {
    const answers = coverage.get(facts.symbol)!;
    const live =
      namedSymbols === null
        ? isLive(facts, modelCursor(facts, answers, answers), nowMs, rules)
        : namedSymbols.has(facts.symbol) && facts.suspendedAt === null;
    const windows = [...answers.filter(isCounted), ...exceptedOf(question, facts.symbol)];
    return live ? [modelCursor(facts, answers, windows)] : [];
  });
  const hasCoverage = [...coverage.values()].some((list) => list.length > 0);
  return cursors.length === 0 || !hasCoverage ? null : Math.min(nowMs, ...cursors);
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

  test('has its watermark where every live symbol is covered without a hole, and reaches as far with inferred windows', () => {
    fc.assert(
      fc.property(anyQuestion, (question) => {
        const { watermark, reached } = completeness(question);
        expect(watermark).toBe(modelReach(question, isProven));
        expect(reached).toBe(modelReach(question, () => true));
      }),
      { numRuns: 1000 },
    );
  });

  const all = { from: 0, to: dayMs, origin: 'poll' as const, evidence: 'confirmed' as const };
  const ask = (fetchedAt: number, nowMs = 2 * dayMs, evidence: Evidence = 'stated') =>
    completeness({
      symbols: [factsOf({ polledFrom: 0 })],
      coverage: new Map([['S', [{ ...all, fetchedAt, evidence }]]]),
      namedSymbols: null,
      days: [0],
      nowMs,
      lifetimeRules: rules,
    }).days.get(0)!;

  test('takes a day for complete only by answers that came long enough after it', () => {
    expect(ask(dayMs + rules.settleMs).state).toBe('complete');
    expect(ask(dayMs + rules.settleMs, 2 * dayMs, 'inferred').state).toBe('provisional');
    expect(ask(dayMs + rules.settleMs - 1).state).toBe('incomplete');
    expect(ask(dayMs + rules.settleMs - 1, 2 * dayMs, 'inferred').state).toBe('incomplete');
  });

  test('never takes a day for complete that is not over', () => {
    expect(ask(dayMs + rules.settleMs, dayMs - 1).state).toBe('incomplete');
  });

  test('is not held up by a suspended symbol', () => {
    const well = factsOf({ symbol: 'well', polledFrom: 0 });
    const gone = factsOf({ symbol: 'gone', polledFrom: 0, suspendedAt: 5 * dayMs });
    const answered = (to: number): CoveredWindow[] => [
      { from: 0, to, fetchedAt: to + dayMs, origin: 'poll', evidence: 'confirmed' },
    ];
    const coverage = new Map([
      ['well', answered(3 * dayMs)],
      ['gone', answered(1.5 * dayMs)],
    ]);
    const asked = { coverage, namedSymbols: null, days, nowMs: 5 * dayMs, lifetimeRules: rules };
    const states = (facts: SymbolFacts) => [...completeness({ ...asked, symbols: [well, facts] }).days.values()];
    expect(states(gone).map(({ state, expected, exceptions }) => [state, expected, exceptions])).toEqual([
      ['complete', 2, 0],
      ['complete_with_exceptions', 2, 1],
      ['complete_with_exceptions', 2, 1],
    ]);
    expect(states({ ...gone, suspendedAt: null }).map(({ state }) => state)).toEqual([
      'complete',
      'incomplete',
      'incomplete',
    ]);
    expect(completeness({ ...asked, symbols: [well, gone] }).watermark).toBe(3 * dayMs);
  });

  test('what is lost or accepted holds back no watermark and no day, and is counted', () => {
    const symbols = [factsOf({ symbol: 'A', polledFrom: 0 }), factsOf({ symbol: 'B', polledFrom: 0 })];
    const answered = (from: number, to: number): CoveredWindow => ({
      from,
      to,
      fetchedAt: 9 * dayMs,
      origin: 'poll',
      evidence: 'confirmed',
    });
    const coverage = new Map([
      ['A', [answered(0, dayMs / 2), answered(0.75 * dayMs, 3 * dayMs)]],
      ['B', [answered(0, 2.5 * dayMs)]],
    ]);
    const question = { symbols, coverage, namedSymbols: null, days, nowMs: 9 * dayMs, lifetimeRules: rules };
    const loss = { dataset: 'ticks', symbol: 'A', from: dayMs / 2, to: 0.75 * dayMs, ticks: 1 };
    expect(completeness(question)).toMatchObject({ watermark: dayMs / 2, reached: dayMs / 2 });
    const excepted = completeness({ ...question, lost: [loss] });
    expect(excepted).toMatchObject({ watermark: 2.5 * dayMs, reached: 2.5 * dayMs });
    expect(excepted.days.get(0)).toEqual({
      state: 'complete_with_exceptions',
      expected: 2,
      covered: 1,
      missing: ['A'],
      exceptions: 1,
    });
    const { ticks: _, dataset: __, ...accepted } = loss;
    expect(completeness({ ...question, excepted: new Map([[accepted.symbol, [accepted]]]) })).toEqual(excepted);
    // A hole beside it is one that a poll can still fill.
    const part = { ...loss, to: loss.to - 1 };
    expect(completeness({ ...question, lost: [part] })).toMatchObject({ watermark: part.to, reached: part.to });
    expect(completeness({ ...question, lost: [part] }).days.get(0)).toMatchObject({ state: 'incomplete' });
    const atFirst = { ...loss, from: 0, to: dayMs / 2 };
    const rest = new Map([...coverage, ['A', [answered(dayMs / 2, 3 * dayMs)]] as const]);
    expect(completeness({ ...question, coverage: rest, lost: [atFirst], nowMs: 2 * dayMs })).toMatchObject({
      watermark: 2 * dayMs,
      reached: 2 * dayMs,
    });
  });

  test('takes no day for complete on which there are ticks of rows that nothing is known to cover', () => {
    const told = { symbol: 'FILE', listed: false, firstTick: 0, lastTick: dayMs / 2, ticks: 2 };
    const symbols = [factsOf({ polledFrom: 0 }), factsOf(told)];
    const coverage = new Map([['S', [{ ...all, fetchedAt: 9 * dayMs }]]]);
    const question = { symbols, namedSymbols: null, days: [0, dayMs], nowMs: 9 * dayMs, lifetimeRules: rules };
    expect(completeness({ ...question, coverage }).days.get(0)).toEqual({
      state: 'incomplete',
      expected: 2,
      covered: 1,
      missing: ['FILE'],
      exceptions: 0,
    });
    const { days: states, watermark } = completeness({ ...question, symbols: [factsOf(told)], coverage: new Map() });
    expect(states.get(0)).toEqual({ state: 'incomplete', expected: 1, covered: 0, missing: ['FILE'], exceptions: 0 });
    // It ended with its last tick.
    expect(states.get(dayMs)).toMatchObject({ expected: 0 });
    expect(watermark).toBeNull();
  });

  describe('where ticks of a day were lost before a symbol is known to have lived', () => {
    const lost = [{ dataset: 'ticks', symbol: 'S', from: 10, to: 20, ticks: 1 }];
    const state = (coverage: CoveredWindow[], windows = lost, day = 0) =>
      completeness({
        symbols: [factsOf({ opensAt: dayMs, polledFrom: dayMs }), factsOf({ symbol: 'T', opensAt: dayMs })],
        coverage: new Map([['S', coverage]]),
        namedSymbols: null,
        lost: windows,
        days: [0, dayMs],
        nowMs: 9 * dayMs,
        lifetimeRules: rules,
      }).days.get(day)!;
    const answer = (from: number, to: number): CoveredWindow => ({
      from,
      to,
      fetchedAt: 9 * dayMs,
      origin: 'poll',
      evidence: 'confirmed',
    });

    test('expects it there, and misses it until that window is covered', () => {
      const lacking = { state: 'complete_with_exceptions', expected: 1, covered: 0, missing: ['S'], exceptions: 1 };
      expect(state([])).toEqual(lacking);
      expect(state([answer(0, 5)])).toEqual(lacking);
      expect(state([answer(0, 15)])).toMatchObject({ covered: 0 });
      expect(state([answer(10, 20)])).toEqual({
        state: 'complete',
        expected: 1,
        covered: 1,
        missing: [],
        exceptions: 0,
      });
    });

    test('expects nothing on other days, nor of other symbols', () => {
      expect(state([], [])).toEqual({ state: 'empty', expected: 0, covered: 0, missing: [], exceptions: 0 });
      const elsewhere = lost.map((w) => ({ ...w, from: 2 * dayMs, to: 2 * dayMs + 1 }));
      expect(state([], elsewhere)).toMatchObject({ state: 'empty', expected: 0 });
      expect(state([answer(dayMs, 2 * dayMs)], lost, dayMs)).toMatchObject({ expected: 2, covered: 1, missing: ['T'] });
    });
  });

  test('lists at most twenty of the missing, and counts them all', () => {
    const symbols = Array.from({ length: 30 }, (_, i) => factsOf({ symbol: `S${i}` }));
    const coverage = new Map([['other', [{ ...all, fetchedAt: dayMs }]]]);
    const { days: states } = completeness({
      symbols,
      coverage,
      namedSymbols: null,
      days: [0],
      nowMs: dayMs,
      lifetimeRules: rules,
    });
    expect(states.get(0)).toMatchObject({ expected: 30, covered: 0, state: 'incomplete' });
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
      expect(canBeLive(facts, nowMs, rules)).toBe(live.includes(true));
    }),
    { numRuns: 1000 },
  );
});

describe('the lists of a day', () => {
  const facts = factsOf({ symbol: 'A', listed: true, firstSeen: 0, opensAt: 0, polledFrom: 0 });
  const answered = (to: number): CoveredWindow[] => [
    { from: 0, to, fetchedAt: to + step, origin: 'poll', evidence: 'confirmed' },
  ];
  const question = (rest: Partial<Question> = {}): Question => ({
    symbols: [facts],
    coverage: new Map([['A', answered(3 * dayMs)]]),
    namedSymbols: null,
    days,
    nowMs: 4 * dayMs,
    lifetimeRules: rules,
    ...rest,
  });
  const complete = (asked: Question) => [...completeness(asked).days.values()].map((day) => day.state === 'complete');

  test('make a day incomplete that they were not had whole within', () => {
    const listedWhole = (day: number): boolean => day !== dayMs;
    expect(complete(question())).toEqual([true, true, true]);
    expect(complete(question({ hasWholeLists: listedWhole }))).toEqual([true, false, true]);
  });

  test('decide nothing where symbols are named by hand', () => {
    expect(complete(question({ hasWholeLists: () => false, namedSymbols: new Set(['A']) }))).toEqual([
      true,
      true,
      true,
    ]);
  });

  test('make a complete day incomplete again by a symbol that is listed late with an early opening', () => {
    const late = factsOf({ symbol: 'B', listed: true, firstSeen: 2 * dayMs, opensAt: dayMs, polledFrom: 2 * dayMs });
    const coverage = new Map([
      ['A', answered(3 * dayMs)],
      [
        'B',
        [
          {
            from: 2 * dayMs,
            to: 3 * dayMs,
            fetchedAt: 3 * dayMs + step,
            origin: 'poll',
            evidence: 'confirmed',
          } as const,
        ],
      ],
    ]);
    expect(complete(question({ symbols: [facts, late], coverage }))).toEqual([true, false, true]);
    // Once it is backfilled.
    const filled = new Map([...coverage, ['B', answered(3 * dayMs)]] as const);
    expect(complete(question({ symbols: [facts, late], coverage: filled }))).toEqual([true, true, true]);
  });
});
