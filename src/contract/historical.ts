import { Type } from 'typebox';
import { closed, nullable, oneOf, titled } from './export-manifest.ts';
import { CsvSafe, Limit, TimeParameter } from './query-parameters.ts';

/* Historical routes: published data as pages of JSON, or complete in other formats. */

export const Ms = (description: string) => Type.Integer({ description: `${description}, epoch milliseconds UTC.` });
const MsOrNull = (description: string) =>
  nullable(Ms(description), `${description}, epoch milliseconds UTC; null: unknown.`);

const textMax = 1000;

export const historicalFormats = ['json', 'ndjson', 'csv', 'arrow', 'parquet'] as const;
export type HistoricalFormat = (typeof historicalFormats)[number];

/** Parameters of every historical route. */
const commonParameters = {
  from: Type.Optional(TimeParameter('Start, inclusive, epoch milliseconds; open if absent.')),
  to: Type.Optional(TimeParameter('End, exclusive, epoch milliseconds; open if absent.')),
  limit: Type.Optional(
    Limit(
      'Maximum number of rows in the response. For JSON the default is 1,000, and larger values are reduced to the maximum of the service. The other formats have no default and no maximum.',
    ),
  ),
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 8000,
      description:
        'next_cursor of the previous page. The other parameters, except limit, must be those of that page; otherwise the response is 400. For JSON only.',
    }),
  ),
  format: Type.Optional(
    oneOf(
      historicalFormats,
      'Format of the response; overrides the Accept header. Every format except json returns the rows with the columns of the dataset, without pages.',
    ),
  ),
  csv_safe: Type.Optional(CsvSafe),
};

const symbol = Type.Optional(
  Type.String({ minLength: 1, maxLength: textMax, description: 'Only this symbol; an unknown symbol gives 404.' }),
);
/** Maximum number of symbols in a query, which has at most 100 parameters. */
const symbolsMax = 90;

/** Symbols as a parameter that may be repeated. One value is a text, several are a list. */
export const SymbolsParameter = (description: string, bounds: { readonly minItems?: number } = {}) =>
  Type.Unsafe<string | readonly string[]>({
    type: ['string', 'array'],
    minLength: 1,
    maxLength: textMax,
    items: { type: 'string', minLength: 1, maxLength: textMax },
    ...bounds,
    maxItems: symbolsMax,
    description: `${description}; an unknown symbol gives 404. May be given up to ${symbolsMax} times.`,
  });

const symbols = Type.Optional(SymbolsParameter('Only this symbol'));
const text = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: textMax, description }));

export const HistoricalMarketsQuery = closed({
  source: text('Last known venue.'),
  category: text('Last known category.'),
  symbol,
  canonical_id: text('Market identifier across venues.'),
  event: text('Last known identifier of the event that the market belongs to.'),
  q: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      pattern: '\\S',
      description: 'Words that must all occur in question, symbol, category, source or canonical_id; case is ignored.',
    }),
  ),
  resolved: Type.Optional(
    Type.Boolean({
      description: 'Whether the market has an outcome, or its resolution time had passed when it was last seen.',
    }),
  ),
  ...commonParameters,
});
export type HistoricalMarketsQuery = Type.Static<typeof HistoricalMarketsQuery>;

/** The query of rows that have no further parameters: ticks, order books, quotes, trades and conflicts. */
export const HistoricalRowsQuery = closed({ symbol: symbols, ...commonParameters });
export type HistoricalRowsQuery = Type.Static<typeof HistoricalRowsQuery>;

export const HistoricalCandlesQuery = closed({
  interval: oneOf(
    ['1m', '5m', '15m', '30m', '1h', '4h', '6h', '12h', '1d', '1w'],
    'Length of a candle. Intervals are aligned to UTC midnight, weeks to Monday; from and to bound the start times of candles.',
  ),
  symbol: symbols,
  ...commonParameters,
});
export type HistoricalCandlesQuery = Type.Static<typeof HistoricalCandlesQuery>;

export const HistoricalCoverageQuery = closed({
  dataset: Type.Optional(
    oneOf(['ticks', 'orderbooks', 'quotes', 'trades'], 'Dataset that was fetched; ticks by default.'),
  ),
  symbol: symbols,
  ...commonParameters,
});
export type HistoricalCoverageQuery = Type.Static<typeof HistoricalCoverageQuery>;

/** Fields at the end of every JSON response of a historical route. */
export const pageFields = {
  count: Type.Integer({ minimum: 0, description: 'Number of items in this response.' }),
  next_cursor: Type.Union([Type.String(), Type.Null()], {
    description: 'Cursor of the next page; null on the last page. It stays valid when new generations are published.',
  }),
  generated_at: Ms(
    'When the generation was published, so that the same query to it has the same bytes; for the gaps of a symbol: when the response was generated',
  ),
  generation: Type.Integer({ minimum: 0, description: 'Generation of the archive that was read.' }),
};

const state = {
  views: Type.Array(Type.String(), { description: 'Market lists that contained the market.' }),
  category: nullable(Type.String(), 'Category.'),
  is_active: nullable(Type.Boolean(), 'Whether the market is active.'),
  closes_at: MsOrNull('Closing time'),
  resolved_at: MsOrNull('Time of resolution'),
  outcome: nullable(Type.Number(), 'Settlement value: 1, 0, or a value between.'),
};

export const HistoricalMarketsResponse = titled('HistoricalMarketsResponse', {
  markets: Type.Array(
    titled('HistoricalMarket', {
      canonical_id: Type.String({ description: 'Market identifier across venues.' }),
      symbol: nullable(Type.String(), 'Market ticker at its venue.'),
      source: nullable(Type.String(), 'Venue.'),
      question: nullable(Type.String(), 'Question of the market.'),
      confidence: nullable(Type.Number(), 'Confidence of the match, from 0 to 1.'),
      ...state,
      outcome_source: nullable(
        Type.String(),
        'reported if a record states the outcome, derived if it was computed, for example from final prices.',
      ),
      event: nullable(Type.String(), 'Identifier of the event that the market belongs to.'),
      exclusive: nullable(Type.Boolean(), 'Whether the markets of the event exclude each other.'),
      strike_low: nullable(Type.Number(), 'Lower bound of the quantity for yes, in the unit of the venue.'),
      strike_high: nullable(Type.Number(), 'Upper bound of the quantity for yes, in the unit of the venue.'),
      expected_end: MsOrNull('When the outcome is expected to be known'),
      rules_sha256: nullable(
        Type.String(),
        'SHA-256 of the UTF-8 text of the rules. The text is the column rules of the other formats.',
      ),
      fee_schedule: nullable(Type.String(), 'Fee schedule, as the record names it.'),
      tick_size: nullable(Type.Number(), 'Smallest step of the price, a fraction of 1.'),
      opens_at: MsOrNull('Opening time'),
      first_seen: Ms('First poll in the window that listed the market'),
      last_seen: Ms('Last poll in the window that listed the market'),
      first_tick: MsOrNull("Time of the symbol's earliest published tick"),
      last_tick: MsOrNull("Time of the symbol's latest published tick"),
      ticks: Type.Integer({ minimum: 0, description: 'Number of published ticks of the symbol.' }),
      states: Type.Integer({ minimum: 1, description: 'Number of states of the market in the window.' }),
      history: Type.Array(
        titled('MarketState', {
          first_seen: Ms('First poll with this state'),
          last_seen: Ms('Last poll with this state'),
          ...state,
        }),
        { maxItems: 50, description: 'States of the market in order of time; at most the latest 50.' },
      ),
    }),
    { description: 'One item per canonical_id and symbol, in that order, as last known in the window.' },
  ),
  total: Type.Integer({ minimum: 0, description: 'Number of matching markets on all pages.' }),
  ...pageFields,
});

export const Price = (description: string) => Type.Number({ description });

export const HistoricalTicksResponse = titled('HistoricalTicksResponse', {
  ticks: Type.Array(
    titled('HistoricalTick', {
      symbol: Type.String({ description: 'Symbol of the market.' }),
      t: Ms('Tick time'),
      p: Price('Price.'),
    }),
    { description: 'Published ticks, sorted by symbol and t.' },
  ),
  ...pageFields,
});

/** Fields from quotes and trades. Only published candles have them. */
const candleSeriesFields = {
  bid: Type.Optional(
    nullable(
      Type.Number(),
      "Bid of the UTC day's last quote before the end of the interval; null: no bid, or no quote. Only in published candles (1h, 1d).",
    ),
  ),
  ask: Type.Optional(
    nullable(Type.Number(), 'Ask of the same quote; null: no ask, or no quote. Only in published candles.'),
  ),
  volume: Type.Optional(
    nullable(
      Type.Number(),
      'Sum of the sizes of the trades in the interval, in units of the venue; null: no trade is known. Only in published candles.',
    ),
  ),
  trades: Type.Optional(
    Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      description: 'Number of trades in the interval; null: no trade is known. Only in published candles.',
    }),
  ),
  vwap: Type.Optional(
    nullable(
      Type.Number(),
      'Mean price of these trades, weighted by their sizes; null: no volume is known. Only in published candles.',
    ),
  ),
};

export const HistoricalCandlesResponse = titled('HistoricalCandlesResponse', {
  interval: HistoricalCandlesQuery.properties.interval,
  candles: Type.Array(
    titled('Candle', {
      symbol: Type.String({ description: 'Symbol of the market.' }),
      t: Ms('Start of the interval'),
      open: Price('First price.'),
      high: Price('Highest price.'),
      low: Price('Lowest price.'),
      close: Price('Last price.'),
      ticks: Type.Integer({ minimum: 1, description: 'Number of ticks in the interval.' }),
      covered: Type.Number({ minimum: 0, maximum: 1, description: 'Share of the interval that is covered.' }),
      ...candleSeriesFields,
    }),
    { description: 'Sorted by symbol and t; an interval without ticks has no candle.' },
  ),
  ...pageFields,
});

const HistoricalGap = Type.Object(
  {
    symbol: Type.String(),
    from: Ms('Start, inclusive'),
    to: Ms('End, exclusive'),
    reason: Type.String({
      description:
        "Why the window is not covered: 'damaged', 'lost' (its ticks were published once), 'accepted', 'expired' (the upstream no longer serves it), 'suspended', 'failed', or 'never asked'.",
    }),
    detail: Type.Optional(Type.String({ description: 'What the upstream responded, or why the gap was accepted.' })),
    since: Type.Optional(Ms('When the reason became known')),
    ticks: Type.Optional(Type.Integer({ minimum: 0, description: 'Number of lost ticks; only with the reason lost.' })),
  },
  {
    title: 'CoverageGap',
    examples: [{ symbol: 'KXBTC', from: 1749859200000, to: 1749862800000, reason: 'failed', detail: '503' }],
  },
);

export const HistoricalCoverageResponse = titled('HistoricalCoverageResponse', {
  coverage: Type.Array(
    titled('CoverageWindow', {
      dataset: Type.String({ description: 'Dataset that was fetched.' }),
      symbol: Type.String({ description: 'Symbol of the market.' }),
      t_from: Ms('Start, inclusive'),
      t_to: Ms('End, exclusive'),
      ticks: Type.Integer({
        minimum: 0,
        description:
          'Number of published ticks in the window; for quotes and trades, of their rows; for order books, of snapshots.',
      }),
      fetched_at: Ms('When its response was generated; for joined windows the earliest time'),
      origin: Type.String({ description: 'poll, backfill or import.' }),
      evidence: Type.String({ description: 'Evidence: stated, confirmed, repeated, declared or inferred.' }),
      grain_ms: Type.Optional(
        Type.Union([Type.Integer(), Type.Null()], {
          description: 'Time step of the source in milliseconds, if the source does not have single ticks.',
        }),
      ),
    }),
    { description: 'Covered windows, sorted by symbol and t_from.' },
  ),
  gaps: Type.Optional(
    Type.Array(HistoricalGap, {
      description:
        'Only for the ticks of one symbol: windows of its lifetime within the requested window that are not covered. Every page has the same list. If there are more gaps than the maximum of a page, the list has the earliest.',
    }),
  ),
  gaps_count: Type.Optional(Type.Integer({ minimum: 0, description: 'Number of gaps in total.' })),
  ...pageFields,
});
