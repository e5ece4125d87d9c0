import { createRequire } from 'node:module';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { parseStrategy } from '../../src/backtest/strategy/parse-strategy.ts';
import { strategySchemas } from '../../src/contract/strategy-language.ts';
import { checkProperty } from '../harness/properties.ts';
import { changedStrategy, goodStrategy } from './strategy-values.ts';

// Checks that the OpenAPI schemas of strategies agree with the parser, which is authoritative.

const { Ajv2020 } = createRequire(import.meta.url)('ajv/dist/2020.js') as { Ajv2020: typeof Ajv };
const ajv = new Ajv2020({ strict: false });
ajv.addSchema({ components: { schemas: strategySchemas } }, 'document');
const schema = ajv.compile({ $ref: 'document#/components/schemas/StrategyDefinition' });

const numRuns = Number(process.env.CASES ?? 1000);

const reported = (json: unknown) => {
  const valid = schema(json);
  const read = parseStrategy(json);
  return { valid, why: valid ? '' : ajv.errorsText(schema.errors), faults: 'faults' in read ? read.faults : [], read };
};

/** Rules that no schema can express: values of parameters, measures of positions, and total counts. */
const beyond = [
  / is not a parameter of the strategy$/,
  / is allowed only in an exit$/,
  /^is nested more than 8 levels deep$/,
  /^has \d+ conditions, more than 100$/,
];
const outOfRange = /^must be (from \S+ to \S+|a number)$/;

/** The value at a field name as in errors: `rules[0].size.contracts`. */
const at = (json: unknown, field: string): unknown =>
  field
    .split(/[.[\]]+/)
    .reduce((value, step) => (step === '' ? value : (value as Record<string, unknown>)[step]), json);

test('the schema and the parser accept every valid strategy, as given and as parsed', () => {
  checkProperty([goodStrategy], numRuns / 4, (json) => {
    const { valid, why, faults, read } = reported(json);
    expect([valid, why, faults]).toEqual([true, '', []]);
    const { strategy } = read as { strategy: unknown };
    // Responses have the parsed strategy: it has the same schema and is parsed to itself, also after it was written.
    const again = reported(JSON.parse(JSON.stringify(strategy)));
    expect(again).toMatchObject({ valid: true, read: { strategy } });
    expect(JSON.stringify(again.read)).toBe(JSON.stringify(read));
  });
});

test('the schema accepts what the parser accepts, and rejects all else that a schema can express', () => {
  let [taken, refused, byReaderAlone] = [0, 0, 0];
  checkProperty([changedStrategy], numRuns, (json) => {
    const { valid, why, faults } = reported(json);
    if (faults.length === 0) {
      taken++;
      expect(why).toBe('');
      return;
    }
    refused++;
    if (!valid) return;
    byReaderAlone++;
    for (const { name, reason } of faults) {
      const printed = beyond.some((known) => known.test(reason));
      // The schema rejects a number out of range, but not a parameter with such a value.
      const isParameter = outOfRange.test(reason) && typeof at(json, name) === 'object';
      expect(printed || isParameter, `${name} ${reason}: ${JSON.stringify(json)}`).toBe(true);
    }
  });
  // All three cases must have occurred.
  expect(Math.min(taken, refused, byReaderAlone), `${[taken, refused, byReaderAlone]}`).toBeGreaterThan(numRuns / 200);
});

test('every built-in strategy is valid and has its defaults filled in', () => {
  for (const { name, strategy } of builtinStrategies) {
    expect(reported(strategy), name).toMatchObject({ valid: true, faults: [] });
    expect(parseStrategy(strategy), name).toEqual({ strategy });
  }
});
