import { Type } from 'typebox';

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
