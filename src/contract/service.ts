import { Type } from 'typebox';
import { archiveStates } from './completeness-counts.ts';
import { oneOf } from './export.ts';

/*
 * The market lists as our service gives them: the documented shape, and what is certain of it when the records are
 * somebody else's, kept as received.
 */

const told = (description: string) =>
  Type.Optional(Type.Unknown({ description: `${description}, as it was received.` }));

export const ServedMarketsQuery = Type.Object(
  {
    view: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1000,
        default: 'matched',
        description: 'A market list: `matched`, `resolving`, or another one that the archive has polled.',
      }),
    ),
    source: Type.Optional(
      Type.String({ minLength: 1, maxLength: 1000, description: 'Only markets of this venue, or with a part there.' }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'Most markets returned; by default, and at most, what the service is set to (rows_limit_max).',
      }),
    ),
  },
  { additionalProperties: false },
);

export const ServedMarket = Type.Object(
  {
    canonical_id: Type.String({ description: 'Canonical market identifier across datasets.' }),
    confidence: told('Match confidence, a fraction between 0 and 1'),
    category: told('Market category'),
    is_active: told('Whether the market is active'),
  },
  { description: 'A market as it was received; further fields follow, its symbols and venues among them.' },
);

export const ServedMarketsResponse = Type.Object({
  markets: Type.Array(ServedMarket),
  count: Type.Integer({ minimum: 0, description: 'Number of markets in this response.' }),
  total: Type.Integer({ minimum: 0, description: 'Total number of matching markets.' }),
  view: Type.String({ description: 'The view that was applied.' }),
  generated_at: Type.Integer({
    description:
      'When the lists were polled, epoch milliseconds UTC: what is here was true then. Now, where they never were.',
  }),
});

/** The order book as our service gives it; the interface leaves its shape open. */

export const OrderbookQuery = Type.Object(
  { symbol: Type.String({ minLength: 1, maxLength: 1000, description: 'Market symbol.' }) },
  { additionalProperties: false },
);

export const BookLevel = Type.Object({
  price: Type.Number({ description: 'Price, a fraction between 0 and 1.' }),
  quantity: Type.Number({ description: 'Quantity at that price, as the venue counts.' }),
});

export const OrderbookResponse = Type.Object({
  symbol: Type.String({ description: 'Echo of the requested symbol.' }),
  t: Type.Integer({ description: 'Time of the snapshot, epoch milliseconds UTC.' }),
  bids: Type.Array(BookLevel, { description: 'Best first; empty where nobody bids.' }),
  asks: Type.Array(BookLevel, { description: 'Best first; empty where nobody asks.' }),
  generated_at: Type.Integer({
    description:
      'When the upstream was last asked and answered with a snapshot, epoch milliseconds UTC: the book was known to be so then.',
  }),
});

export const ReadyResponse = Type.Object({
  status: Type.Literal('ready'),
  generation: Type.Integer({ minimum: 1, description: 'The published generation.' }),
  lag_seconds: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
    description: 'Seconds that the watermark, but for what is lost, lies behind now; null where no symbol is live.',
  }),
  verdict: oneOf(archiveStates, 'How whole the archive is, as `oddslake status` says it.'),
});

/** What GET /api/v1/me answers: what the credential is, and what it may do. */
export const MeResponse = Type.Object(
  {
    kind: Type.Union([Type.Literal('key'), Type.Literal('user')], {
      description: '`key`: a market data key; `user`: a user token.',
    }),
    key: Type.Optional(
      Type.Object(
        {
          id: Type.String({ description: 'What `oddslake keys revoke` takes.' }),
          name: Type.String({ description: 'What it was created as.' }),
        },
        { description: 'The key; absent for a user token.' },
      ),
    ),
    user: Type.Optional(Type.String({ description: 'Whom the token stands for; absent for a key.' })),
    workspace: Type.Optional(
      Type.Union([Type.String(), Type.Null()], { description: "The token's workspace; absent for a key." }),
    ),
    scopes: Type.Optional(Type.Array(Type.String(), { description: "The token's scopes; absent for a key." })),
    requests_per_minute: Type.Integer({ minimum: 1, description: 'Requests a minute that it may make.' }),
    generated_at: Type.Integer({ description: 'When the response was generated, epoch milliseconds UTC.' }),
  },
  { description: 'A credential, without its secret.' },
);
export type MeResponse = Type.Static<typeof MeResponse>;
