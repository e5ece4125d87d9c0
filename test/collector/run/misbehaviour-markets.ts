import type { MarketsBody, Reply, Script } from './scripted-service.ts';
import { headers } from './wire-replies.ts';

/** Misbehaviours of the market lists. Known symbols are polled in every row. */
interface MarketsMisbehaviour {
  /** What the upstream does. */
  readonly does: string;
  /** The result, in words. */
  readonly happens: string;
  readonly markets: NonNullable<Script['markets']>;
  /** Reason of the failure of the run, without a symbol; absent: no failure. */
  readonly fails?: RegExp;
  /** The only warning; absent: none. */
  readonly warns?: RegExp;
  /** Distinct reasons of rejected records, in order. */
  readonly setAside?: readonly string[];
  /** State of each symbol afterwards; absent: active. */
  readonly isActive?: false | null;
  /** A field of `extra` of the first market. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

type Market = MarketsBody['markets'][number];

const each =
  (change: (market: Market) => unknown) =>
  (honest: MarketsBody): Reply => ({ ...honest, markets: honest.markets.map(change) });

const without =
  (name: keyof Market) =>
  ({ ...market }: Market): unknown => {
    delete (market as Partial<Market>)[name];
    return market;
  };

/** Markets that were resolved long ago, and are not polled. */
const resolved = (count: number): unknown[] =>
  Array.from({ length: count }, (_, i) => ({
    canonical_id: `old-${i}`,
    symbol: `OLD-${i}`,
    is_active: false,
    resolved_at: Date.UTC(2025, 0, 1),
    outcome: 1,
    description: 'x'.repeat(2000),
  }));

export const marketsMisbehaviours: readonly MarketsMisbehaviour[] = [
  {
    does: 'new fields',
    happens: 'Kept as JSON in the column extra, without a warning.',
    markets: each((market) => ({ ...market, tags: ['a'], fee: { maker: 0.01 } })),
    extra: { tags: ['a'], fee: { maker: 0.01 } },
  },
  {
    does: 'is_active is missing',
    happens: 'The state is unknown; the symbols are polled.',
    markets: each(without('is_active')),
    isActive: null,
  },
  {
    does: 'is_active is a string',
    happens: 'The state is unknown and the text is kept in extra; the symbols are polled.',
    markets: each((market) => ({ ...market, is_active: 'true' })),
    isActive: null,
    extra: { is_active: 'true' },
  },
  { does: 'category is missing', happens: 'The last known category is kept.', markets: each(without('category')) },
  {
    does: 'category is an object',
    happens: 'Kept in extra; the last known category is kept.',
    markets: each((market) => ({ ...market, category: { main: 'x' } })),
    extra: { category: { main: 'x' } },
  },
  {
    does: 'closes_at in seconds',
    happens: 'Kept in extra; units are not guessed.',
    markets: each((market) => ({ ...market, closes_at: 1_750_000_000 })),
    extra: { closes_at: 1_750_000_000 },
  },
  {
    does: 'canonical_id is missing',
    happens:
      'All records are rejected. The list is not used, the run reports a failure, and no market counts as delisted.',
    markets: each(without('canonical_id')),
    fails: /^markets of view matched: 3 of 3 records are unusable \(canonical_id is not a string/,
    warns: /^3 market records were rejected: canonical_id is not a string/,
    setAside: ['canonical_id is not a string'],
  },
  {
    does: 'canonical_id is a number',
    happens:
      'All records are rejected. The list is not used, the run reports a failure, and no market counts as delisted.',
    markets: each((market) => ({ ...market, canonical_id: 7 })),
    fails: /^markets of view matched: 3 of 3 records are unusable \(canonical_id is not a string/,
    warns: /^3 market records were rejected: canonical_id is not a string/,
    setAside: ['canonical_id is not a string'],
  },
  {
    does: 'records that are null, lists or strings, among valid records',
    happens: 'They are rejected with a warning; the others are kept.',
    markets: (honest) => ({ ...honest, markets: [null, ...honest.markets, [1], 'x'], count: 6, total: 6 }),
    warns: /^3 market records were rejected: market is not an object/,
    setAside: ['market is not an object'],
  },
  ...(
    [
      ['a lone surrogate', 'A\ud800'],
      ['a NUL', 'A\0B'],
      ['a leading byte order mark', '\ufeffA'],
    ] as const
  ).map(
    ([what, symbol]): MarketsMisbehaviour => ({
      does: `a symbol with ${what}`,
      happens: 'The record is rejected with a warning; the others are kept.',
      markets: (honest) => {
        const odd = { ...honest.markets[0]!, canonical_id: 'odd', symbol };
        return { ...honest, markets: [...honest.markets, odd], count: 4, total: 4 };
      },
      warns: /^1 market records were rejected: canonical_id or symbol is not well-formed Unicode, or has/,
      setAside: ['canonical_id or symbol is not well-formed Unicode, or has a NUL or byte order mark'],
    }),
  ),
  {
    does: 'every record twice',
    happens: 'Each counts once, without a warning.',
    markets: (honest) => ({ ...honest, markets: [...honest.markets, ...honest.markets], count: 6, total: 6 }),
  },
  {
    does: 'a count and a total that are strings',
    happens: 'Treated as missing, without a warning.',
    markets: (honest) => ({ ...honest, count: '3', total: 'three' }),
  },
  {
    does: 'an empty list with a total of three',
    happens: 'The list counts as truncated. The run reports a failure, and no market counts as delisted.',
    markets: (honest) => ({ ...honest, markets: [], count: 0 }),
    fails: /^markets of view matched: the list is truncated: 0 of 3 received/,
  },
  {
    does: 'an empty list with a total of 0',
    happens: 'Treated as an outage or a restricted key. The run reports a failure, and no market counts as delisted.',
    markets: (honest) => ({ ...honest, markets: [], count: 0, total: 0 }),
    fails: /^markets: the lists name 0, the median of the last \d+ days? is 3: no market is marked inactive/,
  },
  {
    does: 'markets as an object',
    happens: 'Retried; then the run reports a failure.',
    markets: (honest) => ({ ...honest, markets: { ...honest.markets } }),
    fails: /^markets: .*no markets array/,
  },
  {
    does: 'a web page',
    happens: 'Retried; then the run reports a failure.',
    markets: () => headers(200, { 'content-type': 'text/html' }, '<!doctype html>'),
    fails: /^markets: .*HTML instead of JSON/,
  },
  {
    does: 'a redirect',
    happens: 'Not followed; the run reports a failure.',
    markets: () => headers(301, { location: 'http://127.0.0.1:1/' }, ''),
    fails: /^markets: HTTP 301, a redirect to .* which is not followed/,
  },
  {
    does: 'generated_at in seconds, as a string, or a day in the future',
    happens: 'Not a valid time; the time of the request is used.',
    markets: (honest, n) => {
      const { generated_at } = honest;
      return { ...honest, generated_at: [generated_at / 1000, `${generated_at}`, generated_at + 86_400_000][n % 3] };
    },
  },
  {
    does: '10 MB of markets',
    happens: 'Accepted; markets resolved long ago are not polled.',
    markets: (honest) => {
      const markets = [...honest.markets, ...resolved(5000)];
      return { ...honest, markets, count: markets.length, total: markets.length };
    },
  },
];
