import { qualifyMarket } from '../archive/format/qualify-market.ts';
import { qualifySymbol, unqualifySymbol } from '../base/source-name.ts';
import type { Upstream } from '../client/upstream.ts';

/**
 * Wraps the client of one of an archive's several sources. The collector knows qualified symbols only, and the source
 * knows its own: requests are translated on their way out, market records on their way in. Errors stay those of the
 * source: `symbol` in an UpstreamError is its own name, which the text of a response may contain.
 */
export const qualifyUpstream = (upstream: Upstream, source: string, symbolPaths: readonly string[]): Upstream => ({
  ...upstream,
  // Async, so that the symbol of another source is a rejection, as any other error is.
  ticks: async (query, signal) => upstream.ticks({ ...query, symbol: unqualifySymbol(source, query.symbol) }, signal),
  async orderbook(query, signal) {
    const requestedSymbol = unqualifySymbol(source, query.symbol);
    return { ...(await upstream.orderbook({ ...query, symbol: requestedSymbol }, signal)), requestedSymbol };
  },
  async markets(query, signal) {
    const page = await upstream.markets(query, signal);
    const qualify = (name: string): string => qualifySymbol(source, name);
    return { ...page, markets: page.markets.map((record) => qualifyMarket(record, qualify, symbolPaths)) };
  },
});
