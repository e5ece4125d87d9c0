import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { MarketFacts } from '../../src/archive/format/market.ts';
import { readSymbol } from '../../src/archive/journal/symbol-store.ts';
import { createMarketsEndpoint } from '../../src/server/history/endpoints.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  market,
  now,
  opened,
  publishNow,
  scratchFolder,
} from '../archive/scratch.ts';
import { share } from '../harness/share.ts';
import { openCounted, requireEqualPages } from './counted-history.ts';
import { poll } from './historical-archive.ts';

// Pages of markets are selected in memory. They must be those of the DuckDB plan, which also serves searches by words.

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`market-table: SEED=${seed}`);

const names = ['A', 'B b', 'é', 'ﬀ', '🚀', '\u{10ffff}'];

/** Mostly the first value, so that many states of a market differ in one column or in none. */
const mostly = <T>(...[usual, ...others]: readonly [T, ...T[]]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(usual, ...others) });

const text = mostly<string | null>('x', null, 'É', "O'N; --");
const time = mostly<number | null>(null, day0 + hourMs, day0 + 9 * dayMs);

const anyMarket: fc.Arbitrary<MarketFacts> = fc
  .record({
    id: mostly('1', '2', 'é', '🚀'),
    symbol: fc.constantFrom(...names),
    source: text,
    category: text,
    views: mostly(['matched'], ['matched', 'all'], []),
    confidence: mostly<number | null>(0.5, null, 0),
    isActive: mostly<boolean | null>(true, null, false),
    question: text,
    closesAt: time,
    resolvedAt: time,
    outcome: mostly<number | null>(null, 0, 1, 0.5),
    outcomeSource: mostly<'reported' | 'derived' | null>(null, 'reported', 'derived'),
    event: text,
    exclusive: mostly<boolean | null>(null, true, false),
    strikeLow: mostly<number | null>(null, -1, 0.5),
    strikeHigh: mostly<number | null>(null, 0, 2e9),
    expectedEnd: time,
    rules: text,
    rulesSha256: text,
    feeSchedule: text,
    tickSize: mostly<number | null>(null, 0.01, 0.001),
  })
  .map(({ id, symbol, ...rest }) => ({ ...market(symbol), canonicalId: id, ...rest }) as MarketFacts);

const polls = fc.uniqueArray(
  fc.record({
    at: fc.constantFrom(
      ...[0, 1, 2, 5].flatMap((day) => [0, 1, hourMs, dayMs - 1].map((ms) => day0 + day * dayMs + ms)),
    ),
    markets: fc.uniqueArray(anyMarket, {
      minLength: 1,
      maxLength: 8,
      selector: ({ canonicalId, symbol }) => `${canonicalId} ${symbol}`,
    }),
  }),
  { minLength: 1, maxLength: 6, selector: ({ at }) => at },
);

const bound = fc.constantFrom(
  ...[0, 1, 2, 5].flatMap((day) => [-1, 0, 1, hourMs, hourMs + 1].map((ms) => day0 + day * dayMs + ms)),
);

const window = fc.record(
  { from: bound, to: bound, limit: fc.integer({ min: 1, max: 6 }) },
  { requiredKeys: ['limit'] },
);

const filter = fc
  .tuple(
    window,
    fc.oneof(
      fc.constant({}),
      fc.record({ source: fc.constantFrom('x', 'É', 'none') }),
      fc.record({ category: fc.constantFrom('x', "O'N; --") }),
      fc.record({ symbol: fc.constantFrom(...names) }),
      fc.record({ canonical_id: fc.constantFrom('1', 'é', 'none') }),
      fc.record({ resolved: fc.boolean() }),
      fc.record({ resolved: fc.boolean(), source: fc.constant('x'), canonical_id: fc.constant('1') }),
    ),
  )
  .map(([window, columns]): typeof window & { symbol?: string } => ({ ...window, ...columns }));

test('pages of markets equal those of the DuckDB plan', async () => {
  const signal = new AbortController().signal;
  let items = 0;
  await fc.assert(
    fc.asyncProperty(polls, fc.array(filter, { minLength: 5, maxLength: 10 }), async (drawn, filters) => {
      const archive = opened({ root: scratchFolder(), parts: 1 });
      append(archive, answer('A', [[day0 + 5, 0.5]]));
      for (const { at, markets } of drawn.toSorted((a, b) => a.at - b.at)) poll(archive, at, markets);
      await publishNow(archive, now);
      const fast = await openCounted(archive, 1 << 24);
      const plain = await openCounted(archive, 0);
      for (const { symbol, ...rest } of filters) {
        if (rest.from !== undefined && rest.to !== undefined && rest.from >= rest.to) continue;
        // An unknown symbol gives 404.
        const known = symbol !== undefined && readSymbol(archive.state.db, symbol) !== undefined ? { symbol } : {};
        await requireEqualPages(fast.service, plain.service, async (service, cursor) => {
          const page = await createMarketsEndpoint(service).readPage(
            { ...rest, ...known, ...(cursor && { cursor }) },
            signal,
          );
          items += (page as { markets: unknown[] }).markets.length;
          return page as { next_cursor: string | null };
        });
      }
      // The table is read once.
      expect(fast.countQueries()).toBeLessThanOrEqual(1);
    }),
    { seed, numRuns: Math.ceil(share * 40), endOnFailure: true },
  );
  expect(items).toBeGreaterThan(0);
});

test('a table is read again after a publish, and words are searched by DuckDB', async () => {
  const archive = opened();
  poll(archive, day0, [market('A', { question: 'İstanbul?' })]);
  await publishNow(archive, now);
  const { service, countQueries } = await openCounted(archive, 1 << 24);
  const read = async (query: object): Promise<unknown> =>
    await createMarketsEndpoint(service).readPage(query, new AbortController().signal);
  expect(await Promise.all([read({}), read({ from: day0 }), read({ to: day0 })])).toMatchObject([
    { total: 1 },
    { total: 1 },
    { total: 0 },
  ]);
  expect(countQueries()).toBe(1);
  poll(archive, day0 + dayMs, [market('A', { question: 'Ankara?' }), market('B')]);
  await publishNow(archive, now + 1);
  expect(await read({})).toMatchObject({ total: 2, markets: [{ question: 'Ankara?' }, { symbol: 'B' }] });
  expect(countQueries()).toBe(2);
  expect(await read({ q: 'ankara' })).toMatchObject({ total: 1 });
  expect(countQueries()).toBe(3);
});
