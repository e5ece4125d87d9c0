import { Type } from 'typebox';

/*
 * The documented part of the market data service. Objects stay open (`additionalProperties` is left alone): the
 * documentation says of every payload that fields beyond these may come. What the collector tolerates on top of it is
 * written in src/client, which decodes without these schemas.
 */

const EpochMs = (description: string) => Type.Integer({ description: `${description}, epoch milliseconds UTC.` });

/** An item of `markets`. Four fields are documented; real records carry more, which are kept as received. */
export const Market = Type.Object(
  {
    canonical_id: Type.String({ description: 'Canonical market identifier across datasets.' }),
    confidence: Type.Number({ description: 'Match confidence, a fraction between 0 and 1.' }),
    category: Type.String({ description: 'Market category.' }),
    is_active: Type.Boolean({ description: 'Whether the market is active.' }),
  },
  { description: 'A market; fields beyond these four may follow.' },
);
export type Market = Type.Static<typeof Market>;

export const MarketsQuery = Type.Object({
  view: Type.Optional(Type.String({ description: 'Named views are `matched` and `resolving`.' })),
  source: Type.Optional(Type.String({ description: 'Venue identifier.' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, description: 'Maximum number of markets returned.' })),
});
export type MarketsQuery = Type.Static<typeof MarketsQuery>;

export const MarketsResponse = Type.Object({
  markets: Type.Array(Market),
  count: Type.Integer({ minimum: 0, description: 'Number of markets in this response.' }),
  total: Type.Integer({ minimum: 0, description: 'Total number of matching markets.' }),
  view: Type.String({ description: 'The view that was applied.' }),
  generated_at: EpochMs('When the response was generated'),
});
export type MarketsResponse = Type.Static<typeof MarketsResponse>;

export const Tick = Type.Object({
  t: EpochMs('Tick time'),
  p: Type.Number({ description: 'Tick price, a decimal fraction.' }),
});
export type Tick = Type.Static<typeof Tick>;

export const TicksQuery = Type.Object(
  {
    symbol: Type.String({ minLength: 1, description: 'Market symbol.' }),
    from: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'Window start, included, epoch milliseconds UTC. Without it: the latest ticks before `to`.',
      }),
    ),
    to: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'Window end, excluded, epoch milliseconds UTC; after `from`. By default, and at most, now.',
      }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        description:
          'Maximum ticks; by default 1,000, capped by the service (service.ticks_limit_max): a greater limit is cut to its cap.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type TicksQuery = Type.Static<typeof TicksQuery>;

/** A part of the answered window that the service lacks: our extension, absent from answers without holes. */
export const DeclaredGap = Type.Object({
  from: EpochMs('Gap start, included'),
  to: EpochMs('Gap end, excluded'),
  reason: Type.Optional(
    Type.Literal('lost', { description: 'Its ticks were had once and are lost; absent where nobody ever had them.' }),
  ),
});
export type DeclaredGap = Type.Static<typeof DeclaredGap>;

export const TicksResponse = Type.Object({
  symbol: Type.String({ description: 'Echo of the requested symbol.' }),
  ticks: Type.Array(Tick),
  count: Type.Integer({ minimum: 0, description: 'Number of ticks returned.' }),
  from: EpochMs('Start of the window covered'),
  to: EpochMs('End of the window covered'),
  generated_at: EpochMs('When the response was generated'),
  gaps: Type.Optional(
    Type.Array(DeclaredGap, {
      description:
        'Windows inside [from, to) that nobody has covered, at most 1,000: of more, the last one spans all the rest.',
    }),
  ),
});
export type TicksResponse = Type.Static<typeof TicksResponse>;
