import type { HistoricalMarketsQuery } from '../../contract/historical.ts';
import {
  createMarketsSlice,
  type MarketsQuery,
  readMarketsPage,
  selectMarketFiles,
} from '../../reading/history/market-history.ts';
import { decodeMarketCursor, encodeMarketCursor } from '../cursor.ts';
import {
  createEnvelope,
  findRequestedSymbol,
  type HistoricalEndpoint,
  type HistoricalService,
  parseWindowQuery,
  resolveLimit,
} from '../historical-service.ts';

/** Markets of one answer, each with its history. */
const marketsMax = 1000;

function parseMarketsQuery(desk: HistoricalService, query: HistoricalMarketsQuery): MarketsQuery {
  return {
    source: query.source ?? null,
    category: query.category ?? null,
    symbol: findRequestedSymbol(desk, query.symbol)?.symbol ?? null,
    canonicalId: query.canonical_id ?? null,
    words: (query.q ?? '').split(/\s+/u).filter(Boolean),
    resolved: query.resolved ?? null,
    ...parseWindowQuery(query),
  };
}

/** GET /api/v1/historical/markets */
export const createMarketsEndpoint = (desk: HistoricalService): HistoricalEndpoint<HistoricalMarketsQuery> => ({
  async readPage(query, signal) {
    const which = parseMarketsQuery(desk, query);
    const after = decodeMarketCursor(query.cursor);
    const limit = resolveLimit(query.limit, Math.min(marketsMax, desk.context.settings.service.rowsLimitMax));
    return await desk.history.read(async (generation) => {
      const opened = await generation.openQuery(selectMarketFiles(generation.manifest, which), [], signal);
      try {
        const { markets, total, next } = await readMarketsPage(opened, which, { after, limit }, signal);
        const cursor = next === null ? null : encodeMarketCursor(next);
        const { count, ...rest } = createEnvelope(desk, generation, markets.length, cursor);
        return { markets, count, total, ...rest };
      } finally {
        await opened.close();
      }
    });
  },
  createSlice(query) {
    const which = parseMarketsQuery(desk, query);
    const { symbol, from, to } = which;
    return {
      dataset: 'markets',
      name: 'markets',
      symbol,
      from,
      to,
      createStep: (manifest) => ({
        files: selectMarketFiles(manifest, which),
        defined: [],
        slice: createMarketsSlice(which),
      }),
    };
  },
});
