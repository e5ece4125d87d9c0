import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseStrategy } from '../../src/backtest/strategy/parse-strategy.ts';
import { parseBacktestSpec } from '../../src/contract/backtest-request.ts';
import { strategyLimits } from '../../src/contract/strategy-language.ts';
import { tradingStrategy } from '../contract/strategy-values.ts';
import { checkProperty } from '../harness/properties.ts';
import { strategyOf } from './series.ts';

const rule = { side: 'yes', entry: { measure: 'price', below: 0.2 }, size: { contracts: 1 } };

/** Faults by field. */
function faultsOf(json: unknown): Record<string, string> {
  const read = parseStrategy(json);
  return 'faults' in read ? Object.fromEntries(read.faults.map(({ name, reason }) => [name, reason])) : {};
}
const ofRule = (rest: object) => faultsOf({ rules: [{ ...rule, ...rest }] });
const ofEntry = (entry: unknown) => ofRule({ entry });

test('fills in defaults', () => {
  expect(strategyOf({ rules: [rule] })).toEqual({
    parameters: {},
    rules: [{ ...rule, exit: null, entries_max: null }],
    fees: { per_contract: 0, of_notional: 0, of_variance: 0 },
    slippage: 0,
    whole_contracts: null,
  });
  const feesOf = (fees: object) => strategyOf({ rules: [rule], fees }).fees;
  expect(feesOf({ schedule: 'kalshi' })).toEqual({
    schedule: 'kalshi',
    liquidity: 'taker',
    multiplier: 1,
    rounding: 'cent',
  });
  expect(feesOf({ schedule: 'polymarket', rate: 0.05 })).toEqual({ schedule: 'polymarket', rate: 0.05, exponent: 1 });
});

test('names the field of each fault', () => {
  expect(faultsOf(null)).toEqual({ '': 'must be an object' });
  expect(faultsOf([])).toEqual({ '': 'must be an object' });
  expect(faultsOf({})).toEqual({ rules: 'is missing' });
  expect(faultsOf({ rules: [] })).toEqual({ rules: 'must have 1 to 8 members' });
  expect(faultsOf({ rules: rule })).toEqual({ rules: 'must be a list' });
  expect(faultsOf({ rules: [rule], code: 'x' })).toEqual({
    code: 'is unknown: expected one of rules, parameters, fees, slippage, whole_contracts',
  });
  expect(ofRule({ side: 'maybe' })).toEqual({ 'rules[0].side': 'must be one of yes, no' });
  expect(ofRule({ size: null })).toEqual({ 'rules[0].size': 'must be an object' });
  expect(ofRule({ size: {} })).toEqual({ 'rules[0].size': 'must have one of contracts and dollars' });
  expect(ofRule({ size: { contracts: 1, dollars: 1 } })).toEqual({
    'rules[0].size': 'must have one of contracts and dollars',
  });
  expect(ofRule({ size: { contracts: 0 } })).toEqual({
    'rules[0].size.contracts': 'must be from 0.000001 to 1000000000',
  });
  expect(ofRule({ size: { dollars: '1' } })).toEqual({ 'rules[0].size.dollars': 'must be a number' });
  expect(ofRule({ entries_max: 0 })).toEqual({ 'rules[0].entries_max': 'must be from 1 to 1000000' });
  expect(faultsOf({ rules: [{ side: 'yes' }] })).toEqual({
    'rules[0].entry': 'is missing',
    'rules[0].size': 'is missing',
  });
  expect(faultsOf({ rules: [rule], fees: { per_contract: null, of_profit: 1 } })).toEqual({
    'fees.per_contract': 'must be a number',
    'fees.of_profit': 'is unknown: expected one of per_contract, of_notional, of_variance',
  });
  const ofFees = (fees: unknown) => faultsOf({ rules: [rule], fees });
  expect(ofFees({ schedule: 'manifold' })).toEqual({ 'fees.schedule': 'must be one of kalshi, polymarket' });
  expect(ofFees({ schedule: null })).toEqual({ 'fees.schedule': 'must be one of kalshi, polymarket' });
  expect(ofFees({ schedule: 'kalshi', liquidity: 'both', multiplier: 11, rounding: 1, rate: 0.07 })).toEqual({
    'fees.rate': 'is unknown: expected one of schedule, liquidity, multiplier, rounding',
    'fees.liquidity': 'must be one of taker, maker',
    'fees.multiplier': 'must be from 0 to 10',
    'fees.rounding': 'must be one of cent, centicent',
  });
  expect(ofFees({ schedule: 'polymarket' })).toEqual({ 'fees.rate': 'is missing' });
  expect(ofFees({ schedule: 'polymarket', rate: 2, exponent: 1.5 })).toEqual({
    'fees.rate': 'must be from 0 to 1',
    'fees.exponent': 'must be a whole number',
  });
  expect(ofFees({ schedule: 'polymarket', rate: { parameter: 'r' } })).toEqual({
    'fees.rate.parameter': 'r is not a parameter of the strategy',
  });
  expect(faultsOf({ rules: [rule], whole_contracts: 1 })).toEqual({ whole_contracts: 'must be true or false' });
  expect(faultsOf({ rules: [rule], slippage: -0.1 })).toEqual({ slippage: 'must be from 0 to 1' });
  expect(faultsOf({ rules: [rule], parameters: { 'A b': 1, b: 'x' } })).toEqual({
    'parameters.A b': 'must be a name of at most 40 characters a-z, 0-9 and _, starting with a letter',
    'parameters.b': 'must be a number',
  });
  // Field names of nested objects start at the root.
  expect(parseStrategy({}, 'entry_executable.strategy')).toEqual({
    faults: [{ name: 'entry_executable.strategy.rules', reason: 'is missing' }],
  });
});

test('names the condition of a fault', () => {
  expect(ofEntry({})).toEqual({ 'rules[0].entry': 'must have one of all, any and measure' });
  expect(ofEntry('price < 1')).toEqual({ 'rules[0].entry': 'must be an object' });
  expect(ofEntry({ all: [], any: [] })).toEqual({ 'rules[0].entry.any': 'is unknown: expected one of all' });
  expect(ofEntry({ all: [{ any: [rule.entry, { measure: 'price' }] }] })).toEqual({
    'rules[0].entry.all[0].any[1]': 'must have one of above, at_least, below, at_most',
  });
  expect(ofEntry({ measure: 'luck', above: 1 })['rules[0].entry.measure']).toMatch(/^must be one of price, return/);
  expect(ofEntry({ measure: 'return', above: 1 })).toEqual({
    'rules[0].entry.window_ms': 'is missing: return requires a window',
  });
  expect(ofEntry({ measure: 'price', window_ms: 1, above: 1 })).toEqual({
    'rules[0].entry.window_ms': 'is not allowed for price',
  });
  expect(ofEntry({ measure: 'gain', above: 1 })).toEqual({
    'rules[0].entry.measure': 'gain is allowed only in an exit',
  });
  expect(ofEntry({ measure: 'price', above: { measure: 'held_ms' } })).toEqual({
    'rules[0].entry.above.measure': 'held_ms is allowed only in an exit',
  });
  expect(ofRule({ exit: { measure: 'gain', above: 0.1 } })).toEqual({});
  expect(ofEntry({ measure: 'price', above: { measure: 'moving_average', window_ms: 0 } })).toEqual({
    'rules[0].entry.above.window_ms': 'must be from 1 to 31622400000',
  });
  expect(ofEntry({ measure: 'category' })).toEqual({ 'rules[0].entry': 'must have one of in and not_in' });
  expect(ofEntry({ measure: 'category', in: [] })).toEqual({ 'rules[0].entry.in': 'must have 1 to 100 members' });
  expect(ofEntry({ measure: 'category', in: [''] })).toEqual({
    'rules[0].entry.in[0]': 'must be a string of 1 to 200 characters',
  });
});

test('a parameter must exist and be valid where it is used', () => {
  const entry = { measure: 'return', window_ms: { parameter: 'w', times: 2 }, above: 0 };
  const read = (parameters: object) => faultsOf({ parameters, rules: [{ ...rule, entry }] });
  expect(read({ w: 30_000 })).toEqual({});
  expect(read({})).toEqual({ 'rules[0].entry.window_ms.parameter': 'w is not a parameter of the strategy' });
  expect(read({ w: 0 })).toEqual({ 'rules[0].entry.window_ms': 'must be from 1 to 31622400000' });
  // Inherited names are not parameters.
  const odd = { ...entry, window_ms: { parameter: 'constructor' } };
  expect(faultsOf({ rules: [{ ...rule, entry: odd }] })).toEqual({
    'rules[0].entry.window_ms.parameter': 'constructor is not a parameter of the strategy',
  });
});

test('bounds the number and depth of conditions', () => {
  const deep = (levels: number): object => (levels === 0 ? rule.entry : { all: [deep(levels - 1)] });
  expect(ofEntry(deep(strategyLimits.depth - 1))).toEqual({});
  expect(Object.values(ofEntry(deep(strategyLimits.depth)))).toEqual(['is nested more than 8 levels deep']);
  const many = (n: number) => ({ all: Array.from({ length: n }, () => rule.entry) });
  expect(ofEntry(many(99))).toEqual({});
  expect(ofEntry(many(100))).toEqual({ rules: 'has 101 conditions, more than 100' });
  const names = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`n${i}`, 1]));
  expect(faultsOf({ rules: [rule], parameters: names })).toEqual({ parameters: 'has 21 names, more than 20' });
});

test('reports at most fifty faults, one per field', () => {
  const read = parseStrategy({
    rules: [rule],
    ...Object.fromEntries(Array.from({ length: 99 }, (_, i) => [`x${i}`, 1])),
  });
  expect('faults' in read && read.faults.length).toBe(50);
});

test('-0 becomes 0, which is what JSON has', () => {
  expect(strategyOf({ rules: [{ ...rule, entry: { measure: 'price', above: -0 } }] }).rules[0]!.entry).toStrictEqual({
    measure: 'price',
    above: 0,
  });
});

/** Random values, and valid strategies with a part replaced by a random value. */
const anyJson = fc.anything({ withNullPrototype: true });
const nearly = (whole: fc.Arbitrary<unknown>) =>
  fc.tuple(whole, anyJson, fc.array(fc.nat(), { maxLength: 8 })).map(([json, value, path]) => {
    const put = (at: unknown, [first, ...rest]: readonly number[]): unknown => {
      if (first === undefined || typeof at !== 'object' || at === null) return value;
      const keys = Object.keys(at);
      const key = keys[first % Math.max(1, keys.length)];
      if (key === undefined) return value;
      const inner = put((at as Record<string, unknown>)[key], rest);
      return Array.isArray(at) ? at.with(Number(key), inner) : { ...at, [key]: inner };
    };
    return put(json, path);
  });

const requestJson = {
  entry_executable: { name: 'threshold', version: 1 },
  objective: 'sharpe',
  symbols: ['A', 'B'],
  filter: { categories: ['c'], sources: [] },
  from: 1,
  to: 2,
  parameters: { a: 1 },
  grid: { b: [1, 2] },
  held_out: 0.5,
  fees: { schedule: 'kalshi', multiplier: 1 },
  whole_contracts: true,
};

test('invalid input gives faults and never throws', () => {
  const isRead = (read: object): boolean => ('faults' in read ? (read.faults as unknown[]).length > 0 : true);
  checkProperty([fc.oneof(anyJson, nearly(tradingStrategy))], 2000, (json) => isRead(parseStrategy(json)));
  checkProperty([fc.oneof(anyJson, nearly(fc.constant(requestJson)))], 2000, (json) => isRead(parseBacktestSpec(json)));
});
