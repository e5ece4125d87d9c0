import fc from 'fast-check';
import {
  boundNames,
  type MeasureName,
  measureNames,
  positionMeasures,
  windowedMeasures,
} from '../../src/contract/strategy-language.ts';

// Random valid strategies, as JSON.

const parameters = { low: 0.3, high: 0.7, window: 300_000, far: 1.4 };

const few = <T>(...values: readonly T[]) => fc.constantFrom(...values);

/** Bounds in the usual range of each measure. No mean or ratio of prices equals them by chance. */
const between = (min: number, max: number) => fc.double({ min, max, noNaN: true });
const amounts: Readonly<Record<MeasureName, fc.Arbitrary<number>>> = {
  price: between(0.1, 0.9),
  return: between(-0.6, 0.6),
  moving_average: between(0.3, 0.7),
  z_score: between(-1.3, 1.3),
  venue_spread: between(-0.5, 0.5),
  time_to_close_ms: fc.integer({ min: -600_000, max: 3_600_000 }),
  confidence: between(0, 1),
  held_ms: fc.integer({ min: 0, max: 600_000 }),
  gain: between(-0.3, 0.3),
};
const named = few<object>({ parameter: 'low' }, { parameter: 'high' }, { parameter: 'far', times: -1 });
const windowMs = fc.oneof(fc.integer({ min: 1, max: 20 * 60_000 }), few<object>({ parameter: 'window' }));

const measure = (isExit: boolean) =>
  fc
    .record({ name: few(...measureNames.filter((name) => isExit || !positionMeasures.has(name))), windowMs })
    .map(({ name, windowMs }) => ({ measure: name, ...(windowedMeasures.has(name) && { window_ms: windowMs }) }));

/** Avoids comparisons of values that are equal up to rounding, such as scores of two prices or equal windows. */
const isFine = (...pair: readonly { measure: MeasureName }[]): boolean =>
  pair.every(({ measure }) => measure !== 'z_score') && !pair.every(({ measure }) => measure === 'moving_average');

const test = (isExit: boolean) =>
  measure(isExit).chain((one) => {
    const operand =
      one.measure === 'z_score'
        ? amounts.z_score
        : fc.oneof(
            { weight: 6, arbitrary: amounts[one.measure] as fc.Arbitrary<unknown> },
            { weight: 1, arbitrary: named },
            { weight: 2, arbitrary: measure(isExit).filter((other) => isFine(one, other)) },
          );
    return fc
      .uniqueArray(few(...boundNames), { minLength: 1, maxLength: 2 })
      .chain((chosen) =>
        fc
          .tuple(...chosen.map(() => operand))
          .map((operands) => ({ ...one, ...Object.fromEntries(chosen.map((bound, i) => [bound, operands[i]])) })),
      );
  });

const categories = fc.uniqueArray(few('sports', 'crypto', 'law'), { minLength: 1, maxLength: 2 });
const category = fc.oneof(
  categories.map((names) => ({ measure: 'category', in: names })),
  categories.map((names) => ({ measure: 'category', not_in: names })),
);

const condition = (isExit: boolean) =>
  fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 3 },
      { weight: 8, arbitrary: test(isExit) },
      { weight: 1, arbitrary: category },
      { weight: 1, arbitrary: fc.constant({ all: [] }) },
      { weight: 2, arbitrary: fc.array(tie('any'), { maxLength: 3 }).map((all) => ({ all })) },
      { weight: 2, arbitrary: fc.array(tie('any'), { maxLength: 3 }).map((any) => ({ any })) },
    ),
  })).any;

const rule = fc.record(
  {
    side: few('yes', 'no'),
    entry: condition(false),
    exit: fc.option(condition(true), { freq: 4 }),
    size: fc.oneof(
      fc.double({ min: 0.1, max: 30, noNaN: true }).map((contracts) => ({ contracts })),
      fc.double({ min: 0.1, max: 30, noNaN: true }).map((dollars) => ({ dollars })),
    ),
    entries_max: fc.option(fc.integer({ min: 1, max: 5 })),
  },
  { requiredKeys: ['side', 'entry', 'size'] },
);

const cost = fc.oneof(fc.constant(0), fc.double({ min: 0, max: 0.1, noNaN: true }));

const contractFees = fc.record({ per_contract: cost, of_notional: cost, of_variance: cost }, { requiredKeys: [] });
const feeSchedule = fc.oneof(
  fc.record(
    {
      schedule: fc.constant('kalshi'),
      liquidity: few('taker', 'maker'),
      multiplier: few(0, 0.5, 1, 2),
      rounding: few('cent', 'centicent'),
    },
    { requiredKeys: ['schedule'] },
  ),
  fc.record(
    { schedule: fc.constant('polymarket'), rate: few(0, 0.04, 0.07), exponent: few(1, 2) },
    { requiredKeys: ['schedule', 'rate'] },
  ),
);

export const strategyJson = fc.record(
  {
    parameters: fc.constant(parameters),
    rules: fc.array(rule, { minLength: 1, maxLength: 3 }),
    fees: fc.oneof<fc.Arbitrary<object>[]>(contractFees, feeSchedule),
    slippage: cost,
    whole_contracts: few(true, false, null),
  },
  { requiredKeys: ['parameters', 'rules'] },
);
