import { Type } from 'typebox';

/* The historical surface: what is published, a page of JSON at a time, or whole slices as files. */

const Ms = (description: string) => Type.Integer({ description: `${description}, epoch milliseconds UTC.` });
const MsOrNull = (description: string) =>
  Type.Union([Ms(description), Type.Null()], {
    description: `${description}, epoch milliseconds UTC; null: not known.`,
  });
const orNull = (type: 'string' | 'number' | 'boolean', description: string) =>
  Type.Union([{ string: Type.String(), number: Type.Number(), boolean: Type.Boolean() }[type], Type.Null()], {
    description,
  });

const textMax = 1000;

export const historicalFormats = ['json', 'ndjson', 'csv', 'arrow', 'parquet'] as const;
export type HistoricalFormat = (typeof historicalFormats)[number];

/** One of some texts, told as such: a union of constants would answer a wrong one with a line for each. */
const choice = <const T extends string>(names: readonly T[], description: string) =>
  Type.Unsafe<T>({ type: 'string', enum: [...names], description });

/** Parameters that every route of the surface has. */
const common = {
  from: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Start, included, epoch milliseconds; open where absent.' }),
  ),
  to: Type.Optional(Type.Integer({ minimum: 0, description: 'End, excluded, epoch milliseconds; open where absent.' })),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      description:
        'Most rows of the answer. As JSON 1,000 by default, and a greater one is cut to what the service allows; in the other formats there is no limit by default.',
    }),
  ),
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 8000,
      description: 'next_cursor of the page before, with the other parameters as they were; for JSON only.',
    }),
  ),
  format: Type.Optional(
    choice(
      historicalFormats,
      'The format of the answer, whatever Accept says. All but json give the rows of the dataset with its own columns, without pages.',
    ),
  ),
};

const symbol = Type.Optional(
  Type.String({ minLength: 1, maxLength: textMax, description: 'Only this symbol; one that is not known is 404.' }),
);
const text = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: textMax, description }));
const closed = { additionalProperties: false };

export const HistoricalMarketsQuery = Type.Object(
  {
    source: text('Venue, as last known.'),
    category: text('Category, as last known.'),
    symbol,
    canonical_id: text('Market identifier across venues.'),
    q: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        pattern: '\\S',
        description: 'Words that all stand in question, symbol, category, source or canonical_id, in whatever case.',
      }),
    ),
    resolved: Type.Optional(
      Type.Boolean({ description: 'Whether an outcome is known, or the time of resolution had come when last seen.' }),
    ),
    ...common,
  },
  closed,
);
export type HistoricalMarketsQuery = Type.Static<typeof HistoricalMarketsQuery>;

export const HistoricalTicksQuery = Type.Object({ symbol, ...common }, closed);
export type HistoricalTicksQuery = Type.Static<typeof HistoricalTicksQuery>;

export const HistoricalOrderbooksQuery = HistoricalTicksQuery;
export type HistoricalOrderbooksQuery = HistoricalTicksQuery;

export const HistoricalCandlesQuery = Type.Object(
  {
    interval: choice(
      ['1m', '5m', '15m', '30m', '1h', '4h', '6h', '12h', '1d', '1w'],
      'Length of a candle. Intervals start at UTC midnight, weeks on Monday; from and to bound the starts of candles.',
    ),
    symbol,
    ...common,
  },
  closed,
);
export type HistoricalCandlesQuery = Type.Static<typeof HistoricalCandlesQuery>;

export const HistoricalCoverageQuery = Type.Object(
  {
    dataset: Type.Optional(choice(['ticks', 'orderbooks'], 'What was asked for; by default ticks.')),
    symbol,
    ...common,
  },
  closed,
);
export type HistoricalCoverageQuery = Type.Static<typeof HistoricalCoverageQuery>;

/** What every JSON answer of the surface ends with. */
const paging = {
  count: Type.Integer({ minimum: 0, description: 'Items of this answer.' }),
  next_cursor: Type.Union([Type.String(), Type.Null()], {
    description: 'For the next page; null on the last one. It stays good as new generations come in.',
  }),
  generated_at: Ms('When the answer was generated'),
  generation: Type.Integer({ minimum: 0, description: 'The generation of the archive that the answer is from.' }),
};

const state = {
  views: Type.Array(Type.String(), { description: 'Market lists that named it.' }),
  category: orNull('string', 'Category.'),
  is_active: orNull('boolean', 'Whether it is active.'),
  closes_at: MsOrNull('Close'),
  resolved_at: MsOrNull('When the outcome was settled'),
  outcome: orNull('number', 'Settlement: 1, 0, or between.'),
};

export const HistoricalMarketsResponse = Type.Object({
  markets: Type.Array(
    Type.Object({
      canonical_id: Type.String({ description: 'Market identifier across venues.' }),
      symbol: orNull('string', 'Market ticker at its venue.'),
      source: orNull('string', 'Venue.'),
      question: orNull('string', 'What the market asks.'),
      confidence: orNull('number', 'Confidence of the match, from 0 to 1.'),
      ...state,
      opens_at: MsOrNull('Opening'),
      first_seen: Ms('First poll in the window that named it'),
      last_seen: Ms('Last poll in the window that named it'),
      first_tick: MsOrNull("The symbol's earliest published tick"),
      last_tick: MsOrNull("The symbol's latest published tick"),
      ticks: Type.Integer({ minimum: 0, description: "The symbol's published ticks." }),
      states: Type.Integer({ minimum: 1, description: 'How many states it went through in the window.' }),
      history: Type.Array(
        Type.Object({ first_seen: Ms('First poll of the state'), last_seen: Ms('Last poll of the state'), ...state }),
        { maxItems: 50, description: 'Its states in order of time; of more than 50 the latest.' },
      ),
    }),
    { description: 'One a canonical_id and symbol, as last known in the window, in the order of the two.' },
  ),
  total: Type.Integer({ minimum: 0, description: 'Markets that match, on all pages.' }),
  ...paging,
});

const Price = (description: string) => Type.Number({ description });

export const HistoricalTicksResponse = Type.Object({
  ticks: Type.Array(
    Type.Object({ symbol: Type.String({ description: 'Market ticker.' }), t: Ms('Tick time'), p: Price('Price.') }),
    { description: 'Published ticks in the order of symbol and t.' },
  ),
  ...paging,
});

export const HistoricalCandlesResponse = Type.Object({
  interval: HistoricalCandlesQuery.properties.interval,
  candles: Type.Array(
    Type.Object({
      symbol: Type.String({ description: 'Market ticker.' }),
      t: Ms('Start of the interval'),
      open: Price('First price.'),
      high: Price('Highest price.'),
      low: Price('Lowest price.'),
      close: Price('Last price.'),
      ticks: Type.Integer({ minimum: 1, description: 'Ticks in the interval.' }),
      covered: Type.Number({ minimum: 0, maximum: 1, description: 'Share of the interval that coverage holds.' }),
    }),
    { description: 'In the order of symbol and t; none for an interval without ticks.' },
  ),
  ...paging,
});

const HistoricalGap = Type.Object({
  symbol: Type.String(),
  from: Ms('Start, included'),
  to: Ms('End, excluded'),
  reason: Type.String({
    description:
      "Why nothing covers it: 'lost' (its ticks were published once), 'accepted', 'expired' (the service goes back no further), 'suspended', 'failed', or 'never asked'.",
  }),
  detail: Type.Optional(Type.String({ description: 'What the service answered, or why it was accepted.' })),
  since: Type.Optional(Ms('Since when that is known')),
  ticks: Type.Optional(Type.Integer({ minimum: 0, description: 'How many ticks were lost, with that reason.' })),
});

export const HistoricalCoverageResponse = Type.Object({
  coverage: Type.Array(
    Type.Object({
      dataset: Type.String({ description: 'What was asked for.' }),
      symbol: Type.String({ description: 'Market ticker.' }),
      t_from: Ms('Start, included'),
      t_to: Ms('End, excluded'),
      ticks: Type.Integer({ minimum: 0, description: 'Published ticks in the window; for order books snapshots.' }),
      fetched_at: Ms('When its response was generated, of joined windows the earliest'),
      origin: Type.String({ description: 'poll, backfill or import.' }),
      evidence: Type.Optional(
        Type.String({
          description:
            'Why it counts as covered: stated, confirmed, declared or inferred; absent in an archive of an older format.',
        }),
      ),
      grain_ms: Type.Optional(
        Type.Union([Type.Integer(), Type.Null()], {
          description: "The source's time step in milliseconds, where it gives no single ticks.",
        }),
      ),
    }),
    { description: 'Windows that were asked for and answered, in the order of symbol and t_from.' },
  ),
  gaps: Type.Optional(
    Type.Array(HistoricalGap, {
      description:
        "Of one symbol's ticks: windows of its lifetime inside the window asked for that no answer covers, the same on every page, the earliest where there are more than a page may hold.",
    }),
  ),
  gaps_count: Type.Optional(Type.Integer({ minimum: 0, description: 'How many gaps there are.' })),
  ...paging,
});

const Levels = (description: string) =>
  Type.Array(
    Type.Object({ price: Price('Price.'), quantity: Type.Number({ description: 'Quantity at that price.' }) }),
    {
      description,
    },
  );

export const HistoricalOrderbooksResponse = Type.Object({
  orderbooks: Type.Array(
    Type.Object({
      symbol: Type.String({ description: 'Market ticker.' }),
      t: Ms('Time of the snapshot'),
      bids: Levels('Best first.'),
      asks: Levels('Best first.'),
    }),
    { description: 'Whole snapshots in the order of symbol and t; a page of very deep ones ends early.' },
  ),
  ...paging,
});
