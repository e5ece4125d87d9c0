import { createRequire } from 'node:module';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  boolean,
  constant,
  integer,
  list,
  nullable,
  number,
  object,
  oneOf,
  optional,
  parseBy,
  record,
  type Schema,
  text,
} from '../../src/contract/parsed-schema.ts';
import { checkProperty } from '../harness/properties.ts';

// Drawn schemas, each with values that it mostly accepts.

const { Ajv2020 } = createRequire(import.meta.url)('ajv/dist/2020.js') as { Ajv2020: typeof Ajv };

interface Drawn {
  readonly schema: Schema<unknown>;
  readonly value: fc.Arbitrary<unknown>;
}

const misfit = fc.oneof(
  fc.constantFrom<unknown>(null, [], {}, true, '', 'a', 'yes', -1, 0, 0.5, 2, 3, [1, 2, 3], { a: 1, b: 2, c: 3 }),
  fc.jsonValue({ maxDepth: 2 }),
);
const drawn = (schema: Schema<unknown>, fitting: fc.Arbitrary<unknown>): Drawn => ({
  schema,
  value: fc.oneof({ weight: 12, arbitrary: fitting }, { weight: 1, arbitrary: misfit }),
});

const range = fc
  .tuple(fc.integer({ min: -3, max: 2 }), fc.nat(4))
  .map(([minimum, more]) => ({ minimum, maximum: minimum + more }));
const leaf: fc.Arbitrary<Drawn> = fc.oneof(
  fc.constant(drawn(number(), fc.double({ noNaN: true, noDefaultInfinity: true }))),
  range.map((bounds) => drawn(number(bounds), fc.double({ min: -4, max: 7, noNaN: true }))),
  range.map((bounds) =>
    drawn(
      integer(bounds),
      fc.integer({ min: -8, max: 14 }).map((twice) => twice / 2),
    ),
  ),
  fc.constant(drawn(boolean(), fc.boolean())),
  fc.integer({ min: 1, max: 4 }).map((max) => drawn(text(max), fc.stringMatching(/^[ab]{0,5}$/))),
  fc.constant(drawn(oneOf(['yes', 'no', 'a'], ''), fc.constantFrom('yes', 'no', 'a'))),
  fc.constant(drawn(constant('yes'), fc.constantFrom('yes', 'yes', 'no'))),
);

const fieldNames = ['a', 'b', 'c', 'constructor', 'toString'];
const name = fc.constantFrom(...fieldNames, '__proto__');
const schemas = fc.letrec<{ any: Drawn }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    leaf,
    tie('any').map(({ schema, value }) => drawn(nullable(schema, ''), fc.option(value))),
    fc.tuple(tie('any'), fc.nat(2), fc.nat(3)).map(([{ schema, value }, minItems, more]) => {
      const bounds = { minItems, maxItems: minItems + more };
      return drawn(list(schema, bounds), fc.array(value, { maxLength: minItems + more + 1 }));
    }),
    fc
      .tuple(tie('any'), fc.nat(3))
      .map(([{ schema, value }, max]) =>
        drawn(record(schema, max, {}), fc.dictionary(name, value, { maxKeys: max + 1 })),
      ),
    fc
      .uniqueArray(
        fc.tuple(fc.constantFrom(...fieldNames), tie('any'), fc.constantFrom('required', 'optional', 'default')),
        {
          maxLength: 4,
          selector: ([field]) => field,
        },
      )
      .chain((fields) => {
        const absent = (kind: string, { schema }: Drawn) =>
          kind === 'required'
            ? fc.constant(schema)
            : kind === 'optional'
              ? fc.constant(optional(schema))
              : fc.constant(optional(schema, 'absent' as unknown));
        return fc.tuple(...fields.map(([, one, kind]) => absent(kind, one))).map((built) =>
          drawn(
            object(Object.fromEntries(fields.map(([field], i) => [field, built[i]!]))),
            fc
              .tuple(
                fc.array(name, { maxLength: 1 }),
                ...fields.map(([, one, kind]) =>
                  kind === 'required'
                    ? fc.option(one.value, { freq: 12, nil: undefined })
                    : fc.option(one.value, { nil: undefined }),
                ),
              )
              .map(([extra, ...values]) =>
                Object.fromEntries(
                  [
                    ...(extra as string[]).map((field) => [field, 1]),
                    ...fields.map(([field], i) => [field, values[i]]),
                  ].filter(([, value]) => value !== undefined),
                ),
              ),
          ),
        );
      }),
  ),
})).any;

test('a schema parses exactly the JSON that its JSON Schema accepts, and names a field for all else', () => {
  const ajv = new Ajv2020({ strict: false, ownProperties: true });
  let [accepted, rejected] = [0, 0];
  const cases = schemas.chain(({ schema, value }) => fc.tuple(fc.constant(schema), fc.array(value, { minLength: 20 })));
  checkProperty([cases], 60, ([schema, values]) => {
    const isValid = ajv.compile(schema.json);
    for (const value of values) {
      const json: unknown = JSON.parse(JSON.stringify(value));
      const parsed = parseBy(schema, json, 'at');
      expect('value' in parsed, JSON.stringify([schema.json, json])).toBe(isValid(json));
      if ('value' in parsed) accepted++;
      else {
        rejected++;
        expect(parsed.faults.length).toBeGreaterThan(0);
        for (const { name } of parsed.faults) expect(name).toMatch(/^at/);
      }
    }
  });
  expect(Math.min(accepted, rejected)).toBeGreaterThan(100);
});
