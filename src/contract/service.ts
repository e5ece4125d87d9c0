import { Type } from 'typebox';
import { archiveStates } from './completeness-counts.ts';
import { closed, described, oneOf, titled } from './export-manifest.ts';
import { findingKinds, severities } from './finding.ts';
import { Limit } from './query-parameters.ts';

/*
 * The market lists as oddslake serves them. Records are served as received, so only some types of the documented format
 * are guaranteed.
 */

const optionalAsReceived = (description: string) =>
  Type.Optional(Type.Unknown({ description: `${description}, as received.` }));

export const ServedMarketsQuery = closed({
  view: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1000,
      default: 'matched',
      description:
        'Market list. Another list that the archive has polled is accepted, too; any other value gives 400 with the valid ones.',
    }),
  ),
  source: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1000,
      description: 'Only markets of this venue, or with a symbol there.',
    }),
  ),
  limit: Type.Optional(
    Limit(
      'Maximum number of markets. The default is the maximum of the service (service.rows_limit_max). Larger values are reduced to it.',
    ),
  ),
});

const ServedMarket = Type.Object(
  {
    canonical_id: Type.String({ description: 'Canonical market identifier across datasets.' }),
    confidence: optionalAsReceived('Match confidence, a fraction between 0 and 1'),
    category: optionalAsReceived('Market category'),
    is_active: optionalAsReceived('Whether the market is active'),
  },
  { title: 'Market', description: 'A market as received; further fields follow, including its symbols and venues.' },
);

export const ServedMarketsResponse = titled('MarketsResponse', {
  markets: Type.Array(ServedMarket),
  count: Type.Integer({ minimum: 0, description: 'Number of markets in this response.' }),
  total: Type.Integer({ minimum: 0, description: 'Total number of matching markets.' }),
  view: Type.String({ description: 'The view that was applied.' }),
  generated_at: Type.Integer({ description: 'When the response was generated, epoch milliseconds UTC.' }),
  data_time: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'When the lists were polled, epoch milliseconds UTC; the markets are as of this time. Null if they were never polled.',
  }),
});

/** The order book as oddslake serves it. The documentation of the upstream does not specify its format. */

export const OrderbookQuery = closed({
  symbol: Type.String({ minLength: 1, maxLength: 1000, description: 'Market symbol.' }),
});

export const BookLevel = titled('OrderBookLevel', {
  price: Type.Number({ description: 'Price, a fraction between 0 and 1.' }),
  quantity: Type.Number({ description: 'Quantity at that price, in units of the venue.' }),
});

export const OrderbookResponse = titled('OrderBook', {
  symbol: Type.String({ description: 'Echo of the requested symbol.' }),
  t: Type.Integer({ description: 'Time of the snapshot, epoch milliseconds UTC.' }),
  bids: Type.Array(BookLevel, { description: 'Best first; empty if there are no bids.' }),
  asks: Type.Array(BookLevel, { description: 'Best first; empty if there are no asks.' }),
  generated_at: Type.Integer({ description: 'When the response was generated, epoch milliseconds UTC.' }),
  data_time: Type.Integer({
    description: 'When the upstream last returned this order book, epoch milliseconds UTC.',
  }),
});

export const ReadyResponse = titled('Readiness', {
  status: Type.Literal('ready'),
  generation: Type.Integer({ minimum: 1, description: 'The published generation.' }),
  lag_seconds: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
    description:
      'Seconds since the watermark, including inferred windows and ignoring lost ones; null if no symbol is live.',
  }),
  archive_state: oneOf(archiveStates, 'State of the archive, as in `oddslake status`.'),
  verdict: described('Verdict', 'What is said first of the archive and its jobs.', {
    state: oneOf(['ok', 'warning', 'action_required'], 'The worst severity of the findings.'),
    text: Type.String({ description: 'One sentence.' }),
  }),
  findings: Type.Array(
    described('Finding', 'One fact that somebody may have to know.', {
      kind: oneOf(findingKinds, 'What it is about.'),
      severity: oneOf(severities, '`info`: nothing has to be done.'),
    }),
    { description: 'The worst first.' },
  ),
});

/** Response of GET /api/v1/me: the credential and its permissions. */
export const MeResponse = described('Credential', 'A credential, without its secret.', {
  kind: Type.Union([Type.Literal('key'), Type.Literal('user')], {
    description: '`key`: a market data key; `user`: a user token.',
  }),
  key: Type.Optional(
    described('KeyIdentity', 'The key; absent for a user token.', {
      id: Type.String({ description: 'ID of the key, for `oddslake keys revoke`.' }),
      name: Type.String({ description: 'Name of the key.' }),
      datasets: Type.Union([Type.Array(Type.String()), Type.Null()], {
        description: 'The datasets that the key permits; null for all.',
      }),
    }),
  ),
  user: Type.Optional(Type.String({ description: 'User ID of the token; absent for a key.' })),
  workspace: Type.Optional(
    Type.Union([Type.String(), Type.Null()], { description: 'Workspace of the token; absent for a key.' }),
  ),
  scopes: Type.Optional(Type.Array(Type.String(), { description: 'Scopes of the credential.' })),
  requests_per_minute: Type.Integer({ minimum: 1, description: 'Rate limit, requests per minute.' }),
  generated_at: Type.Integer({ description: 'When the response was generated, epoch milliseconds UTC.' }),
});
export type MeResponse = Type.Static<typeof MeResponse>;
