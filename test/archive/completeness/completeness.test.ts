import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Completeness,
  type CompletenessInput,
  computeCompleteness,
} from '../../../src/archive/completeness/completeness.ts';
import { allCovered, canBeLive, computeLifetime, isLive } from '../../../src/archive/completeness/symbol-lifetime.ts';
import { type CoveredWindow, type Evidence, isProven, overlayCoverage } from '../../../src/archive/format/coverage.ts';
import type { SymbolFacts } from '../../../src/archive/format/market.ts';
import { isUnselected, type UnselectedWindow } from '../../../src/archive/format/selection.ts';
import { dayMs, type Window } from '../../../src/base/window.ts';
import { checkProperty } from '../../harness/properties.ts';
import { factsOf } from '../format/facts.ts';

interface ModelInput extends CompletenessInput {
  readonly days: readonly number[];
  /** Accepted windows. */
  readonly excepted?: ReadonlyMap<string, readonly Window[]>;
}

/** The computed day states. */
function completeness({ days, excepted = new Map(), ...state }: ModelInput): Completeness {
  const why = { reason: 'accepted', acceptedAt: 0 };
  const accepted = new Map([...excepted].map(([symbol, list]) => [symbol, list.map((w) => ({ ...w, ...why }))]));
  return computeCompleteness({ ...state, accepted }, { days });
}

/** All times are quarters of a day, so that the model can check every one. */
const step = dayMs / 4;
const size = 12;
const moment = fc.integer({ min: 0, max: size }).map((n) => n * step);
const arbitraryOrNull = fc.option(moment, { nil: null, freq: 2 });

/** Windows in which a symbol is not collected; the last one may be open, and the first one may have no start. */
const anyUnselected = fc
  .tuple(fc.uniqueArray(moment, { maxLength: 4 }), fc.boolean(), fc.boolean())
  .map(([bounds, isOpen, hasNoStart]): UnselectedWindow[] => {
    const sorted = bounds.toSorted((a, b) => a - b);
    const times = [...(hasNoStart ? [Number.NEGATIVE_INFINITY] : []), ...sorted];
    const ends = isOpen && times.length % 2 === 1 ? [...times, Number.POSITIVE_INFINITY] : times;
    const decision = { kind: 'forgotten', reason: null, decidedAt: 0 } as const;
    return Array.from({ length: ends.length >> 1 }, (_, i) => ({
      from: ends[2 * i]!,
      to: ends[2 * i + 1]!,
      ...decision,
    }));
  });

const anySymbol = fc.record({
  opensAt: arbitraryOrNull,
  resolvedAt: arbitraryOrNull,
  inactiveSince: arbitraryOrNull,
  lastActive: arbitraryOrNull,
  polledFrom: arbitraryOrNull,
  firstSeen: moment,
  lastSeen: moment,
  listed: fc.boolean(),
  suspendedAt: arbitraryOrNull,
  // A lifetime that ends with a tick ends on the model's grid.
  lastTick: arbitraryOrNull.map((t) => (t === null || t === 0 ? null : t - 1)),
  ticks: fc.nat(1),
  unselected: fc.oneof(fc.constant([]), anyUnselected),
  isWatched: fc.boolean(),
});
const anyEvidence = fc.constantFrom<Evidence>('confirmed', 'stated', 'inferred', 'inferred');
const anyCovered: fc.Arbitrary<CoveredWindow[]> = fc
  .array(fc.tuple(moment, moment, moment, anyEvidence), { maxLength: 4 })
  .map((list) => {
    // Each is fetched at its end or later.
    const out: CoveredWindow[] = [];
    for (const [from, length, delay, evidence] of list) {
      const to = Math.min(size * step, from + length);
      if (from < to) out.push({ from, to, fetchedAt: to + (delay % dayMs), origin: 'poll', evidence });
    }
    return overlayCoverage(out);
  });
const days = [0, 1, 2].map((n) => n * dayMs);
const rules = { lookbackMs: 0, lingerMs: dayMs };

const arbitraryInput: fc.Arbitrary<ModelInput> = fc
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
    symbols: symbols.map(([{ isWatched, ...known }], i) =>
      factsOf({ ...known, symbol: `S${i}`, ...(isWatched && { watchedAt: 0 }) }),
    ),
    coverage: new Map(symbols.map(([, covered], i) => [`S${i}`, covered])),
    namedSymbols: named === null ? null : new Set(named),
    days,
    nowMs,
    lifetimeRules: rules,
  }));

const quarters = (day: number) => [0, 1, 2, 3].map((n) => day + n * step);

const windowsContaining = (windows: readonly Window[], t: number): boolean =>
  windows.some((w) => w.from <= t && t < w.to);
const exceptedOf = ({ excepted }: ModelInput, symbol: string) => excepted?.get(symbol) ?? [];
const inOrder = (windows: readonly Window[]): Window[] => windows.toSorted((a, b) => a.from - b.from);

const isNamed = (facts: SymbolFacts, named: ReadonlySet<string> | null): boolean =>
  facts.watchedAt !== undefined || (named === null ? facts.listed : named.has(facts.symbol));

/** The model, quarter by quarter. */
function modelDay(input: ModelInput, day: number) {
  const { symbols, coverage, namedSymbols, nowMs } = input;
  const all = [...coverage.values()].flat();
  const newest = all.length === 0 ? nowMs : Math.max(...all.map((c) => c.to));
  const expected: string[] = [];
  const covered: string[] = [];
  /** What each quarter of each symbol rests on. */
  const evidenceByQuarter = new Set<'nothing' | 'inferred' | 'excepted' | 'proven'>();
  let exceptions = 0;
  for (const facts of symbols) {
    const answers = coverage.get(facts.symbol)!;
    const isRequested = isNamed(facts, namedSymbols);
    const isUnrequested = answers.length === 0 && !isRequested;
    if (isUnrequested && facts.ticks === 0) continue;
    const lifetime = computeLifetime(facts, inOrder(answers), rules);
    const aliveQuarters = quarters(day).filter(
      (t) => lifetime.from <= t && t < lifetime.to && !windowsContaining(facts.unselected ?? [], t),
    );
    if (aliveQuarters.length === 0) continue;
    expected.push(facts.symbol);
    if (aliveQuarters.every((t) => (t >= newest && !isUnrequested) || windowsContaining(answers, t)))
      covered.push(facts.symbol);
    const excepted = exceptedOf(input, facts.symbol);
    const evidenceOf = (t: number) =>
      windowsContaining(answers.filter(isProven), t)
        ? 'proven'
        : windowsContaining(answers, t)
          ? 'inferred'
          : 'nothing';
    const evidences = aliveQuarters.map((t) => ({ t, evidence: evidenceOf(t) }));
    const uncovered = evidences.filter(({ evidence }) => evidence === 'nothing').map(({ t }) => t);
    const isExcepted = uncovered.every((t) => windowsContaining(excepted, t));
    if (uncovered.length > 0 && isExcepted)
      exceptions += excepted.filter((w) => uncovered.some((t) => windowsContaining([w], t))).length;
    else if (uncovered.length > 0 && facts.suspendedAt !== null) exceptions++;
    else if (uncovered.length > 0) evidenceByQuarter.add('nothing');
    // What is covered of an excepted window needs proof as the rest does.
    if (evidences.some(({ evidence }) => evidence === 'inferred')) evidenceByQuarter.add('inferred');
  }
  const isOver = nowMs >= day + dayMs;
  const state =
    expected.length === 0
      ? 'empty'
      : !isOver || evidenceByQuarter.has('nothing')
        ? 'incomplete'
        : evidenceByQuarter.has('inferred')
          ? 'provisional'
          : exceptions > 0
            ? 'complete_with_exceptions'
            : 'complete';
  const missing = expected.filter((symbol) => !covered.includes(symbol));
  return { state, expected: expected.length, covered: covered.length, missing, exceptions };
}

/** The number of symbols by reason why the day is not complete, quarter by quarter. */
function modelReasons(input: ModelInput, day: number): Record<string, number> {
  const { symbols, coverage, namedSymbols, nowMs } = input;
  const isOver = nowMs >= day + dayMs;
  const newest = Math.max(...[...coverage.values()].flat().map((c) => c.to));
  const counts: Record<string, number> = isOver ? {} : { 'not over': 0 };
  for (const facts of symbols) {
    const answers = coverage.get(facts.symbol)!;
    const isRequested = isNamed(facts, namedSymbols);
    const isUnrequested = answers.length === 0 && !isRequested;
    if (isUnrequested && facts.ticks === 0) continue;
    const lifetime = computeLifetime(facts, inOrder(answers), rules);
    const isDue = (t: number) =>
      isOver || (t < nowMs && (isUnrequested || t < (Number.isFinite(newest) ? newest : nowMs)));
    const reasons = quarters(day)
      .filter((t) => lifetime.from <= t && t < lifetime.to && isDue(t) && !windowsContaining(facts.unselected ?? [], t))
      .map((t) => {
        if (windowsContaining(answers, t))
          return !isOver || windowsContaining(answers.filter(isProven), t) ? '' : 'inferred';
        if (windowsContaining(exceptedOf(input, facts.symbol), t)) return 'accepted';
        return facts.suspendedAt === null ? 'never asked' : 'suspended';
      });
    for (const reason of new Set(reasons)) if (reason !== '') counts[reason] = (counts[reason] ?? 0) + 1;
  }
  return counts;
}

/** The first quarter from the start of a symbol's lifetime that no window contains, and in which it was collected. */
function modelCursor(facts: SymbolFacts, answers: readonly CoveredWindow[], windows: readonly Window[]): number {
  let t = computeLifetime(facts, inOrder(answers), rules).from;
  while (t < 100 * dayMs && windowsContaining([...windows, ...(facts.unselected ?? [])], t)) t += step;
  return t;
}

function modelReach(input: ModelInput, isCounted: (covered: CoveredWindow) => boolean): number | null {
  const { symbols, coverage, namedSymbols, nowMs } = input;
  const cursors = symbols.flatMap((facts) => {
    const answers = coverage.get(facts.symbol)!;
    const live =
      namedSymbols === null
        ? isLive(
            facts,
            { cursor: modelCursor(facts, answers, answers), provenTo: Number.POSITIVE_INFINITY },
            nowMs,
            rules,
          )
        : isNamed(facts, namedSymbols) && facts.suspendedAt === null && !isUnselected(facts);
    const windows = [...answers.filter(isCounted), ...exceptedOf(input, facts.symbol)];
    return live ? [modelCursor(facts, answers, windows)] : [];
  });
  const hasCoverage = [...coverage.values()].some((list) => list.length > 0);
  return cursors.length === 0 || !hasCoverage ? null : Math.min(nowMs, ...cursors);
}

describe('completeness', () => {
  test('gives each day the state that a check of every symbol and quarter gives', () => {
    checkProperty([arbitraryInput], 1000, (input) => {
      const { days: states } = completeness(input);
      for (const day of days) {
        const { reasons = [], reason = '', next_action, ...state } = states.get(day)!;
        expect(state).toEqual(modelDay(input, day));
        const isOpen = state.state !== 'complete' && state.state !== 'empty';
        const counts = Object.fromEntries(reasons.map(({ reason: name, symbols }) => [name, symbols]));
        expect(counts).toEqual(isOpen ? modelReasons(input, day) : {});
        expect([reason !== '', next_action != null]).toEqual([isOpen, isOpen]);
        for (const { from, to } of reasons) expect(day <= from && from < to && to <= day + dayMs).toBe(true);
      }
    });
  });

  test('does not depend on the order or number of days', () => {
    const many = Array.from({ length: 12 }, (_, n) => (n - 4) * dayMs);
    checkProperty([arbitraryInput], 500, (input) => {
      const ordered = completeness({ ...input, days: many });
      const reversed = completeness({ ...input, days: many.toReversed() });
      for (const day of many) expect(ordered.days.get(day)).toEqual(reversed.days.get(day));
      const few = completeness(input);
      for (const day of days) expect(ordered.days.get(day)).toEqual(few.days.get(day));
    });
  });

  test('puts the watermark where every live symbol is covered without a gap, and reaches as far with inferred windows', () => {
    checkProperty([arbitraryInput], 1000, (input) => {
      const { watermark, reached } = completeness(input);
      expect(watermark).toBe(modelReach(input, isProven));
      expect(reached).toBe(modelReach(input, () => true));
    });
  });

  const all = { from: 0, to: dayMs, origin: 'poll' as const, evidence: 'confirmed' as const };
  const compute = (fetchedAt: number, nowMs = 2 * dayMs, evidence: Evidence = 'stated') =>
    completeness({
      symbols: [factsOf({ polledFrom: 0 })],
      coverage: new Map([['S', [{ ...all, fetchedAt, evidence }]]]),
      namedSymbols: null,
      days: [0],
      nowMs,
      lifetimeRules: rules,
    }).days.get(0)!;

  test('counts a day as complete if it is proven to its end, and as provisional if a part is inferred', () => {
    expect(compute(dayMs).state).toBe('complete');
    expect(compute(dayMs, 2 * dayMs, 'repeated').state).toBe('complete');
    expect(compute(2 * dayMs, 2 * dayMs, 'inferred').state).toBe('provisional');
  });

  test('never counts an unfinished day as complete', () => {
    expect(compute(dayMs, dayMs - 1).state).toBe('incomplete');
  });

  test('is not held back by a suspended symbol', () => {
    const healthy = factsOf({ symbol: 'well', polledFrom: 0 });
    const gone = factsOf({ symbol: 'gone', polledFrom: 0, suspendedAt: 5 * dayMs });
    const covered = (to: number): CoveredWindow[] => [
      { from: 0, to, fetchedAt: to + dayMs, origin: 'poll', evidence: 'confirmed' },
    ];
    const coverage = new Map([
      ['well', covered(3 * dayMs)],
      ['gone', covered(1.5 * dayMs)],
    ]);
    const base = { coverage, namedSymbols: null, days, nowMs: 5 * dayMs, lifetimeRules: rules };
    const states = (facts: SymbolFacts) => [...completeness({ ...base, symbols: [healthy, facts] }).days.values()];
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
    expect(completeness({ ...base, symbols: [healthy, gone] }).watermark).toBe(3 * dayMs);
  });

  test('counts lost and accepted windows, which hold back neither watermark nor day', () => {
    const symbols = [factsOf({ symbol: 'A', polledFrom: 0 }), factsOf({ symbol: 'B', polledFrom: 0 })];
    const covered = (from: number, to: number): CoveredWindow => ({
      from,
      to,
      fetchedAt: 9 * dayMs,
      origin: 'poll',
      evidence: 'confirmed',
    });
    const coverage = new Map([
      ['A', [covered(0, dayMs / 2), covered(0.75 * dayMs, 3 * dayMs)]],
      ['B', [covered(0, 2.5 * dayMs)]],
    ]);
    const input = { symbols, coverage, namedSymbols: null, days, nowMs: 9 * dayMs, lifetimeRules: rules };
    const lostWindow = { dataset: 'ticks', symbol: 'A', from: dayMs / 2, to: 0.75 * dayMs, ticks: 1 };
    expect(completeness(input)).toMatchObject({ watermark: dayMs / 2, reached: dayMs / 2 });
    const excepted = completeness({ ...input, lost: [lostWindow] });
    expect(excepted).toMatchObject({ watermark: 2.5 * dayMs, reached: 2.5 * dayMs });
    const state = { state: 'complete_with_exceptions', expected: 2, covered: 1, missing: ['A'], exceptions: 1 };
    const { from, to } = lostWindow;
    expect(excepted.days.get(0)).toEqual({
      ...state,
      reasons: [{ reason: 'lost', symbols: 1, from, to }],
      reason: 'ticks of 1 symbol between 12:00 and 18:00 UTC were lost',
      next_action: 'to restore lost ticks: oddslake verify --repair',
    });
    const { ticks: _, dataset: __, ...accepted } = lostWindow;
    const byUser = completeness({ ...input, excepted: new Map([[accepted.symbol, [accepted]]]) });
    expect({ ...byUser, days: null }).toEqual({ ...excepted, days: null });
    expect(byUser.days.get(0)).toMatchObject({ ...state, reasons: [{ reason: 'accepted', symbols: 1, from, to }] });
    // A gap beside it can still be filled by a poll.
    const part = { ...lostWindow, to: lostWindow.to - 1 };
    expect(completeness({ ...input, lost: [part] })).toMatchObject({ watermark: part.to, reached: part.to });
    expect(completeness({ ...input, lost: [part] }).days.get(0)).toMatchObject({ state: 'incomplete' });
    const atFirst = { ...lostWindow, from: 0, to: dayMs / 2 };
    const rest = new Map([...coverage, ['A', [covered(dayMs / 2, 3 * dayMs)]] as const]);
    expect(completeness({ ...input, coverage: rest, lost: [atFirst], nowMs: 2 * dayMs })).toMatchObject({
      watermark: 2 * dayMs,
      reached: 2 * dayMs,
    });
  });

  test('does not count a day as complete if it has ticks without coverage', () => {
    const reported = { symbol: 'FILE', listed: false, firstTick: 0, lastTick: dayMs / 2, ticks: 2 };
    const symbols = [factsOf({ polledFrom: 0 }), factsOf(reported)];
    const coverage = new Map([['S', [{ ...all, fetchedAt: 9 * dayMs }]]]);
    const input = { symbols, namedSymbols: null, days: [0, dayMs], nowMs: 9 * dayMs, lifetimeRules: rules };
    expect(completeness({ ...input, coverage }).days.get(0)).toMatchObject({
      state: 'incomplete',
      expected: 2,
      covered: 1,
      missing: ['FILE'],
      exceptions: 0,
    });
    const { days: states, watermark } = completeness({ ...input, symbols: [factsOf(reported)], coverage: new Map() });
    expect(states.get(0)).toMatchObject({ state: 'incomplete', expected: 1, covered: 0, missing: ['FILE'] });
    // It ended with its last tick.
    expect(states.get(dayMs)).toMatchObject({ expected: 0 });
    expect(watermark).toBeNull();
  });

  describe('a loss before the known start of a symbol', () => {
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
    const response = (from: number, to: number): CoveredWindow => ({
      from,
      to,
      fetchedAt: 9 * dayMs,
      origin: 'poll',
      evidence: 'confirmed',
    });

    test('makes the symbol expected there, and missing until the window is covered', () => {
      const uncovered = { state: 'complete_with_exceptions', expected: 1, covered: 0, missing: ['S'], exceptions: 1 };
      expect(state([])).toMatchObject(uncovered);
      expect(state([response(0, 5)])).toMatchObject(uncovered);
      expect(state([response(0, 15)])).toMatchObject({ covered: 0 });
      expect(state([response(10, 20)])).toEqual({
        state: 'complete',
        expected: 1,
        covered: 1,
        missing: [],
        exceptions: 0,
      });
    });

    test('adds nothing to other days or other symbols', () => {
      expect(state([], [])).toEqual({ state: 'empty', expected: 0, covered: 0, missing: [], exceptions: 0 });
      const elsewhere = lost.map((w) => ({ ...w, from: 2 * dayMs, to: 2 * dayMs + 1 }));
      expect(state([], elsewhere)).toMatchObject({ state: 'empty', expected: 0 });
      expect(state([response(dayMs, 2 * dayMs)], lost, dayMs)).toMatchObject({
        expected: 2,
        covered: 1,
        missing: ['T'],
      });
    });
  });

  test('lists at most twenty missing symbols, and counts them all', () => {
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

test('a symbol that is live with some coverage can be live, and one that is live with none cannot', () => {
  checkProperty([anySymbol, fc.array(moment, { minLength: 1 }), moment], 1000, (known, cursors, nowMs) => {
    const facts = factsOf({ ...known, symbol: 'S' });
    const ends = [...cursors, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
    const live = ends.flatMap((cursor) => ends.map((provenTo) => isLive(facts, { cursor, provenTo }, nowMs, rules)));
    // Few symbols need their evidence to be read.
    if (isLive(facts, allCovered, nowMs, rules)) expect(live).not.toContain(false);
    expect(canBeLive(facts, nowMs, rules)).toBe(live.includes(true));
  });
});

describe('the market lists of a day', () => {
  const facts = factsOf({ symbol: 'A', listed: true, firstSeen: 0, opensAt: 0, polledFrom: 0 });
  const covered = (to: number): CoveredWindow[] => [
    { from: 0, to, fetchedAt: to + step, origin: 'poll', evidence: 'confirmed' },
  ];
  const input = (rest: Partial<ModelInput> = {}): ModelInput => ({
    symbols: [facts],
    coverage: new Map([['A', covered(3 * dayMs)]]),
    namedSymbols: null,
    days,
    nowMs: 4 * dayMs,
    lifetimeRules: rules,
    ...rest,
  });
  const complete = (input: ModelInput) => [...completeness(input).days.values()].map((day) => day.state === 'complete');

  test('make the day incomplete if they were not fetched completely within it', () => {
    const listedWhole = (day: number): boolean => day !== dayMs;
    expect(complete(input())).toEqual([true, true, true]);
    expect(complete(input({ hasWholeLists: listedWhole }))).toEqual([true, false, true]);
  });

  test('decide nothing if symbols are named by hand', () => {
    expect(complete(input({ hasWholeLists: () => false, namedSymbols: new Set(['A']) }))).toEqual([true, true, true]);
  });

  test('make a complete day incomplete again through a late symbol with an early opening', () => {
    const late = factsOf({ symbol: 'B', listed: true, firstSeen: 2 * dayMs, opensAt: dayMs, polledFrom: 2 * dayMs });
    const coverage = new Map([
      ['A', covered(3 * dayMs)],
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
    expect(complete(input({ symbols: [facts, late], coverage }))).toEqual([true, false, true]);
    // After a backfill.
    const filled = new Map([...coverage, ['B', covered(3 * dayMs)]] as const);
    expect(complete(input({ symbols: [facts, late], coverage: filled }))).toEqual([true, true, true]);
  });
});

test('days on which nothing was requested are the same whether they are added by the short way or not', () => {
  // An accepted window long before each lifetime changes nothing but the way.
  const longAgo = { from: -9 * dayMs, to: -8 * dayMs };
  checkProperty([arbitraryInput], 500, (input) => {
    const marked = new Map(input.symbols.map(({ symbol }) => [symbol, [...exceptedOf(input, symbol), longAgo]]));
    expect(completeness({ ...input, excepted: marked }).days).toEqual(completeness(input).days);
  });
});

test('a day on which requests of a symbol only failed is not one on which nothing was requested', () => {
  const failed = { from: 0, to: dayMs, kind: 'failed', reason: 'HTTP 500', since: dayMs } as const;
  const input: ModelInput = {
    symbols: [factsOf({ polledFrom: 0 })],
    coverage: new Map([
      ['S', [{ from: dayMs, to: 2 * dayMs, fetchedAt: 3 * dayMs, origin: 'poll', evidence: 'stated' }]],
    ]),
    namedSymbols: null,
    days: [0],
    nowMs: 3 * dayMs,
    lifetimeRules: rules,
  };
  const reasonsOf = (state: ModelInput) =>
    completeness(state)
      .days.get(0)!
      .reasons!.map(({ reason }) => reason);
  expect(reasonsOf(input)).toEqual(['never asked']);
  expect(reasonsOf({ ...input, owed: new Map([['S', [failed]]]) })).toEqual(['failed']);
  // The file of another day says nothing of this one.
  const damageOn = (day: number) => ({
    files: 1,
    days: new Set([day]),
    getWindows: () => [{ from: day, to: day + dayMs }],
  });
  expect(reasonsOf({ ...input, damage: damageOn(0) })).toContain('damaged');
  expect(reasonsOf({ ...input, damage: damageOn(dayMs) })).toEqual(['never asked']);
});

test('days with failed requests are the same whether they are added by the short way or not', () => {
  const longAgo = { from: -9 * dayMs, to: -8 * dayMs };
  const failed = fc
    .record({ symbol: fc.constantFrom('S0', 'S1'), from: moment, to: moment })
    .filter(({ from, to }) => from < to)
    .map((window) => ({ ...window, kind: 'failed' as const, reason: 'HTTP 500', since: 0 }));
  checkProperty([arbitraryInput, fc.array(failed, { minLength: 1, maxLength: 3 })], 500, (input, windows) => {
    const state = { ...input, owed: Map.groupBy(windows, ({ symbol }) => symbol) };
    const marked = new Map(input.symbols.map(({ symbol }) => [symbol, [...exceptedOf(input, symbol), longAgo]]));
    expect(completeness({ ...state, excepted: marked }).days).toEqual(completeness(state).days);
  });
});
