import fc from 'fast-check';
import {
  boundNames,
  measureNames,
  positionMeasures,
  windowedMeasures,
  windowMsMax,
} from '../../src/backtest/strategy/strategy.ts';

// Strategies as JSON: good ones, made by the rules of the language, and such with something changed.

const parameters = { low: 0.25, high: 0.75, hours: 6, many: 40 } as const;

interface Range {
  readonly min: number;
  readonly max: number;
}
const any: Range = { min: -1e6, max: 1e6 };
const share: Range = { min: 0, max: 1 };

/** A number in a range, or a parameter that is in it. */
const quantity = ({ min, max }: Range): fc.Arbitrary<unknown> => {
  const fitting = Object.entries(parameters).filter(([, value]) => value >= min && value <= max);
  return fc.oneof(
    fc.double({ min, max, noNaN: true }),
    fc.constantFrom(min, max),
    fc
      .constantFrom(...fitting)
      .chain(([parameter, value]) =>
        fc.constantFrom(
          { parameter },
          ...[1, 0.5, 2, -1]
            .filter((times) => value * times >= min && value * times <= max)
            .map((times) => ({ parameter, times })),
        ),
      ),
  );
};

/** A measure that may stand where there is a position, or none. */
const measure = (held: boolean): fc.Arbitrary<Record<string, unknown>> =>
  fc
    .constantFrom(...measureNames.filter((name) => held || !positionMeasures.has(name)))
    .chain((name) =>
      windowedMeasures.has(name)
        ? quantity({ min: 1, max: windowMsMax }).map((window_ms) => ({ measure: name, window_ms }))
        : fc.constant({ measure: name }),
    );

const numberTest = (held: boolean): fc.Arbitrary<unknown> => {
  const operand = fc.oneof(quantity(any), measure(held));
  const bounding = fc.uniqueArray(fc.tuple(fc.constantFrom(...boundNames), operand), {
    minLength: 1,
    maxLength: 4,
    selector: ([bound]: [string, unknown]) => bound,
  });
  return fc.tuple(measure(held), bounding).map(([read, bounded]) => ({ ...read, ...Object.fromEntries(bounded) }));
};

const word = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' });
const categoryTest = fc
  .tuple(fc.constantFrom('in', 'not_in'), fc.array(word, { minLength: 1, maxLength: 4 }))
  .map(([how, names]) => ({ measure: 'category', [how]: names }));

/** At a depth of 1 conditions of any kind, at 5 no lists of others. */
function condition(held: boolean, depth = 1): fc.Arbitrary<unknown> {
  const leaf = fc.oneof({ weight: 3, arbitrary: numberTest(held) }, { weight: 1, arbitrary: categoryTest });
  if (depth >= 5) return leaf;
  const several = fc.array(condition(held, depth + 1), { maxLength: 3 });
  return fc.oneof(
    { weight: 3, arbitrary: leaf },
    { weight: 1, arbitrary: several.map((all) => ({ all })) },
    { weight: 1, arbitrary: several.map((some) => ({ any: some })) },
  );
}

const size = fc
  .tuple(fc.constantFrom('contracts', 'dollars'), quantity({ min: 1e-6, max: 1e9 }))
  .map(([how, amount]) => ({ [how]: amount }));

const rule = fc.record(
  {
    side: fc.constantFrom('yes', 'no'),
    entry: condition(false),
    exit: fc.option(condition(true)),
    size,
    entries_max: fc.option(quantity({ min: 1, max: 1e6 })),
  },
  { requiredKeys: ['side', 'entry', 'size'] },
);

/** A strategy that is right. */
export const goodStrategy: fc.Arbitrary<unknown> = fc
  .record(
    {
      rules: fc.array(rule, { minLength: 1, maxLength: 8 }),
      fees: fc.record(
        { per_contract: quantity(share), of_notional: quantity(share), of_variance: quantity(share) },
        { requiredKeys: [] },
      ),
      slippage: quantity(share),
    },
    { requiredKeys: ['rules'] },
  )
  .map((given) => ({ parameters, ...given }));

type Step = string | number;

/** The way to every value in it, the whole first. */
function waysIn(value: unknown, way: readonly Step[] = []): (readonly Step[])[] {
  if (typeof value !== 'object' || value === null) return [way];
  const inner = Array.isArray(value) ? value.map((one, i) => [i, one] as const) : Object.entries(value);
  return [way, ...inner.flatMap(([name, one]) => waysIn(one, [...way, name]))];
}

/** What may stand in the place of something else: near misses, parts of the language, and rubbish. */
const misfit = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    '',
    'yes',
    'price',
    'return',
    'gain',
    'category',
    [],
    {},
    -1,
    0,
    1,
    2,
    0.5,
    1e-7,
    1e10,
    windowMsMax + 1,
    { parameter: 'low' },
    { parameter: 'none' },
    { parameter: 'low', times: 10 },
    { parameter: 1 },
    { all: [] },
    { measure: 'price', above: 0 },
    { measure: 'price' },
    { measure: 'return', above: 0 },
    { measure: 'z_score', window_ms: 5 },
    { measure: 'price', window_ms: 5, above: 0 },
    { contracts: 1, dollars: 1 },
  ),
  measure(true),
  condition(true, 4),
  fc.jsonValue({ maxDepth: 2 }),
);

const names = [
  'parameters',
  'rules',
  'fees',
  'slippage',
  'side',
  'entry',
  'exit',
  'size',
  'entries_max',
  'all',
  'any',
  'in',
  'measure',
  'window_ms',
  ...boundNames,
  'not_in',
  'parameter',
  'times',
  'contracts',
  'dollars',
  'low',
  'Low',
  'stray',
] as const;

/** A good one in which one thing is another, is gone, or is too much. */
export const changedStrategy: fc.Arbitrary<unknown> = fc
  .tuple(
    goodStrategy,
    fc.nat(),
    fc.constantFrom('replace', 'remove', 'add', 'repeat'),
    misfit,
    fc.constantFrom(...names),
  )
  .map(([good, at, how, other, name]) => {
    const json = JSON.parse(JSON.stringify(good)) as unknown;
    const ways = waysIn(json);
    const way = ways[at % ways.length]!;
    const parent = way.slice(0, -1).reduce<unknown>((value, step) => (value as Record<Step, unknown>)[step], json);
    const last = way.at(-1);
    if (last === undefined) return how === 'replace' ? other : { ...(json as object), [name]: other };
    const place = parent as Record<Step, unknown>;
    const value = place[last];
    if (how === 'replace') place[last] = other;
    else if (how === 'remove' && !Array.isArray(parent)) delete place[last];
    else if (how === 'add' && typeof value === 'object' && value !== null && !Array.isArray(value))
      (value as Record<string, unknown>)[name] = other;
    else if (Array.isArray(value)) place[last] = Array.from({ length: 101 }, () => value[0] ?? other);
    return json;
  });
