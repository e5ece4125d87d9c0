import { type TSchema, Type } from 'typebox';
import { dayMs } from '../base/window.ts';
import { nullable, oneOf } from './export-manifest.ts';

/*
 * The language of strategies. src/backtest/strategy/strategy.ts defines it and parse-strategy.ts validates definitions; a test
 * checks that these schemas agree. Rules that the schemas cannot express are in the descriptions.
 */

const windowMsMax = 366 * dayMs;
export const noExtraFields = { additionalProperties: false };

/** Schemas of the strategy language. They are named components of the OpenAPI document because conditions are recursive. */
const names = ['StrategyDefinition', 'StrategyRule', 'StrategyFees', 'Condition', 'Measure', 'ParameterValue'] as const;
export const refTo = (name: (typeof names)[number]) => Type.Unsafe<object>({ $ref: `#/components/schemas/${name}` });

/** A number in a range, or a reference to a parameter. */
const quantity = (range: { readonly minimum?: number; readonly maximum?: number }, description: string) =>
  Type.Union([Type.Number(range), refTo('ParameterValue')], { description });
const share = { minimum: 0, maximum: 1 };

const lookBackMeasure = oneOf(
  ['return', 'moving_average', 'z_score', 'venue_spread'],
  '`return`: the price divided by the price before the window, minus 1; `moving_average`: the mean price in the window; `z_score`: the distance of the price from that mean, in standard deviations; `venue_spread`: the price minus the mean of the last prices of the same market on other venues, if they are within the window.',
);
const currentMeasure = oneOf(
  ['price', 'time_to_close_ms', 'confidence', 'held_ms', 'gain'],
  '`price`: price of the tick; `time_to_close_ms`: time until the market closes; `confidence`: confidence of its match across venues. Only in an exit: `held_ms`: time since the entry; `gain`: gain of the position per contract.',
);
const window = quantity({ minimum: 1, maximum: windowMsMax }, 'Length of the window before the tick, milliseconds.');

const operand = (description: string) =>
  Type.Optional(Type.Union([Type.Number(), refTo('ParameterValue'), refTo('Measure')], { description }));
const bounds = {
  above: operand('True if the measure is greater than this.'),
  at_least: operand('True if the measure is greater than or equal to this.'),
  below: operand('True if the measure is less than this.'),
  at_most: operand('True if the measure is less than or equal to this.'),
};

const categories = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { minItems: 1, maxItems: 100, description }));
const conditions = (description: string) => Type.Array(refTo('Condition'), { maxItems: 100, description });

const rule = Type.Object(
  {
    side: oneOf(
      ['yes', 'no'],
      'Side to buy. A `yes` contract costs p and pays 1 if the market resolves to yes; a `no` contract costs 1 - p and pays 1 if it resolves to no.',
    ),
    entry: refTo('Condition'),
    exit: Type.Optional(nullable(refTo('Condition'), 'If null or absent, the position is held until settlement.')),
    size: Type.Union(
      [
        Type.Object(
          { contracts: quantity({ minimum: 1e-6, maximum: 1e9 }, 'Number of contracts.') },
          { ...noExtraFields, title: 'ContractsSize' },
        ),
        Type.Object(
          { dollars: quantity({ minimum: 1e-6, maximum: 1e9 }, 'Amount in dollars to spend.') },
          { ...noExtraFields, title: 'DollarsSize' },
        ),
      ],
      { description: 'Size of one entry.' },
    ),
    entries_max: Type.Optional(
      nullable(
        quantity({ minimum: 1, maximum: 1e6 }, 'Number of entries.'),
        'Maximum number of entries per symbol; null: unlimited.',
      ),
    ),
  },
  {
    ...noExtraFields,
    description: 'A rule. It holds at most one position per symbol, independently of the other rules.',
  },
);

const fees = Type.Union(
  [
    Type.Object(
      {
        per_contract: Type.Optional(quantity(share, 'Dollars per contract.')),
        of_notional: Type.Optional(quantity(share, 'Share of the amount paid or received.')),
        of_variance: Type.Optional(quantity(share, 'Factor of p (1 - p).')),
      },
      {
        ...noExtraFields,
        title: 'ContractFees',
        examples: [{ per_contract: 0.01 }],
        description: 'Fees per contract bought or sold, not rounded; their sum applies.',
      },
    ),
    Type.Object(
      {
        schedule: Type.Literal('kalshi'),
        liquidity: Type.Optional(
          oneOf(
            ['taker', 'maker'],
            'The rate: 0.07 for `taker` (the default), 0.0175 for `maker`, times contracts × price × (1 - price).',
          ),
        ),
        multiplier: Type.Optional(
          quantity(
            { minimum: 0, maximum: 10 },
            "Factor of the series, `fee_multiplier` in Kalshi's list; 1 by default.",
          ),
        ),
        rounding: Type.Optional(
          oneOf(
            ['cent', 'centicent'],
            'The balance changes by whole cents (the default), or by 0.0001 dollars as for direct members.',
          ),
        ),
      },
      {
        ...noExtraFields,
        title: 'KalshiFees',
        examples: [{ schedule: 'kalshi', liquidity: 'taker' }],
        description: 'Trading fees of Kalshi, of each order, rounded up.',
      },
    ),
    Type.Object(
      {
        schedule: Type.Literal('polymarket'),
        rate: quantity(share, 'The rate of the market, `feeSchedule.rate` of Polymarket.'),
        exponent: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: 4,
            description: 'Exponent of p (1 - p), `feeSchedule.exponent` of Polymarket; 1 by default.',
          }),
        ),
      },
      {
        ...noExtraFields,
        title: 'PolymarketFees',
        examples: [{ schedule: 'polymarket', rate: 0.05 }],
        description: 'Taker fees of Polymarket, of each order, rounded down to 0.00001 dollars.',
      },
    ),
  ],
  {
    description: 'Fees of what is bought or sold: per contract, or the fee schedule of a venue. A settlement is free.',
  },
);

const definition = Type.Object(
  {
    parameters: Type.Optional(
      Type.Unsafe<object>({
        type: 'object',
        maxProperties: 20,
        additionalProperties: { type: 'number' },
        propertyNames: { pattern: '^[a-z][a-z0-9_]{0,39}$' },
        description: 'Parameters of the strategy with their default values.',
      }),
    ),
    rules: Type.Array(refTo('StrategyRule'), {
      minItems: 1,
      maxItems: 8,
      description: 'The rules; at most 100 conditions in total.',
    }),
    fees: Type.Optional(refTo('StrategyFees')),
    slippage: Type.Optional(quantity(share, 'Cost of a fill beyond the price of its tick.')),
    whole_contracts: Type.Optional(
      nullable(
        Type.Boolean(),
        'Whether orders are rounded down to whole contracts, and not placed below one contract. Null or absent: true with the fee schedule `kalshi`, otherwise false.',
      ),
    ),
  },
  { ...noExtraFields, description: 'A strategy as data; no part is executed as code.' },
);

export const strategySchemas: Readonly<Record<(typeof names)[number], TSchema>> = {
  StrategyDefinition: definition,
  StrategyRule: rule,
  StrategyFees: fees,
  Condition: Type.Union(
    [
      Type.Object(
        { all: conditions('True if all of them are true; an empty list is true.') },
        { ...noExtraFields, title: 'AllCondition' },
      ),
      Type.Object(
        { any: conditions('True if one of them is true; an empty list is false.') },
        { ...noExtraFields, title: 'AnyCondition' },
      ),
      Type.Object(
        { measure: currentMeasure, ...bounds },
        { title: 'MeasureCondition', ...noExtraFields, minProperties: 2 },
      ),
      Type.Object(
        { measure: lookBackMeasure, window_ms: window, ...bounds },
        { title: 'WindowCondition', ...noExtraFields, minProperties: 3 },
      ),
      Type.Object(
        {
          measure: Type.Literal('category'),
          in: categories('The category is one of these.'),
          not_in: categories('The category is not one of these.'),
        },
        { title: 'CategoryCondition', ...noExtraFields, minProperties: 2, maxProperties: 2 },
      ),
    ],
    {
      description:
        'True if every given bound holds; false if a value is unknown. Conditions may be nested to a depth of 8.',
    },
  ),
  Measure: Type.Union(
    [
      Type.Object({ measure: currentMeasure }, { ...noExtraFields, title: 'CurrentMeasure' }),
      Type.Object({ measure: lookBackMeasure, window_ms: window }, { ...noExtraFields, title: 'WindowMeasure' }),
    ],
    { description: 'A quantity of a symbol that is known at the time of a tick.' },
  ),
  ParameterValue: Type.Object(
    {
      parameter: Type.String({ minLength: 1, maxLength: 40, description: 'Name of the parameter.' }),
      times: Type.Optional(Type.Number({ description: 'Factor; 1 by default.' })),
    },
    { ...noExtraFields, description: 'The value of a parameter; it must be in the range of the field.' },
  ),
};
