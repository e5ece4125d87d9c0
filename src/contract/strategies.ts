import { Type } from 'typebox';
import { Count, closed, described, GeneratedAt, nullable, oneOf, titled } from './export-manifest.ts';
import { object, refine, text } from './parsed-schema.ts';
import { Limit } from './query-parameters.ts';
import { type Strategy as StrategyDefinition, strategyDefinition } from './strategy-language.ts';

/* Users' strategies: requests, versions and lists. */

const noExtraFields = { additionalProperties: false };

/** Characters forbidden in user-chosen names: line breaks, control characters, and changes of the text direction. */
const forbiddenNameCharacters = '\\p{Cc}\\u2028-\\u202e\\u2066-\\u2069';
const namePattern = `^[^\\s${forbiddenNameCharacters}]([^${forbiddenNameCharacters}]*[^\\s${forbiddenNameCharacters}])?$`;
const nameMax = 200;
const strategyNamePattern = new RegExp(namePattern, 'u');

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

export const strategyRequest = object(
  {
    name: refine(
      text(nameMax, {
        pattern: namePattern,
        description: 'Name of the strategy. If it exists already, a new version is created.',
      }),
      (name) =>
        strategyNamePattern.test(name) ? null : 'must not start or end with a blank, or have control characters',
    ),
    definition: strategyDefinition,
  },
  { title: 'StrategyRequest', examples: [example], description: 'A strategy.' },
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

export const Strategy = described('Strategy', 'A version of a strategy.', {
  id: Type.String({ description: 'ID of this version.' }),
  name: Type.String({ description: 'As requested.' }),
  version: Type.Integer({
    minimum: 1,
    description: 'Number of the version of this name, from 1. A version never changes.',
  }),
  definition: Type.Unsafe<StrategyDefinition>(strategyDefinition.json),
  created_at: Type.Integer({ description: 'When it was created, epoch milliseconds.' }),
});
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

export const StrategiesQuery = closed({
  name: Type.Optional(
    Type.String({ minLength: 1, maxLength: nameMax, description: 'Only the versions of this name.' }),
  ),
  ...pageQuery,
});

export const StrategiesResponse = titled('StrategiesResponse', {
  strategies: Type.Array(Strategy, { description: 'Newest first.' }),
  ...pageResponse,
});

export const ObjectPath = closed({
  id: Type.String({ pattern: '^[0-9a-z]{1,40}$', description: 'ID of the object.' }),
});

/* Users' bots: a version of a strategy, bound to symbols. */

const texts = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), { maxItems: 100, description }));

const modes = ['paper'] as const;
const mode = 'Trading mode. `paper`: no order is ever sent.';
const status = 'Status of the bot.';

export const BotRequest = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: nameMax,
      pattern: namePattern,
      description: 'Name of the bot; need not be unique.',
    }),
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

const botStatuses = ['active', 'paused'] as const;
const Status = Type.Unsafe<(typeof botStatuses)[number]>(oneOf(botStatuses, status));

export const BotChange = Type.Object(
  { status: Status },
  { title: 'BotChange', ...noExtraFields, examples: [{ status: 'paused' }], description: 'A change of a bot.' },
);

export const Bot = described('Bot', 'A bot.', {
  id: Type.String({ description: 'ID of the bot.' }),
  name: Type.String({ description: 'As requested.' }),
  strategy: titled('BotStrategy', {
    id: Type.String({ description: 'ID of the version that the bot is bound to.' }),
    name: Type.String({ description: 'As requested.' }),
    version: Type.Integer({ minimum: 1, description: 'As requested, or the latest at that time.' }),
  }),
  symbols: nullable(
    Type.Array(Type.String()),
    'As requested, without duplicates; null: every symbol that matches the filter.',
  ),
  filter: nullable(
    titled('BotFilterEcho', { categories: Type.Array(Type.String()), sources: Type.Array(Type.String()) }),
    'As requested; null if symbols are given.',
  ),
  mode: oneOf(modes, mode),
  status: Status,
  created_at: Type.Integer({ description: 'When it was created, epoch milliseconds.' }),
  updated_at: Type.Integer({ description: 'When its status last changed, epoch milliseconds.' }),
});
export type Bot = Type.Static<typeof Bot>;

export const BotsQuery = closed(pageQuery);

export const BotsResponse = titled('BotsResponse', {
  bots: Type.Array(Bot, { description: 'Newest first.' }),
  ...pageResponse,
});
