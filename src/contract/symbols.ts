import { Type } from 'typebox';
import { Count, closed, GeneratedAt, nullable, oneOf, titled } from './export-manifest.ts';
import { Limit } from './query-parameters.ts';

/* The symbols of the archive, for search as one types. */

/** `excluded` and `forgotten` symbols are not collected: by the settings, or by decision of a user. */
const symbolStates = ['active', 'excluded', 'forgotten', 'closed', 'resolved', 'unlisted'] as const;
export type SymbolState = (typeof symbolStates)[number];

const symbolSorts = ['ticks', 'newest', 'ending', 'name'] as const;
export type SymbolSort = (typeof symbolSorts)[number];

/** Maximum number of symbols in a response, and default. */
export const symbolsLimitMax = 100;
export const symbolsLimitDefault = 25;
/** A market ends soon if it ends within this time, in days. */
export const endsSoonDays = 7;

const name = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 1000, description }));

export const SymbolsQuery = closed({
  q: Type.Optional(
    Type.String({
      maxLength: 1000,
      description:
        'Words that must all occur in question, symbol, category, source or canonical_id. Case and accents are ignored. A symbol with exactly this name comes first.',
    }),
  ),
  source: name('Venue.'),
  category: name('Category.'),
  state: Type.Optional(
    oneOf(
      [...symbolStates, 'ending'] as const,
      `State of the market, or excluded or forgotten if it has not ended and is not collected; ending: active, and its expected end or close is within ${endsSoonDays} days.`,
    ),
  ),
  sort: Type.Optional(
    oneOf(
      symbolSorts,
      'Order: most ticks (default), newest first, the market that ends next first and those without an end last, or by symbol.',
    ),
  ),
  offset: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      default: 0,
      description: 'Number of matching symbols before the first one of the response.',
    }),
  ),
  limit: Type.Optional(
    Limit(`Symbols in the response; larger values are reduced to ${symbolsLimitMax}.`, symbolsLimitDefault),
  ),
});
export type SymbolsQuery = Type.Static<typeof SymbolsQuery>;

const Ms = (description: string) => nullable(Type.Integer(), `${description}, epoch milliseconds UTC; null: unknown.`);
const Text = (description: string) => nullable(Type.String(), `${description}; null: unknown.`);

const foundExample = {
  symbol: 'KXRAIN-25JUN',
  source: 'kalshi',
  question: 'Will it rain in São Paulo?',
  category: 'weather',
  state: 'active',
  opens_at: Date.UTC(2025, 5, 1),
  ends_at: Date.UTC(2025, 6, 1),
  resolved_at: null,
  outcome: null,
  first_seen: Date.UTC(2025, 5, 1),
  first_tick: Date.UTC(2025, 5, 1),
  last_tick: Date.UTC(2025, 5, 14),
  ticks: 3744,
  not_collected: null,
};

const NotCollected = Type.Object(
  {
    kind: oneOf(
      ['excluded', 'forgotten'] as const,
      'excluded: by source.include and source.exclude; forgotten: by oddslake symbols forget.',
    ),
    since: nullable(
      Type.Integer(),
      'Start of the time of which nothing is expected, epoch milliseconds UTC; null: nothing was collected before.',
    ),
    reason: nullable(Type.String(), 'As the user gave it; null: none.'),
    decided_at: Type.Integer({ description: 'When this was decided, epoch milliseconds UTC.' }),
  },
  {
    title: 'NotCollected',
    examples: [{ kind: 'excluded', since: Date.UTC(2025, 5, 14), reason: null, decided_at: Date.UTC(2025, 5, 14, 1) }],
  },
);

const FoundSymbol = Type.Object(
  {
    symbol: Type.String({ description: 'Market ticker at its venue.' }),
    source: Text('Venue'),
    question: Text('What the market asks'),
    category: Text('Category'),
    state: oneOf(
      symbolStates,
      'State of the market at the time of the response; excluded or forgotten if it has not ended and is not collected.',
    ),
    opens_at: Ms('Opening of the market'),
    ends_at: Ms('Expected end of the market, or else its close'),
    resolved_at: Ms('When the outcome was settled'),
    outcome: nullable(Type.Number(), 'Settlement: 1, 0, or between; null: none.'),
    first_seen: Type.Integer({ description: 'First poll or import that contained it, epoch milliseconds UTC.' }),
    first_tick: Ms('Earliest published tick'),
    last_tick: Ms('Latest published tick'),
    ticks: Count('Published ticks'),
    not_collected: nullable(
      NotCollected,
      'Since when and why it is not collected, also if its market has ended since; null: it is collected.',
    ),
  },
  { title: 'FoundSymbol', examples: [foundExample] },
);
export type FoundSymbol = Type.Static<typeof FoundSymbol>;

const Facet = Type.Object(
  { name: Type.String(), symbols: Count('Symbols with this value') },
  { title: 'SymbolFacet', examples: [{ name: 'weather', symbols: 120 }] },
);

export const SymbolsResponse = titled('SymbolsResponse', {
  symbols: Type.Array(FoundSymbol),
  count: Count('Symbols in this response'),
  total: Count('Matching symbols'),
  offset: Count('Matching symbols before the first one'),
  sources: Type.Array(Facet, { description: 'The venues of the archive, most symbols first; at most 200.' }),
  categories: Type.Array(Facet, { description: 'Its categories, most symbols first; at most 200.' }),
  omitted: Count('Symbols of the archive that are not searched, because it has more than the service holds in memory'),
  generated_at: GeneratedAt,
  generation: Count('Generation of the archive that was searched.'),
});
export type SymbolsResponse = Type.Static<typeof SymbolsResponse>;
