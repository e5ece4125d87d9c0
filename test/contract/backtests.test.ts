import { createRequire } from 'node:module';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { backtestRequest, parseBacktestSpec } from '../../src/contract/backtest-request.ts';
import { BacktestResult } from '../../src/contract/backtests.ts';
import { strategySchemas } from '../../src/contract/strategy-language.ts';
import { createTradedArchive, runDirectly, threshold } from '../server/backtesting.ts';

// Checks that the OpenAPI schemas of backtests agree with the parser and the engine.

const { Ajv2020 } = createRequire(import.meta.url)('ajv/dist/2020.js') as { Ajv2020: typeof Ajv };

/** A schema as in the document; `closed` rejects fields that it does not name. */
function compiled(schema: object, closed = false) {
  const ajv = new Ajv2020({ strict: false });
  const shut = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map(shut);
    const entries = Object.entries(value).map(([name, inner]) => [name, shut(inner)]);
    const own = Object.fromEntries(entries) as Record<string, unknown>;
    return own.properties === undefined ? own : { additionalProperties: false, ...own };
  };
  const plain = JSON.parse(JSON.stringify(schema)) as object;
  ajv.addSchema(
    { components: { schemas: { ...strategySchemas, Requested: closed ? shut(plain) : plain } } },
    'document',
  );
  const text = JSON.stringify({ $ref: '#/components/schemas/Requested' }).replace('"#/', '"document#/');
  return ajv.compile(JSON.parse(text) as object);
}

test('the schema names the built-in strategies', () => {
  const reported = JSON.stringify(backtestRequest.json);
  for (const { name } of builtinStrategies) expect(reported).toContain(name);
});

test('the schema and the parser accept the same requests', () => {
  const { parameters, ...plain } = threshold;
  const [hold] = builtinStrategies;
  const inline = { name: 'mine', strategy: hold!.strategy };
  const schema = compiled(backtestRequest.json);
  for (const [body, isGood] of [
    [plain, true],
    [{ ...plain, parameters }, true],
    [{ ...plain, entry_executable: inline }, true],
    [{ ...plain, entry_executable: { name: 'x', version: null } }, true],
    [{ ...plain, entry_executable: { name: 'x', version: 0 } }, false],
    [{ ...plain, entry_executable: { name: 'x', version: 1.5 } }, false],
    [{ ...plain, entry_executable: { name: '' } }, false],
    [{ ...plain, entry_executable: { name: 'x'.repeat(201) } }, false],
    [{ ...plain, entry_executable: { ...inline, code: 'x' } }, false],
    [{ ...plain, entry_executable: { name: 'x', strategy: { rules: [] } } }, false],
    [{ ...plain, objective: 'luck' }, false],
    [{ objective: 'brier' }, false],
    [{ ...plain, symbols: null, from: null, to: null }, true],
    [{ ...plain, symbols: ['a'], from: 0, to: Date.UTC(2200, 0, 1) }, true],
    [{ ...plain, symbols: [] }, false],
    [{ ...plain, symbols: Array.from({ length: 10_001 }, (_, i) => `s${i}`) }, false],
    [{ ...plain, symbols: ['x'.repeat(1001)] }, false],
    [{ ...plain, from: -1 }, false],
    [{ ...plain, to: Date.UTC(2200, 0, 1) + 1 }, false],
    [{ ...plain, from: 1.5 }, false],
    [{ ...plain, filter: { categories: ['a'], sources: [] } }, true],
    [{ ...plain, filter: { categories: Array.from({ length: 101 }, (_, i) => `${i}`) } }, false],
    [{ ...plain, filter: { more: [] } }, false],
    [{ ...plain, parameters: { a: '1' } }, false],
    [{ ...plain, grid: { buy_below: [0.1, 0.2] }, held_out: 0.5 }, true],
    [{ ...plain, grid: { buy_below: [] } }, false],
    [{ ...plain, grid: { buy_below: 0.1 } }, false],
    [{ ...plain, held_out: 0.95 }, false],
    [{ ...plain, held_out: 0 }, false],
    [{ ...plain, fees: null, whole_contracts: null }, true],
    [{ ...plain, fees: { per_contract: 0.01 }, whole_contracts: true }, true],
    [{ ...plain, fees: { schedule: 'kalshi', rounding: 'centicent' } }, true],
    [{ ...plain, fees: { schedule: 'polymarket', rate: 0.05, exponent: 2 } }, true],
    [{ ...plain, fees: { schedule: 'polymarket' } }, false],
    [{ ...plain, fees: { schedule: 'kalshi', rate: 0.07 } }, false],
    [{ ...plain, fees: 'kalshi' }, false],
    [{ ...plain, whole_contracts: 'yes' }, false],
    [{ ...plain, more: 1 }, false],
  ] as const) {
    const reported = JSON.stringify(body).slice(0, 200);
    expect([reported, schema(body), 'spec' in parseBacktestSpec(body)]).toEqual([reported, isGood, isGood]);
  }
});

test('a result has exactly the fields of the schema', async () => {
  const archive = await createTradedArchive();
  const schema = compiled(BacktestResult, true);
  for (const body of [threshold, { ...threshold, grid: { contracts: [1, 2] } }]) {
    const result = await runDirectly(archive, body);
    expect([schema(result), schema.errors]).toEqual([true, null]);
    const named = Object.keys(BacktestResult.properties);
    expect(Object.keys(result).sort()).toEqual(named.sort());
  }
});
