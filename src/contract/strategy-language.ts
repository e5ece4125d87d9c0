import { dayMs } from '../base/window.ts';
import {
  anyOf,
  boolean,
  component,
  constant,
  integer,
  isObject,
  type JsonReader,
  joinPath,
  list,
  nullable,
  number,
  object,
  oneOf,
  optional,
  type Parsed,
  record,
  refine,
  type Schema,
  text,
} from './parsed-schema.ts';

/*
 * The language of strategies: their types, validation and schemas. Times and windows in milliseconds; prices are those of a
 * contract that pays 1 if the market resolves to yes. Rules that a JSON Schema cannot express are in the descriptions.
 */

/** Maximum number of rules, of conditions in total, nesting depth, parameters, and categories per test. */
export const strategyLimits = { rules: 8, conditions: 100, depth: 8, parameters: 20, categories: 100 } as const;

/** Maximum contracts of one order. */
export const contractsMax = 1e9;

/** Maximum window: one year. */
export const windowMsMax = 366 * dayMs;

/** A number, or a parameter multiplied by `times` (default 1). */
export type Quantity = number | Parsed<typeof parameterValue>;

const parameterValue = object(
  {
    parameter: text(40, { description: 'Name of the parameter.' }),
    times: optional(number({ description: 'Factor; 1 by default.' })),
  },
  { description: 'The value of a parameter; it must be in the range of the field.' },
);
const parameterReference = component('ParameterValue', () => parameterValue);

/** The alternatives of a number in a range: the number, or a parameter whose value is in the range. */
function inRange(range: { readonly minimum?: number; readonly maximum?: number }) {
  const numberInRange = number(range);
  const reference = refine(parameterReference, ({ parameter, times = 1 }, at, reader) => {
    if (!Object.hasOwn(reader.parameters, parameter))
      reader.fault(`${at}.parameter`, `${parameter} is not a parameter of the strategy`);
    const value = reader.parameters[parameter];
    if (typeof value === 'number') numberInRange.parse(value * times, at, reader);
    return null;
  });
  const choose = (json: unknown) => (typeof json === 'object' && json !== null ? reference : numberInRange);
  return { alternatives: [numberInRange, reference] as const, choose };
}

function quantity(range: Parameters<typeof inRange>[0], description: string): Schema<Quantity> {
  const { alternatives, choose } = inRange(range);
  return anyOf(alternatives, description, choose);
}

const share = { minimum: 0, maximum: 1 };

const windowedNames = ['return', 'moving_average', 'z_score', 'venue_spread'] as const;
const currentNames = ['price', 'time_to_close_ms', 'confidence', 'held_ms', 'gain'] as const;
export const measureNames = ['price', ...windowedNames, 'time_to_close_ms', 'confidence', 'held_ms', 'gain'] as const;
export type MeasureName = (typeof measureNames)[number];

/** Measures over a window (t - window_ms, t]. */
export const windowedMeasures: ReadonlySet<string> = new Set(windowedNames);

/** Measures of the position, allowed only in exits. */
export const positionMeasures: ReadonlySet<string> = new Set<MeasureName>(['held_ms', 'gain']);

/** A value known at a tick. `window_ms` is required for `windowedMeasures` and not allowed for others. */
export interface Measure {
  readonly measure: MeasureName;
  readonly window_ms?: Quantity;
}

/** Right side of a comparison. */
export type Operand = Quantity | Measure;

export const boundNames = ['above', 'at_least', 'below', 'at_most'] as const;
export type Bound = (typeof boundNames)[number];

/** True if all given bounds hold; false if a measure is unknown. */
export interface NumberTest extends Measure, Readonly<Partial<Record<Bound, Operand>>> {}

const windowed = {
  measure: oneOf(
    windowedNames,
    '`return`: the price divided by the price before the window, minus 1; `moving_average`: the mean price in the window; `z_score`: the distance of the price from that mean, in standard deviations; `venue_spread`: the price minus the mean of the last prices of the same market on other venues, if they are within the window.',
  ),
  window_ms: quantity({ minimum: 1, maximum: windowMsMax }, 'Length of the window before the tick, milliseconds.'),
};
const current = (isExit: boolean) => ({
  measure: refine(
    oneOf(
      currentNames,
      '`price`: price of the tick; `time_to_close_ms`: time until the market closes; `confidence`: confidence of its match across venues. Only in an exit: `held_ms`: time since the entry; `gain`: gain of the position per contract.',
    ),
    (name) => (isExit || !positionMeasures.has(name) ? null : `${name} is allowed only in an exit`),
  ),
});

/** Whether a measure has a window; null for an unknown measure. Reports an unknown measure, and a missing or useless window. */
function readHasWindow(
  { measure, window_ms }: Record<string, unknown>,
  at: string,
  reader: JsonReader,
): boolean | null {
  if (!measureNames.some((name) => name === measure)) {
    reader.fault(joinPath(at, 'measure'), `must be one of ${measureNames.join(', ')}`);
    return null;
  }
  const hasWindow = windowedMeasures.has(measure as string);
  const name = joinPath(at, 'window_ms');
  if (hasWindow && window_ms === undefined) reader.fault(name, `is missing: ${measure} requires a window`);
  if (!hasWindow && window_ms !== undefined) reader.fault(name, `is not allowed for ${measure}`);
  return hasWindow;
}

function createMeasure(isExit: boolean): Schema<Measure> {
  const now = object(current(isExit), { title: 'CurrentMeasure' });
  const overWindow = object(windowed, { title: 'WindowMeasure' });
  return anyOf([now, overWindow], 'A quantity of a symbol that is known at the time of a tick.', (json, at, reader) => {
    const hasWindow = readHasWindow(json as Record<string, unknown>, at, reader);
    return hasWindow === null ? null : hasWindow ? overWindow : now;
  });
}

function createBounds(isExit: boolean) {
  const measure = component('Measure', () => createMeasure(isExit));
  const { alternatives, choose } = inRange({});
  const operand = (description: string) =>
    optional(
      anyOf([...alternatives, measure], description, (json) =>
        isObject(json) && json.measure !== undefined ? measure : choose(json),
      ),
    );
  return {
    above: operand('True if the measure is greater than this.'),
    at_least: operand('True if the measure is greater than or equal to this.'),
    below: operand('True if the measure is less than this.'),
    at_most: operand('True if the measure is less than or equal to this.'),
  };
}

/** An empty `all` is true, an empty `any` is false. */
export type Condition =
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | NumberTest
  | CategoryTest;

/** True if the category is known and in `in`, or not in `not_in`. */
export type CategoryTest = Parsed<typeof categoryTest>;

const categories = (description: string) =>
  optional(list(text(200), { minItems: 1, maxItems: strategyLimits.categories, description }));

const categoryTest = object(
  {
    measure: constant('category'),
    in: categories('The category is one of these.'),
    not_in: categories('The category is not one of these.'),
  },
  { title: 'CategoryCondition', minProperties: 2, maxProperties: 2 },
);

function createCondition(isExit: boolean, depth: number): Schema<Condition> {
  const nested = component('Condition', () => createCondition(isExit, depth + 1));
  const conditions = (description: string) => list(nested, { maxItems: strategyLimits.conditions, description });
  const all = object(
    { all: conditions('True if all of them are true; an empty list is true.') },
    { title: 'AllCondition' },
  );
  const any = object(
    { any: conditions('True if one of them is true; an empty list is false.') },
    { title: 'AnyCondition' },
  );
  const bounds = createBounds(isExit);
  const test = object({ ...current(isExit), ...bounds }, { title: 'MeasureCondition', minProperties: 2 });
  const windowTest = object({ ...windowed, ...bounds }, { title: 'WindowCondition', minProperties: 3 });
  return anyOf(
    [all, any, test, windowTest, categoryTest],
    `True if every given bound holds; false if a value is unknown. Conditions may be nested to a depth of ${strategyLimits.depth}.`,
    (json, at, reader) => {
      if (!isObject(json)) return all;
      const operator = json.all !== undefined ? all : json.any !== undefined ? any : null;
      if (operator !== null && depth < strategyLimits.depth) return operator;
      if (operator !== null) reader.fault(at, `is nested more than ${strategyLimits.depth} levels deep`);
      else if (json.measure === undefined) reader.fault(at, 'must have one of all, any and measure');
      else if (json.measure === 'category') {
        if ((json.in === undefined) === (json.not_in === undefined)) reader.fault(at, 'must have one of in and not_in');
        return categoryTest;
      } else {
        const hasWindow = readHasWindow(json, at, reader);
        if (boundNames.every((bound) => json[bound] === undefined))
          reader.fault(at, `must have one of ${boundNames.join(', ')}`);
        return hasWindow === null ? null : hasWindow ? windowTest : test;
      }
      return null;
    },
  );
}

/** Contracts, or an amount in dollars at the price of the fill. */
const contracts = object(
  { contracts: quantity({ minimum: 1e-6, maximum: contractsMax }, 'Number of contracts.') },
  { title: 'ContractsSize' },
);
const dollars = object(
  { dollars: quantity({ minimum: 1e-6, maximum: contractsMax }, 'Amount in dollars to spend.') },
  { title: 'DollarsSize' },
);

export type Rule = Parsed<typeof rule>;
export type Side = Rule['side'];

const rule = object(
  {
    side: oneOf(
      ['yes', 'no'],
      'Side to buy. A `yes` contract costs p and pays 1 if the market resolves to yes; a `no` contract costs 1 - p and pays 1 if it resolves to no.',
    ),
    entry: component('Condition', () => createCondition(false, 1)),
    exit: optional(
      nullable(
        component('Condition', () => createCondition(true, 1)),
        'If null or absent, the position is held until settlement.',
      ),
      null,
    ),
    size: anyOf([contracts, dollars], 'Size of one entry.', (json, at, reader) => {
      if (!isObject(json)) return contracts;
      if ((json.contracts === undefined) !== (json.dollars === undefined))
        return json.dollars === undefined ? contracts : dollars;
      reader.fault(at, 'must have one of contracts and dollars');
      return null;
    }),
    entries_max: optional(
      nullable(
        quantity({ minimum: 1, maximum: 1e6 }, 'Number of entries.'),
        'Maximum number of entries per symbol; null: unlimited.',
      ),
      null,
    ),
  },
  { description: 'A rule. It holds at most one position per symbol, independently of the other rules.' },
);

/** Fees per contract bought or sold, not rounded; their sum applies. */
export type ContractFees = Parsed<typeof contractFees>;

/**
 * The trading fees of Kalshi for series with a quadratic fee, of each order: `engine/fees.ts` has the formula and its sources.
 * Series with a flat fee are not covered. Most series have no fee for makers.
 */
export type KalshiFees = Parsed<typeof kalshiFees>;

/**
 * The taker fees of Polymarket, of each order: `engine/fees.ts` has the formula and its sources. The rate differs between
 * categories and has changed over time.
 */
export type PolymarketFees = Parsed<typeof polymarketFees>;

export type Fees = ContractFees | KalshiFees | PolymarketFees;

const contractFees = object(
  {
    per_contract: optional(quantity(share, 'Dollars per contract.'), 0),
    of_notional: optional(quantity(share, 'Share of the amount paid or received.'), 0),
    of_variance: optional(quantity(share, 'Factor of p (1 - p).'), 0),
  },
  {
    title: 'ContractFees',
    examples: [{ per_contract: 0.01 }],
    description: 'Fees per contract bought or sold, not rounded; their sum applies.',
  },
);
const kalshiFees = object(
  {
    schedule: constant('kalshi'),
    liquidity: optional(
      oneOf(
        ['taker', 'maker'],
        'The rate: 0.07 for `taker` (the default), 0.0175 for `maker`, times contracts × price × (1 - price).',
      ),
      'taker',
    ),
    multiplier: optional(
      quantity({ minimum: 0, maximum: 10 }, "Factor of the series, `fee_multiplier` in Kalshi's list; 1 by default."),
      1,
    ),
    rounding: optional(
      oneOf(
        ['cent', 'centicent'],
        'The balance changes by whole cents (the default), or by 0.0001 dollars as for direct members.',
      ),
      'cent',
    ),
  },
  {
    title: 'KalshiFees',
    examples: [{ schedule: 'kalshi', liquidity: 'taker' }],
    description: 'Trading fees of Kalshi, of each order, rounded up.',
  },
);
const polymarketFees = object(
  {
    schedule: constant('polymarket'),
    rate: quantity(share, 'The rate of the market, `feeSchedule.rate` of Polymarket.'),
    exponent: optional(
      integer({
        minimum: 1,
        maximum: 4,
        description: 'Exponent of p (1 - p), `feeSchedule.exponent` of Polymarket; 1 by default.',
      }),
      1,
    ),
  },
  {
    title: 'PolymarketFees',
    examples: [{ schedule: 'polymarket', rate: 0.05 }],
    description: 'Taker fees of Polymarket, of each order, rounded down to 0.00001 dollars.',
  },
);

const fees = anyOf(
  [contractFees, kalshiFees, polymarketFees],
  'Fees of what is bought or sold: per contract, or the fee schedule of a venue. A settlement is free.',
  (json, at, reader) => {
    const schedule = isObject(json) ? json.schedule : undefined;
    if (schedule === undefined) return contractFees;
    if (schedule === 'kalshi') return kalshiFees;
    if (schedule === 'polymarket') return polymarketFees;
    reader.fault(`${at}.schedule`, 'must be one of kalshi, polymarket');
    return null;
  },
);
export const strategyFees = component<Fees>('StrategyFees', () => fees);

/** A strategy as data. It contains no code to execute. Each rule holds at most one position per symbol. */
export type Strategy = Parsed<typeof definition>;

/** Names of parameters, which are also used in command line flags and as keys of objects. */
const parameterName = '^[a-z][a-z0-9_]{0,39}$';
const parameterNamePattern = new RegExp(parameterName);

const definition = object(
  {
    parameters: optional(
      record(
        number(),
        strategyLimits.parameters,
        {
          propertyNames: { pattern: parameterName },
          description: 'Parameters of the strategy with their default values.',
        },
        (name) =>
          parameterNamePattern.test(name)
            ? null
            : 'must be a name of at most 40 characters a-z, 0-9 and _, starting with a letter',
      ),
      {},
    ),
    rules: refine(
      list(
        component('StrategyRule', () => rule),
        {
          minItems: 1,
          maxItems: strategyLimits.rules,
          description: `The rules; at most ${strategyLimits.conditions} conditions in total.`,
        },
      ),
      (rules) => {
        const count = rules.reduce(
          (sum, { entry, exit }) => sum + countConditions(entry) + (exit === null ? 0 : countConditions(exit)),
          0,
        );
        return count <= strategyLimits.conditions
          ? null
          : `has ${count} conditions, more than ${strategyLimits.conditions}`;
      },
    ),
    fees: optional(strategyFees, { per_contract: 0, of_notional: 0, of_variance: 0 }),
    slippage: optional(quantity(share, 'Cost of a fill beyond the price of its tick.'), 0),
    whole_contracts: optional(
      nullable(
        boolean(),
        'Whether orders are rounded down to whole contracts, and not placed below one contract. Null or absent: true with the fee schedule `kalshi`, otherwise false.',
      ),
      null,
    ),
  },
  { description: 'A strategy as data; no part is executed as code.' },
);

function countConditions(of: Condition): number {
  const nested = 'all' in of ? of.all : 'any' in of ? of.any : [];
  return nested.reduce((sum, one) => sum + countConditions(one), 1);
}

/** A strategy; its quantities can refer to its own parameters. */
export const strategyDefinition: Schema<Strategy> = {
  json: { $ref: '#/components/schemas/StrategyDefinition' },
  parse(json, at, reader) {
    const outer = reader.parameters;
    reader.parameters = isObject(json) && isObject(json.parameters) ? json.parameters : {};
    const strategy = definition.parse(json, at, reader);
    reader.parameters = outer;
    return strategy;
  },
};

/** Components of the OpenAPI document: they have names because conditions are recursive. */
export const strategySchemas: Readonly<Record<string, object>> = {
  StrategyDefinition: definition.json,
  StrategyRule: rule.json,
  StrategyFees: fees.json,
  Condition: createCondition(true, 1).json,
  Measure: createMeasure(true).json,
  ParameterValue: parameterValue.json,
};
