import { type TSchema, Type } from 'typebox';
import { Count, GeneratedAt, nullable, oneOf } from './export.ts';

/*
 * Users' strategies. The language is that of src/backtest/strategy/strategy.ts, whose reader judges what is accepted; a test holds
 * these schemas to it. What they cannot say is said in their descriptions.
 */

const windowMsMax = 366 * 86_400_000;
const closed = { additionalProperties: false };

/** Schemas of the language, which stand in the document under these names, as conditions hold conditions. */
const names = ['StrategyDefinition', 'StrategyRule', 'Condition', 'Measure', 'ParameterValue'] as const;
const named = (name: (typeof names)[number]) => Type.Unsafe<object>({ $ref: `#/components/schemas/${name}` });

/** A number in a range, or a parameter that has one in it. */
const quantity = (range: { readonly minimum?: number; readonly maximum?: number }, description: string) =>
  Type.Union([Type.Number(range), named('ParameterValue')], { description });
const share = { minimum: 0, maximum: 1 };

const lookBack = oneOf(
  ['return', 'moving_average', 'z_score', 'venue_spread'],
  '`return`: the price now over the price before the window, less 1; `moving_average`: the mean price of the window; `z_score`: how many standard deviations of the window the price is off that mean; `venue_spread`: the price less the mean of the last prices of the same market on other venues, as far as they are in the window.',
);
const ofNow = oneOf(
  ['price', 'time_to_close_ms', 'confidence', 'held_ms', 'gain'],
  '`price`: of the tick; `time_to_close_ms`: until the market closes; `confidence`: of its match across venues; in an exit only: `held_ms`: since the entry, `gain`: of the position, a contract.',
);
const window = quantity({ minimum: 1, maximum: windowMsMax }, 'How far it looks back, milliseconds.');

const operand = (description: string) =>
  Type.Optional(Type.Union([Type.Number(), named('ParameterValue'), named('Measure')], { description }));
const bounds = {
  above: operand('It holds above this.'),
  at_least: operand('It holds from this on.'),
  below: operand('It holds below this.'),
  at_most: operand('It holds up to this.'),
};

const categories = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { minItems: 1, maxItems: 100, description }));
const conditions = (description: string) => Type.Array(named('Condition'), { maxItems: 100, description });

const rule = Type.Object(
  {
    side: oneOf(['yes', 'no'], 'What it buys: contracts that pay 1 at yes, or such that pay 1 at no and cost 1 - p.'),
    entry: named('Condition'),
    exit: Type.Optional(nullable(named('Condition'), 'Without one it holds until the market is settled.')),
    size: Type.Union(
      [
        Type.Object({ contracts: quantity({ minimum: 1e-6, maximum: 1e9 }, 'So many contracts.') }, closed),
        Type.Object({ dollars: quantity({ minimum: 1e-6, maximum: 1e9 }, 'As many as so much buys.') }, closed),
      ],
      { description: 'How much one entry buys.' },
    ),
    entries_max: Type.Optional(
      nullable(quantity({ minimum: 1, maximum: 1e6 }, 'Times.'), 'Times that it may enter a symbol; null: any.'),
    ),
  },
  { ...closed, description: 'Holds one position a symbol at a time, whatever other rules do.' },
);

const definition = Type.Object(
  {
    parameters: Type.Optional(
      Type.Unsafe<object>({
        type: 'object',
        maxProperties: 20,
        additionalProperties: { type: 'number' },
        propertyNames: { pattern: '^[a-z][a-z0-9_]{0,39}$' },
        description: 'What its numbers may name, with the value that holds where a run gives none.',
      }),
    ),
    rules: Type.Array(named('StrategyRule'), {
      minItems: 1,
      maxItems: 8,
      description: 'Together 100 conditions at most.',
    }),
    fees: Type.Optional(
      Type.Object(
        {
          per_contract: Type.Optional(quantity(share, 'Dollars a contract.')),
          of_notional: Type.Optional(quantity(share, 'A share of what is paid or got.')),
          of_variance: Type.Optional(quantity(share, 'A share of p (1 - p).')),
        },
        { ...closed, description: 'Of every contract that is bought or sold; a settlement is free.' },
      ),
    ),
    slippage: Type.Optional(quantity(share, 'What a fill at a tick costs beyond its price.')),
  },
  { ...closed, description: 'A strategy as data. Nothing in it is run as code.' },
);

export const strategySchemas: Readonly<Record<(typeof names)[number], TSchema>> = {
  StrategyDefinition: definition,
  StrategyRule: rule,
  Condition: Type.Union(
    [
      Type.Object({ all: conditions('Holds where all of them do; none: always.') }, closed),
      Type.Object({ any: conditions('Holds where one of them does; none: never.') }, closed),
      Type.Object({ measure: ofNow, ...bounds }, { ...closed, minProperties: 2 }),
      Type.Object({ measure: lookBack, window_ms: window, ...bounds }, { ...closed, minProperties: 3 }),
      Type.Object(
        { measure: Type.Literal('category'), in: categories('One of these.'), not_in: categories('None of these.') },
        { ...closed, minProperties: 2, maxProperties: 2 },
      ),
    ],
    {
      description:
        'Holds where every bound that is named does; never where something is not known. Conditions stand in each other to a depth of 8.',
    },
  ),
  Measure: Type.Union(
    [Type.Object({ measure: ofNow }, closed), Type.Object({ measure: lookBack, window_ms: window }, closed)],
    { description: 'What can be known of a symbol at the moment of a tick.' },
  ),
  ParameterValue: Type.Object(
    {
      parameter: Type.String({ minLength: 1, maxLength: 40, description: 'One of the parameters.' }),
      times: Type.Optional(Type.Number({ description: 'So many times its value; 1 by default.' })),
    },
    { ...closed, description: 'The value of a parameter, which has to fit where it is used.' },
  ),
};

/** What everything that a user names is called: on one line, and written in one direction. */
const odd = '\\p{Cc}\\u2028-\\u202e\\u2066-\\u2069';
export const namePattern = `^[^\\s${odd}]([^${odd}]*[^\\s${odd}])?$`;
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
    name: ObjectName('A name of which there are strategies already gets its next version.'),
    definition: named('StrategyDefinition'),
  },
  { ...closed, examples: [example], description: 'A strategy.' },
);

export const ObjectRequestHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'Sent again with the same body, what it made is answered; with another one, 422.',
    }),
  ),
});

export const CreatedHeaders = { Location: Type.String({ description: 'Its address, relative to this service.' }) };

export const Strategy = Type.Object(
  {
    id: Type.String({ description: 'Names this version.' }),
    name: Type.String({ description: 'As asked.' }),
    version: Type.Integer({ minimum: 1, description: 'Counts the versions of the name. A version never changes.' }),
    definition: named('StrategyDefinition'),
    created_at: Type.Integer({ description: 'When it was made, epoch milliseconds.' }),
  },
  { description: 'A version of a strategy.' },
);
export type Strategy = Type.Static<typeof Strategy>;

/** Objects of one page, at most. */
export const pageMax = 100;

/** Parameters of every list of a user's objects. */
export const pageQuery = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, default: 20, description: `Most of the answer; above ${pageMax} it is cut to that.` }),
  ),
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'next_cursor of the page before, with the other parameters as they were.',
    }),
  ),
};

/** What every list of a user's objects ends with. */
export const pageResponse = {
  count: Count('Number of those in this answer.'),
  next_cursor: nullable(
    Type.String(),
    'For the next page; null on the last one. It stays good whatever is made and removed.',
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
  closed,
);

export const StrategiesResponse = Type.Object({
  strategies: Type.Array(Strategy, { description: 'Newest first.' }),
  ...pageResponse,
});

export const ObjectPath = Type.Object(
  { id: Type.String({ pattern: '^[0-9a-z]{1,40}$', description: 'What names it.' }) },
  closed,
);

/* Users' bots: a version of a strategy, bound to symbols. */

const texts = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), { maxItems: 100, description }));

const modes = ['paper'] as const;
const mode = 'How it trades. `paper`: no order is ever sent.';
const status = '`active`, or `paused`.';

export const BotRequest = Type.Object(
  {
    name: ObjectName('What it is called; several may have one name.'),
    strategy: Type.Object(
      {
        name: Type.String({ minLength: 1, maxLength: nameMax, description: 'A strategy of this user.' }),
        version: Type.Optional(
          Type.Integer({ minimum: 1, maximum: 1e9, description: 'The latest there is, where none is named.' }),
        ),
      },
      { ...closed, description: 'What it does. It stays bound to this version.' },
    ),
    symbols: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), {
        minItems: 1,
        maxItems: 1000,
        description: 'Where, each of them known to the archive: this, or a filter.',
      }),
    ),
    filter: Type.Optional(
      Type.Object(
        {
          categories: texts('Of one of these categories; none: any.'),
          sources: texts('Of one of these venues; none: any.'),
        },
        { ...closed, description: 'Where, by what is last known of a symbol: this, or symbols.' },
      ),
    ),
    mode: Type.Optional(Type.Unsafe<'paper'>({ ...oneOf(modes, mode), default: 'paper' })),
  },
  {
    ...closed,
    examples: [{ name: 'dips', strategy: { name: 'buy the dip' }, filter: { sources: ['kalshi'] }, mode: 'paper' }],
    description: 'A bot.',
  },
);
export type BotRequest = Type.Static<typeof BotRequest>;

export const botStatuses = ['active', 'paused'] as const;
const Status = Type.Unsafe<(typeof botStatuses)[number]>(oneOf(botStatuses, status));

export const BotChange = Type.Object(
  { status: Status },
  { ...closed, examples: [{ status: 'paused' }], description: 'What is to change of a bot.' },
);

export const Bot = Type.Object(
  {
    id: Type.String({ description: 'Names it.' }),
    name: Type.String({ description: 'As asked.' }),
    strategy: Type.Object({
      id: Type.String({ description: 'Names the version that it is bound to.' }),
      name: Type.String({ description: 'As asked.' }),
      version: Type.Integer({ minimum: 1, description: 'As asked, or the latest at that time.' }),
    }),
    symbols: nullable(Type.Array(Type.String()), 'As asked, each once; null: those of the filter.'),
    filter: nullable(
      Type.Object({ categories: Type.Array(Type.String()), sources: Type.Array(Type.String()) }),
      'As asked; null: it has symbols.',
    ),
    mode: oneOf(modes, mode),
    status: Status,
    created_at: Type.Integer({ description: 'When it was made, epoch milliseconds.' }),
    updated_at: Type.Integer({ description: 'When its status last changed, epoch milliseconds.' }),
  },
  { description: 'A bot.' },
);
export type Bot = Type.Static<typeof Bot>;

export const BotsQuery = Type.Object(pageQuery, closed);

export const BotsResponse = Type.Object({ bots: Type.Array(Bot, { description: 'Newest first.' }), ...pageResponse });
