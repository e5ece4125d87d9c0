import { Type } from 'typebox';
import { nullable, oneOf } from './export.ts';
import { nameMax, ObjectName, pageQuery, pageResponse } from './strategies.ts';

/* Users' bots: a version of a strategy, bound to symbols. */

const closed = { additionalProperties: false };
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
