import { textKey } from '../core/random.ts';
import { dayMs } from '../core/window.ts';
import { bookText } from './book-shapes.ts';
import type { Feed, SandboxMarket } from './data-source.ts';
import type { SandboxOptions } from './options.ts';
import { orderBook } from './order-book.ts';
import { visiblePart } from './query-ticks.ts';
import { type Answer, json, problem } from './response.ts';
import { pageLayouts, pageText } from './tick-page.ts';
import { tickPage } from './tick-query.ts';

/** What a route sees: the feed, the sandbox's moment, and which untruth is asked for. */
export interface RouteContext {
  readonly feed: Feed;
  readonly options: SandboxOptions;
  readonly nowMs: number;
  /** Number of the request, from 0. */
  readonly n: number;
  /** Number of the tick request among those of its symbol, from 1. */
  readonly nOfSymbol: number;
  readonly untruth: 'wrong-symbol' | 'wrong-count' | undefined;
}

export function marketsRoute(query: URLSearchParams, context: RouteContext): Answer {
  const { feed, options, nowMs } = context;
  const view = query.get('view') ?? 'matched';
  if (view !== 'matched' && view !== 'resolving') return problem(400, 'view must be matched or resolving');
  const limit = wholeNumber(query, 'limit');
  if (limit === 'bad') return problem(400, 'limit must be a whole number, not negative');
  const source = query.get('source');
  const matching = feed
    .markets(nowMs)
    .filter((market) => view === 'matched' || isResolving(market, nowMs))
    .filter((market) => source === null || sourcesOf(market).includes(source));
  const markets = matching.slice(0, Math.min(options.marketsCap, limit ?? options.marketsCap));
  const count = markets.length + (context.untruth === 'wrong-count' ? 1 : 0);
  return json(JSON.stringify({ markets, count, total: matching.length, view, generated_at: nowMs }));
}

/** The narrower slice: closing within a day, or closed and waiting for its outcome. */
function isResolving(market: SandboxMarket, nowMs: number): boolean {
  if (!market.is_active) return market.outcome === undefined;
  return market.closes_at !== undefined && market.closes_at - nowMs <= dayMs;
}

function sourcesOf(market: SandboxMarket): readonly (string | undefined)[] {
  return market.venues?.map(({ source }) => source) ?? [market.source];
}

export function ticksRoute(query: URLSearchParams, context: RouteContext): Answer {
  const { feed, options, nowMs } = context;
  const symbol = knownSymbol(query, context);
  if (typeof symbol !== 'string') return symbol;
  const from = wholeNumber(query, 'from');
  const to = wholeNumber(query, 'to');
  const limit = wholeNumber(query, 'limit');
  if (from === 'bad' || to === 'bad') return problem(400, 'from and to must be epoch milliseconds');
  if (limit === 'bad' || limit === 0) return problem(400, 'limit must be a whole number from 1');
  if (from !== undefined && to !== undefined && from > to) return problem(400, 'from must not be after to');
  const page = tickPage(feed, { symbol, from, to, limit }, context.nOfSymbol, nowMs, options);
  const layout = options.layout === 'mixed' ? pageLayouts[context.n % pageLayouts.length]! : options.layout;
  const told = {
    ...page,
    symbol: context.untruth === 'wrong-symbol' ? `${symbol}-X` : symbol,
    count: page.count + (context.untruth === 'wrong-count' ? 1 : 0),
  };
  const usable = page.kinds?.filter((kind) => kind === 'tick').length ?? page.count;
  return json(pageText(told, layout), context.untruth === undefined ? usable : 0);
}

export function orderbookRoute(query: URLSearchParams, context: RouteContext): Answer {
  const { feed, options, nowMs } = context;
  if (options.booksForbidden) return problem(403, 'this key may not read order books');
  if (options.bookShapes.length === 0) return problem(404, 'no such path');
  const symbol = knownSymbol(query, context);
  if (typeof symbol !== 'string') return symbol;
  const window = { from: 0, to: nowMs };
  const last = visiblePart(feed, { symbol, window, asOfMs: nowMs }, { side: 'latest', rowsMax: 1 }, options);
  const book = orderBook(last.ticks.p[0], textKey(options.seed, symbol), nowMs);
  const told = context.untruth === 'wrong-symbol' ? `${symbol}-X` : symbol;
  const shape = options.bookShapes[context.n % options.bookShapes.length]!;
  return json(bookText(shape, { symbol: told, nowMs, book }));
}

function knownSymbol(query: URLSearchParams, { feed, options, nowMs }: RouteContext): string | Answer {
  const symbol = query.get('symbol');
  if (symbol === null || symbol === '') return problem(400, 'symbol is required');
  const status = Object.hasOwn(options.faultSymbols, symbol) ? options.faultSymbols[symbol] : undefined;
  if (status === 500) return problem(500, 'this symbol always fails');
  if (status === 404 || feed.life(symbol, nowMs) === undefined) return problem(404, `no such symbol: ${symbol}`);
  return symbol;
}

function wholeNumber(query: URLSearchParams, name: string): number | undefined | 'bad' {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) ? value : 'bad';
}
