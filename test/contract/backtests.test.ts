import { createRequire } from 'node:module';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { backtestRequest } from '../../src/contract/backtest-request.ts';
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
