import { createRandom, drawAt, hashNumber, hashText } from '../base/random.ts';
import { dayMs, intersect, intersectTwo, isEmpty, isWithin, type Window } from '../base/window.ts';
import { type Feed, readVisibleTicks, type SandboxMarket } from './feed.ts';
import {
  createOrderBook,
  type ElementKind,
  formatBook,
  formatTickPage,
  pageLayouts,
  type SandboxTickPage,
} from './page-formats.ts';
import { createErrorAsSuccess, createJsonResponse, createProblem, type SandboxResponse } from './responses.ts';
import type { SandboxOptions } from './sandbox-options.ts';
import {
  composePage,
  computeClampedWindow,
  computeGeneratedAt,
  computeMatchedWindow,
  computePageRowsMax,
  getKeptSide,
  isUsable,
  needsWholeWindow,
} from './tick-behavior.ts';

/** Inputs of a route: the feed, the sandbox's current time, and the options. */
export interface RouteContext {
  readonly feed: Feed;
  readonly options: SandboxOptions;
  readonly nowMs: number;
  /** Number of the request, from 0. */
  readonly requestNumber: number;
  /** Number of the tick request for its symbol, from 1. */
  readonly symbolRequestNumber: number;
  readonly bodyFault: 'wrong-symbol' | 'wrong-count' | undefined;
}

export function handleMarkets(query: URLSearchParams, context: RouteContext): SandboxResponse {
  const { feed, options, nowMs } = context;
  const view = query.get('view') ?? 'matched';
  if (view !== 'matched' && view !== 'resolving') return createProblem(400, 'view must be matched or resolving');
  const limit = parseWholeNumber(query, 'limit');
  if (limit === 'bad') return createProblem(400, 'limit must be a non-negative whole number');
  const source = query.get('source');
  const listed = feed
    .markets(nowMs)
    .filter((market) => view === 'matched' || isResolving(market, nowMs))
    .filter((market) => source === null || listSources(market).includes(source));
  const draw = (i: number): number => drawAt(options.seed ^ context.requestNumber, i);
  const order = listed.map((market, i) => ({ market, at: draw(i) })).sort((a, b) => a.at - b.at);
  const matching = options.marketsShuffled ? order.map(({ market }) => market) : listed;
  const markets = matching.slice(0, Math.min(options.marketsCap, limit ?? options.marketsCap));
  const total = {
    matching: matching.length,
    capped: Math.min(matching.length, options.marketsCap),
    response: markets.length,
  };
  const count = markets.length + (context.bodyFault === 'wrong-count' ? 1 : 0);
  return createJsonResponse(
    JSON.stringify({ markets, count, total: total[options.marketsTotal], view, generated_at: nowMs }),
  );
}

/** The narrower list: markets that close within a day, or are closed and not resolved. */
function isResolving(market: SandboxMarket, nowMs: number): boolean {
  if (!market.is_active) return market.outcome === undefined;
  return market.closes_at !== undefined && market.closes_at - nowMs <= dayMs;
}

function listSources(market: SandboxMarket): readonly (string | undefined)[] {
  return market.venues?.map(({ source }) => source) ?? [market.source];
}

export function handleTicks(query: URLSearchParams, context: RouteContext): SandboxResponse {
  const { feed, options, nowMs } = context;
  const symbol = requireSymbol(query, context);
  if (typeof symbol !== 'string') return symbol;
  const from = parseWholeNumber(query, 'from');
  const to = parseWholeNumber(query, 'to');
  const limit = parseWholeNumber(query, 'limit');
  if (from === 'bad' || to === 'bad') return createProblem(400, 'from and to must be epoch milliseconds');
  if (limit === 'bad' || limit === 0) return createProblem(400, 'limit must be a positive whole number');
  if (from !== undefined && to !== undefined && from > to) return createProblem(400, 'from must not be after to');
  const page = createTickPage(feed, { symbol, from, to, limit }, context.symbolRequestNumber, nowMs, options);
  const layout = options.layout === 'mixed' ? pageLayouts[context.requestNumber % pageLayouts.length]! : options.layout;
  const body = {
    ...page,
    symbol: context.bodyFault === 'wrong-symbol' ? `${symbol}-X` : symbol,
    count: page.count + (context.bodyFault === 'wrong-count' ? 1 : 0),
  };
  const usable = page.kinds?.filter((kind) => kind === 'tick').length ?? page.count;
  return createJsonResponse(formatTickPage(body, layout), context.bodyFault === undefined ? usable : 0);
}

export function handleOrderbook(query: URLSearchParams, context: RouteContext): SandboxResponse {
  const { feed, options, nowMs } = context;
  if (options.booksForbidden) return createProblem(403, 'this key may not read order books');
  if (options.bookShapes.length === 0) return createProblem(404, 'no such path');
  const symbol = requireSymbol(query, context);
  if (typeof symbol !== 'string') return symbol;
  const window = { from: 0, to: nowMs };
  const last = readVisibleTicks(feed, { symbol, window, asOfMs: nowMs }, { side: 'latest', rowsMax: 1 }, options);
  const book = createOrderBook(last.ticks.p[0], hashText(options.seed, symbol), nowMs);
  const symbolShown = context.bodyFault === 'wrong-symbol' ? `${symbol}-X` : symbol;
  const shape = options.bookShapes[context.requestNumber % options.bookShapes.length]!;
  return createJsonResponse(formatBook(shape, { symbol: symbolShown, nowMs, book }));
}

function requireSymbol(query: URLSearchParams, { feed, options, nowMs }: RouteContext): string | SandboxResponse {
  const symbol = query.get('symbol');
  if (symbol === null || symbol === '') return createProblem(400, 'symbol is required');
  const status = Object.hasOwn(options.faultSymbols, symbol) ? options.faultSymbols[symbol] : undefined;
  if (status === 200) return createErrorAsSuccess();
  if (status === 500) return createProblem(500, 'this symbol always fails');
  if (status === 404 || feed.getLifetime(symbol, nowMs) === undefined)
    return createProblem(404, `no such symbol: ${symbol}`);
  return symbol;
}

function parseWholeNumber(query: URLSearchParams, name: string): number | undefined | 'bad' {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) ? value : 'bad';
}

interface TickQuery {
  readonly symbol: string;
  readonly from: number | undefined;
  readonly to: number | undefined;
  readonly limit: number | undefined;
}

/** Number of different caps with `capBySymbol`. */
const symbolCapsMax = 4;

/**
 * One page, truncated, ordered and with repetitions, as the service would send it.
 * @param n number of the tick request for the symbol, from 1; with the seed it determines every draw
 */
function createTickPage(
  feed: Feed,
  query: TickQuery,
  n: number,
  nowMs: number,
  options: SandboxOptions,
): SandboxTickPage {
  const { symbol } = query;
  const key = hashText(options.seed, symbol);
  const draw = createRandom(hashNumber(key ^ 0x9a6e, n));
  const to = query.to ?? nowMs;
  const window = { from: query.from ?? to - options.defaultWindowMs, to };
  const oldestMs = options.retentionMs === null ? Number.NEGATIVE_INFINITY : nowMs - options.retentionMs;
  const limit = query.limit ?? options.defaultLimit;
  const request = { window, limit, n, rank: key % symbolCapsMax, nowMs, oldestMs, draw };
  const lags = options.replicaLagsMs;
  const asOfMs = nowMs - (lags.length === 1 ? lags[0]! : lags[Math.floor(draw() * lags.length)]!);
  const visibleRows = createVisibleReader(feed, symbol, asOfMs, options);

  const matched = computeMatchedWindow(window, options);
  const inside = intersectTwo(matched, { from: oldestMs, to: nowMs + 1 });
  const part = {
    side: getKeptSide(n, options),
    rowsMax: needsWholeWindow(options) ? Number.POSITIVE_INFINITY : computePageRowsMax(options, limit),
  };
  const before =
    options.carryInShare === 0
      ? []
      : visibleRows({ from: Math.max(0, oldestMs), to: matched.from }, { side: 'latest', rowsMax: 1 });
  const page = composePage(before.slice(-1), visibleRows(inside, part), request, options);
  const { elements, from } = page;
  const kinds = elements.map((row): ElementKind => {
    if (row === null) return 'invalid';
    return isUsable(row, options) ? 'tick' : 'unusable';
  });
  const gaps = intersect(options.gaps, [computeClampedWindow(request)]);
  return {
    symbol,
    t: Float64Array.from(elements, (row) => row?.t ?? 0),
    p: Float64Array.from(elements, (row) => row?.p ?? 0),
    count: elements.length,
    from,
    to: page.to,
    generatedAt: computeGeneratedAt(nowMs, options),
    ...(kinds.some((kind) => kind !== 'tick') ? { kinds } : {}),
    ...(gaps.length > 0 ? { gaps } : {}),
  };
}

interface VisibleRow {
  readonly t: number;
  readonly p: number;
}

/** Reads the visible ticks of a symbol, without those in gaps. */
function createVisibleReader(feed: Feed, symbol: string, asOfMs: number, options: SandboxOptions) {
  return (window: Window, part: Parameters<typeof readVisibleTicks>[2]): VisibleRow[] => {
    if (isEmpty(window)) return [];
    const { gaps } = options;
    // Ticks in gaps do not count toward the requested rows.
    const limits = gaps.length === 0 ? part : { ...part, rowsMax: Number.POSITIVE_INFINITY };
    const { t, p } = readVisibleTicks(feed, { symbol, window, asOfMs }, limits, options).ticks;
    const rows = Array.from(t, (time, i) => ({ t: time, p: p[i]! }));
    return rows.filter((row) => !gaps.some((gap) => isWithin(row.t, gap)));
  };
}
