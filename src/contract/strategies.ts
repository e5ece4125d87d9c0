import { type TSchema, Type } from 'typebox';
import { dayMs } from '../base/window.ts';
import { Count, GeneratedAt, nullable, oneOf } from './export.ts';
import { Limit } from './query-parameters.ts';

/*
 * Users' strategies. src/backtest/strategy/strategy.ts defines the language and validates definitions; a test checks that
 * these schemas agree. Rules that the schemas cannot express are in the descriptions.
 */

const windowMsMax = 366 * dayMs;
const noExtraFields = { additionalProperties: false };

/** Schemas of the strategy language. They are named components of the OpenAPI document because conditions are recursive. */
const names = ['StrategyDefinition', 'StrategyRule', 'Condition', 'Measure', 'ParameterValue'] as const;
const refTo = (name: (typeof names)[number]) => Type.Unsafe<object>({ $ref: `#/components/schemas/${name}` });

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
    fees: Type.Optional(
      Type.Object(
        {
          per_contract: Type.Optional(quantity(share, 'Dollars per contract.')),
          of_notional: Type.Optional(quantity(share, 'Share of the amount paid or received.')),
          of_variance: Type.Optional(quantity(share, 'Factor of p (1 - p).')),
        },
        {
          title: 'StrategyFees',
          ...noExtraFields,
          description: 'Fees per contract bought or sold; a settlement is free.',
        },
      ),
    ),
    slippage: Type.Optional(quantity(share, 'Cost of a fill beyond the price of its tick.')),
  },
  { ...noExtraFields, description: 'A strategy as data; no part is executed as code.' },
);

export const strategySchemas: Readonly<Record<(typeof names)[number], TSchema>> = {
  StrategyDefinition: definition,
  StrategyRule: rule,
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

/** Characters forbidden in user-chosen names: line breaks, control characters, and changes of the text direction. */
const forbiddenNameCharacters = '\\p{Cc}\\u2028-\\u202e\\u2066-\\u2069';
export const namePattern = `^[^\\s${forbiddenNameCharacters}]([^${forbiddenNameCharacters}]*[^\\s${forbiddenNameCharacters}])?$`;
export const nameMax = 200;
export const ObjectName = (description: string) =>
  Type.String({ minLength: 1, maxLength: nameMax, pattern: namePattern, description });

const example = {
  name: 'buy the dip',
  definition: {
    parameters: { dip: 0.1 },
    rules: [
      {
        side: 'yes',
        entry: {
          all: [
            { measure: 'return', window_ms: 3_600_000, below: { parameter: 'dip', times: -1 } },
            { measure: 'time_to_close_ms', above: 86_400_000 },
          ],
        },
        exit: { measure: 'price', above: { measure: 'moving_average', window_ms: 3_600_000 } },
        size: { contracts: 10 },
      },
    ],
    fees: { of_variance: 0.07 },
    slippage: 0.01,
  },
};

export const StrategyRequest = Type.Object(
  {
    name: ObjectName('Name of the strategy. If it exists already, a new version is created.'),
    definition: refTo('StrategyDefinition'),
  },
  { title: 'StrategyRequest', ...noExtraFields, examples: [example], description: 'A strategy.' },
);

export const ObjectRequestHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description:
        'Repeating a key with the same body returns the object that the first request created; with another body, the response is 422.',
    }),
  ),
});

export const CreatedHeaders = {
  Location: Type.String({ description: 'URL of the object, relative to this service.' }),
};

export const Strategy = Type.Object(
  {
    id: Type.String({ description: 'ID of this version.' }),
    name: Type.String({ description: 'As requested.' }),
    version: Type.Integer({
      minimum: 1,
      description: 'Number of the version of this name, from 1. A version never changes.',
    }),
    definition: refTo('StrategyDefinition'),
    created_at: Type.Integer({ description: 'When it was created, epoch milliseconds.' }),
  },
  { title: 'Strategy', description: 'A version of a strategy.' },
);
export type Strategy = Type.Static<typeof Strategy>;

/** Maximum number of objects per page. */
export const pageMax = 100;

/** Parameters of every list of a user's objects. */
export const pageQuery = {
  limit: Type.Optional(
    Limit(`Maximum number of objects in the response; larger values are reduced to ${pageMax}.`, 20),
  ),
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'next_cursor of the previous page; the other parameters must stay the same.',
    }),
  ),
};

/** Fields at the end of every list of a user's objects. */
export const pageResponse = {
  count: Count('Number of objects in this response.'),
  next_cursor: nullable(
    Type.String(),
    'Cursor of the next page; null on the last page. It stays valid when objects are created and removed.',
  ),
  generated_at: GeneratedAt,
};

export const StrategiesQuery = Type.Object(
  {
    name: Type.Optional(
      Type.String({ minLength: 1, maxLength: nameMax, description: 'Only the versions of this name.' }),
    ),
    ...pageQuery,
  },
  noExtraFields,
);

export const StrategiesResponse = Type.Object(
  {
    strategies: Type.Array(Strategy, { description: 'Newest first.' }),
    ...pageResponse,
  },
  { title: 'StrategiesResponse' },
);

export const ObjectPath = Type.Object(
  { id: Type.String({ pattern: '^[0-9a-z]{1,40}$', description: 'ID of the object.' }) },
  noExtraFields,
);

/* Users' bots: a version of a strategy, bound to symbols. */

const texts = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), { maxItems: 100, description }));

const modes = ['paper'] as const;
const mode = 'Trading mode. `paper`: no order is ever sent.';
const status = 'Status of the bot.';

export const BotRequest = Type.Object(
  {
    name: ObjectName('Name of the bot; need not be unique.'),
    strategy: Type.Object(
      {
        name: Type.String({ minLength: 1, maxLength: nameMax, description: 'A strategy of this user.' }),
        version: Type.Optional(Type.Integer({ minimum: 1, maximum: 1e9, description: 'The latest if absent.' })),
      },
      {
        title: 'BotStrategyRequest',
        ...noExtraFields,
        description: 'Strategy of the bot, which stays bound to this version.',
      },
    ),
    symbols: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), {
        minItems: 1,
        maxItems: 1000,
        description: 'Symbols to trade, which must be known to the archive. Either symbols or filter is required.',
      }),
    ),
    filter: Type.Optional(
      Type.Object(
        {
          categories: texts('Symbols of these categories; any if empty.'),
          sources: texts('Symbols of these venues; any if empty.'),
        },
        {
          title: 'BotFilter',
          ...noExtraFields,
          description: 'Selects symbols by their last known category and venue. Either filter or symbols is required.',
        },
      ),
    ),
    mode: Type.Optional(Type.Unsafe<'paper'>({ ...oneOf(modes, mode), default: 'paper' })),
  },
  {
    title: 'BotRequest',
    ...noExtraFields,
    examples: [{ name: 'dips', strategy: { name: 'buy the dip' }, filter: { sources: ['kalshi'] }, mode: 'paper' }],
    description: 'A bot.',
  },
);
export type BotRequest = Type.Static<typeof BotRequest>;

export const botStatuses = ['active', 'paused'] as const;
const Status = Type.Unsafe<(typeof botStatuses)[number]>(oneOf(botStatuses, status));

export const BotChange = Type.Object(
  { status: Status },
  { title: 'BotChange', ...noExtraFields, examples: [{ status: 'paused' }], description: 'A change of a bot.' },
);

export const Bot = Type.Object(
  {
    id: Type.String({ description: 'ID of the bot.' }),
    name: Type.String({ description: 'As requested.' }),
    strategy: Type.Object(
      {
        id: Type.String({ description: 'ID of the version that the bot is bound to.' }),
        name: Type.String({ description: 'As requested.' }),
        version: Type.Integer({ minimum: 1, description: 'As requested, or the latest at that time.' }),
      },
      { title: 'BotStrategy' },
    ),
    symbols: nullable(
      Type.Array(Type.String()),
      'As requested, without duplicates; null: every symbol that matches the filter.',
    ),
    filter: nullable(
      Type.Object(
        { categories: Type.Array(Type.String()), sources: Type.Array(Type.String()) },
        { title: 'BotFilterEcho' },
      ),
      'As requested; null if symbols are given.',
    ),
    mode: oneOf(modes, mode),
    status: Status,
    created_at: Type.Integer({ description: 'When it was created, epoch milliseconds.' }),
    updated_at: Type.Integer({ description: 'When its status last changed, epoch milliseconds.' }),
  },
  { title: 'Bot', description: 'A bot.' },
);
export type Bot = Type.Static<typeof Bot>;

export const BotsQuery = Type.Object(pageQuery, noExtraFields);

export const BotsResponse = Type.Object(
  { bots: Type.Array(Bot, { description: 'Newest first.' }), ...pageResponse },
  { title: 'BotsResponse' },
);
