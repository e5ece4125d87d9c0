import { expect, test } from 'vitest';
import { splitWindow } from '../../src/backtest/result.ts';
import { bindParameters, expandGrid } from '../../src/backtest/strategy/parse-strategy.ts';
import { countPoints, parseBacktestSpec } from '../../src/contract/backtest-request.ts';
import { strategyOf } from './series.ts';

const least = { entry_executable: { name: 'threshold' }, objective: 'avg_pnl' };
const faultsOf = (json: object): Record<string, string> => {
  const read = parseBacktestSpec({ ...least, ...json });
  return 'faults' in read ? Object.fromEntries(read.faults.map(({ name, reason }) => [name, reason])) : {};
};

test('fills in defaults', () => {
  expect(parseBacktestSpec(least)).toEqual({
    spec: {
      entry_executable: { name: 'threshold', version: null, strategy: null },
      objective: 'avg_pnl',
      symbols: null,
      filter: { categories: [], sources: [] },
      from: null,
      to: null,
      parameters: {},
      grid: {},
      held_out: 0.3,
      fees: null,
      whole_contracts: null,
    },
  });
});

test('a request survives writing and reading', () => {
  const rule = { side: 'no', entry: { all: [] }, exit: null, size: { dollars: 3 }, entries_max: 1 };
  const entry_executable = { name: 'mine', strategy: { rules: [rule] } };
  const read = parseBacktestSpec({
    ...least,
    entry_executable,
    symbols: ['b', 'a', 'b'],
    from: 0,
    to: 9,
    grid: { x: [2, 1, 2] },
  });
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  expect(read.spec).toMatchObject({ symbols: ['b', 'a'], grid: { x: [2, 1] } });
  expect(parseBacktestSpec(JSON.parse(JSON.stringify(read.spec)))).toEqual(read);
  const plain = parseBacktestSpec(least);
  expect(parseBacktestSpec(JSON.parse(JSON.stringify('spec' in plain && plain.spec)))).toEqual(plain);
});

test('names the field of each fault', () => {
  expect(parseBacktestSpec({})).toEqual({
    faults: [
      { name: 'entry_executable', reason: 'is missing' },
      { name: 'objective', reason: 'is missing' },
    ],
  });
  expect(faultsOf({ from: 5, to: 5 })).toEqual({ to: 'must be after from' });
  expect(faultsOf({ from: 0.5 })).toEqual({ from: 'must be a whole number' });
  expect(faultsOf({ to: '2026-06-01' })).toEqual({ to: 'must be a number' });
  expect(faultsOf({ symbols: [] })).toEqual({ symbols: 'must have 1 to 10000 members' });
  expect(faultsOf({ symbols: ['A', 7] })).toEqual({ 'symbols[1]': 'must be a string of 1 to 1000 characters' });
  expect(faultsOf({ filter: { category: 'x' } })).toEqual({
    'filter.category': 'is unknown: expected one of categories, sources',
  });
  expect(faultsOf({ parameters: { buy_below: null } })).toEqual({ 'parameters.buy_below': 'must be a number' });
  expect(faultsOf({ grid: { a: [] } })).toEqual({
    'grid.a': 'must have 1 to 1000 members',
  });
  const text = 'must be a string of 1 to 1000 characters';
  const time = 'must be from 0 to 7258118400000';
  const many = (n: number) => Array.from({ length: n }, (_, i) => `s${i}`);
  for (const [json, name, reason] of [
    [{ objective: 'luck' }, 'objective', /^must be one of avg_pnl, /],
    [{ entry_executable: { name: '' } }, 'entry_executable.name', 'must be a string of 1 to 200 characters'],
    [{ entry_executable: { name: 'x', version: 0 } }, 'entry_executable.version', 'must be from 1 to 1000000000'],
    [{ entry_executable: { name: 'x', version: 1.5 } }, 'entry_executable.version', 'must be a whole number'],
    [{ entry_executable: { name: 'x', code: 'x' } }, 'entry_executable.code', /^is unknown: expected one of name, ver/],
    [{ symbols: many(10_001) }, 'symbols', 'must have 1 to 10000 members'],
    [{ symbols: ['x'.repeat(1001)] }, 'symbols[0]', text],
    [{ filter: { categories: many(101) } }, 'filter.categories', 'must have 0 to 100 members'],
    [{ filter: { sources: [''] } }, 'filter.sources[0]', text],
    [{ from: -1 }, 'from', time],
    [{ to: Date.UTC(2200, 0, 1) + 1 }, 'to', time],
    [{ grid: { a: 0.1 } }, 'grid.a', 'must be a list'],
    [{ held_out: 0 }, 'held_out', 'must be from 0.05 to 0.9'],
    [{ fees: 'kalshi' }, 'fees', 'must be an object'],
    [{ fees: { schedule: 'kalshi', rate: 0.07 } }, 'fees.rate', /^is unknown/],
    [{ fees: { per_contract: { parameter: 'a' } } }, 'fees.per_contract.parameter', /^a is not a parameter/],
    [{ whole_contracts: 'yes' }, 'whole_contracts', 'must be true or false'],
  ] as const)
    expect(faultsOf(json)).toEqual({ [name]: typeof reason === 'string' ? reason : expect.stringMatching(reason) });
  expect(faultsOf({ symbols: many(10_000), filter: { categories: many(100) }, to: Date.UTC(2200, 0, 1) })).toEqual({});
  expect(faultsOf({ held_out: 1 })).toEqual({ held_out: 'must be from 0.05 to 0.9' });
  const entry_executable = { name: 'x', strategy: { rules: [{ side: 'yes', entry: { all: [] }, size: {} }] } };
  expect(faultsOf({ entry_executable })).toEqual({
    'entry_executable.strategy.rules[0].size': 'must have one of contracts and dollars',
  });
});

test('bounds a grid before expanding it', () => {
  const values = Array.from({ length: 1000 }, (_, i) => i);
  expect(faultsOf({ grid: { a: values } })).toEqual({});
  expect(faultsOf({ grid: { a: values, b: [1, 2] } })).toEqual({ grid: 'has 2000 points, more than 1000' });
  const names = Object.fromEntries(Array.from({ length: 90 }, (_, i) => [`n${i}`, values]));
  expect(faultsOf({ grid: names })).toEqual({ grid: 'has 90 names, more than 20' });
  expect(faultsOf({ parameters: Object.fromEntries(Object.keys(names).map((name) => [name, 1])) })).toEqual({
    parameters: 'has 90 names, more than 20',
  });
});

test('expands a grid to all combinations, the last name varying fastest', () => {
  const grid = { a: [1, 2], b: [3, 4] };
  expect(expandGrid(grid)).toEqual([
    { a: 1, b: 3 },
    { a: 1, b: 4 },
    { a: 2, b: 3 },
    { a: 2, b: 4 },
  ]);
  expect(countPoints(grid)).toBe(4);
  expect(expandGrid({})).toEqual([{}]);
});

test('binds parameter values and rejects invalid ones', () => {
  const strategy = strategyOf({
    parameters: { level: 0.2, window: 60_000 },
    rules: [
      {
        side: 'yes',
        entry: { measure: 'return', window_ms: { parameter: 'window' }, below: { parameter: 'level' } },
        size: { contracts: 1 },
      },
    ],
  });
  expect(bindParameters(strategy, { level: 0.4 })).toEqual({
    strategy: { ...strategy, parameters: { level: 0.4, window: 60_000 } },
  });
  expect(bindParameters(strategy, { levle: 1, constructor: 2 })).toEqual({
    faults: [
      { name: 'parameters.levle', reason: 'the strategy has only level, window' },
      { name: 'parameters.constructor', reason: 'the strategy has only level, window' },
    ],
  });
  expect(bindParameters(strategy, { window: 0 })).toEqual({
    faults: [
      {
        name: 'parameters.window',
        reason: 'is 0, which is invalid for rules[0].entry.window_ms: it must be from 1 to 31622400000',
      },
    ],
  });
});

test('splits a window for a held-out share', () => {
  expect(splitWindow({ from: 0, to: 1000 }, 0.3)).toEqual([
    { from: 0, to: 700 },
    { from: 700, to: 1000 },
  ]);
  expect(splitWindow({ from: 0, to: 1 }, 0.3)).toBeUndefined();
});
