import { expect, test } from 'vitest';
import type { MarketFacts } from '../../src/archive/format/market.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { day0, hourMs, market, now, opened, publishNow } from '../archive/scratch.ts';
import { pagesOf } from './historical-archive.ts';
import { serving } from './serving.ts';

interface Market {
  readonly canonical_id: string;
  readonly symbol: string | null;
}

test('markets without a symbol are published and merged, and served on every page', async () => {
  const archive = opened();
  startRun(archive.state.db, 'run', 'test', process.pid, now);
  const without = (id: string) => market('x', { canonicalId: id, symbol: null });
  const polls: MarketFacts[][] = [
    [without('a'), without('b')],
    [market('S', { canonicalId: 'a' }), without('a'), without('b')],
  ];
  for (const [i, markets] of polls.entries()) {
    appendMarkets(archive.state, { runId: 'run', observedAt: day0 + (i + 1) * hourMs, markets }, []);
    await publishNow(archive);
  }
  const { json } = await serving(archive);
  const namesOf = (markets: readonly Market[]) => markets.map((one) => [one.canonical_id, one.symbol]);
  const expected = [
    ['a', null],
    ['a', 'S'],
    ['b', null],
  ];
  for (const query of ['', 'q=venue&'])
    for (const limit of [1, 2, 10]) {
      const pages = await pagesOf<Market>(json, `/api/v1/historical/markets?${query}limit=${limit}`, 'markets');
      expect(namesOf(pages.flat()), `${query}limit=${limit}`).toEqual(expected);
    }
  const { body } = await json<{ markets: readonly Market[] }>('/api/v1/markets');
  expect(namesOf(body.markets).map(([id, symbol]) => [id, symbol ?? null])).toEqual(expected);
});
