import { expect, test } from 'vitest';
import { compileCondition } from '../../src/backtest/engine/conditions.ts';
import { createMeasures, type Position, windowValuesMax } from '../../src/backtest/engine/measures.ts';
import type { MarketState, SymbolSeries } from '../../src/backtest/engine/symbol-series.ts';
import { findDataDependencies } from '../../src/backtest/strategy/strategy.ts';
import type { Measure } from '../../src/contract/strategy-language.ts';
import { at, minute, priced, ruled } from './series.ts';

const position: Position = { boughtAt: at(1), cost: 0.3, sign: 1, offset: 0 };
const none = ruled({});

/** A measure at every tick. */
function values(series: SymbolSeries, measure: Measure, held = position): number[] {
  const read = createMeasures(series, none).createReader(measure, held);
  return [...series.t.keys()].map((i) => read(i));
}

const unknown = Number.NaN;
const prices = [0.5, 0.6, 0.6, 0.3, 0];

test('return compares with the last price at or before the start of the window', () => {
  expect(values(priced(prices), { measure: 'return', window_ms: 2 * minute })).toEqual([
    unknown,
    unknown,
    0.6 / 0.5 - 1,
    0.3 / 0.6 - 1,
    -1,
  ]);
  // A tick just after the start is in the window, and is not the base of the return.
  expect(values(priced(prices), { measure: 'return', window_ms: 2 * minute - 1 })[2]).toBeCloseTo(0.2, 12);
  // A base of 0 has no return.
  expect(values(priced([0, 0.5]), { measure: 'return', window_ms: minute })).toEqual([unknown, unknown]);
});

test('moving_average and z_score need a full window, z_score also a deviation', () => {
  const series = priced([0.2, 0.2, 0.2, 0.5]);
  const window_ms = 2 * minute;
  expect(values(series, { measure: 'moving_average', window_ms })).toEqual([unknown, unknown, 0.2, 0.35]);
  const scores = values(series, { measure: 'z_score', window_ms });
  expect(scores.slice(0, 3)).toEqual([unknown, unknown, unknown]);
  expect(scores[3]).toBeCloseTo(1, 12);
});

test('cached and uncached windows give the same values', () => {
  const prices = Array.from({ length: 4000 }, (_, i) => ((i * 7919) % 1000) / 1000);
  const series = priced(prices);
  const windows = Math.floor(windowValuesMax / prices.length);
  const measures = createMeasures(series, none);
  const of = (window_ms: number): Measure => ({ measure: 'z_score', window_ms: window_ms * minute });
  for (let n = 1; n < windows; n++) measures.getColumn({ measure: 'moving_average', window_ms: n });
  const kept = measures.getColumn(of(50))!;
  expect(measures.getColumn(of(50))).toBe(kept);
  expect(measures.getColumn(of(51))).toBeNull();
  // A copy of the prices is not cached yet.
  const other = createMeasures(priced(prices), none).getColumn(of(51))!;
  const made = values(series, of(51));
  for (const [i, value] of made.entries()) expect(Object.is(value, other[i]), `at ${i}`).toBe(true);
  expect(kept.findIndex((value) => !Number.isNaN(value))).toBe(50);
  const ofReturn: Measure = { measure: 'return', window_ms: 51 * minute };
  expect(measures.getColumn(ofReturn)).toBeNull();
  expect(values(series, ofReturn)).toEqual([...createMeasures(priced(prices), none).getColumn(ofReturn)!]);
});

const always = { from: 0, to: Number.POSITIVE_INFINITY };

test('venue_spread uses venues only while the match is known', () => {
  const together = [
    { from: at(1), to: at(2) },
    { from: at(3), to: at(4) },
  ];
  const others = [{ t: Float64Array.of(at(0)), p: Float64Array.of(0.4), sharedWindows: together }];
  const measure = { measure: 'venue_spread', window_ms: 10 * minute } as const;
  const spread = values(priced([0.5, 0.5, 0.5, 0.5, 0.5], { otherVenues: others }), measure);
  expect(spread.map((value) => (Number.isNaN(value) ? null : Math.round(value * 10)))).toEqual([
    null,
    1,
    null,
    1,
    null,
  ]);
});

test('venue_spread compares with the mean of recent prices of other venues', () => {
  const others = [
    { t: Float64Array.of(at(0), at(2)), p: Float64Array.of(0.4, 0.8), sharedWindows: [always] },
    { t: Float64Array.of(at(1)), p: Float64Array.of(0.6), sharedWindows: [always] },
    { t: new Float64Array(0), p: new Float64Array(0), sharedWindows: [always] },
    { t: Float64Array.of(at(0)), p: Float64Array.of(0.9), sharedWindows: [] },
  ];
  const spread = values(priced([0.5, 0.5, 0.5, 0.5, 0.5], { otherVenues: others }), {
    measure: 'venue_spread',
    window_ms: 2 * minute,
  });
  const expected = [0.5 - 0.4, 0.5 - 0.5, 0.5 - 0.7, 0.5 - 0.8];
  expect(spread.pop()).toBeNaN();
  for (const [i, value] of spread.entries()) expect(value, `at ${i}`).toBeCloseTo(expected[i]!, 12);
});

const state = (from: number, rest: Partial<MarketState>): MarketState => ({
  from,
  category: null,
  confidence: null,
  closesAt: null,
  ...rest,
});

test('market measures use the state known at the tick', () => {
  const states = [
    state(at(1), { category: 'sports', confidence: 0.5, closesAt: at(10) }),
    state(at(2) + 1, { category: 'law' }),
  ];
  const series = priced(prices, { states });
  expect(values(series, { measure: 'confidence' })).toEqual([unknown, 0.5, 0.5, unknown, unknown]);
  expect(values(series, { measure: 'time_to_close_ms' })).toEqual([unknown, 9 * minute, 8 * minute, unknown, unknown]);
  const among = compileCondition({ measure: 'category', in: ['sports'] }, none, createMeasures(series, none), position);
  const notAmong = compileCondition(
    { measure: 'category', not_in: ['sports'] },
    none,
    createMeasures(series, none),
    position,
  );
  expect([0, 1, 2, 3].map(among)).toEqual([false, true, true, false]);
  // An unknown category matches neither in nor not_in.
  expect([0, 1, 2, 3].map(notAmong)).toEqual([false, false, false, true]);
});

test('gain of a no position is the loss of yes', () => {
  expect(values(priced([0.4]), { measure: 'gain' })[0]).toBeCloseTo(0.1, 15);
  const no: Position = { boughtAt: 0, cost: 0.3, sign: -1, offset: 1 };
  expect(values(priced([0.4]), { measure: 'gain' }, no)[0]).toBeCloseTo(0.3, 15);
  expect(values(priced(prices), { measure: 'held_ms' }).slice(1)).toEqual([0, 1, 2, 3].map((n) => n * minute));
});

test('unknown values fail every test', () => {
  const series = priced([0.5]);
  for (const bound of ['above', 'at_least', 'below', 'at_most'] as const) {
    const on = (measure: Measure, operand: number | Measure): boolean =>
      compileCondition({ ...measure, [bound]: operand }, none, createMeasures(series, none), position)(0);
    expect(on({ measure: 'confidence' }, 0.5), bound).toBe(false);
    expect(on({ measure: 'price' }, { measure: 'confidence' }), bound).toBe(false);
    expect(on({ measure: 'price' }, 0.5), bound).toBe(bound === 'at_least' || bound === 'at_most');
  }
});

test('empty all is true, empty any is false; all bounds must hold', () => {
  const on = (condition: Parameters<typeof compileCondition>[0]): boolean =>
    compileCondition(condition, none, createMeasures(priced([0.5]), none), position)(0);
  const [yes, no] = [{ measure: 'price', above: 0.4 } as const, { measure: 'price', above: 0.6 } as const];
  expect([on({ all: [] }), on({ any: [] })]).toEqual([true, false]);
  expect([
    on({ all: [yes] }),
    on({ all: [yes, no] }),
    on({ all: [yes, yes, yes] }),
    on({ all: [yes, yes, no] }),
  ]).toEqual([true, false, true, false]);
  expect([on({ any: [no, yes] }), on({ any: [no, no] }), on({ any: [{ all: [yes, { any: [yes] }] }] })]).toEqual([
    true,
    false,
    true,
  ]);
  expect(on({ measure: 'price', above: 0.4, below: 0.6 })).toBe(true);
  expect(on({ measure: 'price', above: 0.4, below: 0.5 })).toBe(false);
});

test('finds the data that a strategy needs', () => {
  expect(findDataDependencies(none)).toEqual({ lookbackMs: 0, needsStates: false, needsVenues: false });
  const entry = {
    any: [
      { measure: 'price', above: { measure: 'moving_average', window_ms: 7 * minute } },
      { all: [{ measure: 'return', window_ms: { parameter: 'w', times: 3 }, above: 0 }] },
    ],
  };
  expect(findDataDependencies(ruled({ entry }, { parameters: { w: 4 * minute } }))).toMatchObject({
    lookbackMs: 12 * minute,
  });
  const exit = { any: [{ measure: 'venue_spread', window_ms: 1, above: { measure: 'confidence' } }] };
  expect(findDataDependencies(ruled({ exit }))).toEqual({ lookbackMs: 1, needsStates: true, needsVenues: true });
  expect(findDataDependencies(ruled({ entry: { measure: 'category', in: ['a'] } })).needsStates).toBe(true);
});
