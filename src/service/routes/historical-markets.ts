import type { HistoricalMarketsQuery } from '../../contract/historical.ts';
import { type MarketsAsked, marketFiles, marketsPage, marketsSlice } from '../../reading/history/market-history.ts';
import { marketCursor, readMarketPlace } from '../cursor.ts';
import { type Desk, type Endpoint, envelope, limitOf, symbolOf, windowOf } from '../historical-service.ts';

/** Markets of one answer, each with its history. */
const marketsMax = 1000;

function asked(desk: Desk, query: HistoricalMarketsQuery): MarketsAsked {
  return {
    source: query.source ?? null,
    category: query.category ?? null,
    symbol: symbolOf(desk, query.symbol)?.symbol ?? null,
    canonicalId: query.canonical_id ?? null,
    words: (query.q ?? '').split(/\s+/u).filter(Boolean),
    resolved: query.resolved ?? null,
    ...windowOf(query),
  };
}

/** GET /api/v1/historical/markets */
export const markets = (desk: Desk): Endpoint<HistoricalMarketsQuery> => ({
  async page(query, signal) {
    const which = asked(desk, query);
    const after = readMarketPlace(query.cursor);
    const limit = limitOf(query.limit, Math.min(marketsMax, desk.context.settings.service.rowsLimitMax));
    return await desk.history.reading(async (generation) => {
      const opened = await generation.open(marketFiles(generation.manifest, which), [], signal);
      try {
        const { markets, total, next } = await marketsPage(opened, which, { after, limit }, signal);
        const cursor = next === null ? null : marketCursor(next);
        const { count, ...rest } = envelope(desk, generation, markets.length, cursor);
        return { markets, count, total, ...rest };
      } finally {
        await opened.close();
      }
    });
  },
  slice(query) {
    const which = asked(desk, query);
    const { symbol, from, to } = which;
    return {
      dataset: 'markets',
      name: 'markets',
      symbol,
      from,
      to,
      step: (manifest) => ({ files: marketFiles(manifest, which), defined: [], slice: marketsSlice(which) }),
    };
  },
});
