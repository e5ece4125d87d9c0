import {
  composePage,
  computeMatchedWindow,
  defaultTickBehavior,
  type TickBehavior,
} from '../../../src/sandbox/tick-behavior.ts';
import type { Draw } from '../seeds.ts';
import {
  dayMs,
  hourMs,
  listVisibleGaps,
  listVisiblePrices,
  listVisibleTicks,
  type World,
  type WorldMarket,
  type WorldTick,
} from './world.ts';

/** How the simulated service presents its data. Its data is always true, and each page is contiguous. */
interface ServiceBehavior {
  /** Its paging, with the sandbox's own code. */
  readonly paging: TickBehavior;
  /** Whether responses state generated_at. */
  readonly tellsMoment: boolean;
  /** How far its clock is ahead of the collector's, in ms. */
  readonly skewMs: number;
}

export function drawServiceBehavior(draw: Draw): ServiceBehavior {
  const tellsMoment = draw.chance(0.85);
  const paging: TickBehavior = {
    ...defaultTickBehavior,
    cap: draw.one([7, 12, 30, 100, 1000]),
    capUnit: draw.one(['rows', 'rows', 'bytes']),
    capVariation: draw.one([0, 0, 0.02, 0.3]),
    truncate: draw.one(['earliest', 'latest']),
    fromInclusive: draw.chance(0.7),
    toInclusive: draw.chance(0.4),
    order: draw.one(['ascending', 'ascending', 'newest-first', 'shuffled']),
    repeatShare: draw.one([0, 0, 0.1]),
    carryInShare: draw.one([0, 0, 0, 0.5, 1]),
    echoWindow: draw.one(['echo', 'tightened', 'none']),
  };
  return { paging, tellsMoment, skewMs: tellsMoment && draw.chance(0.4) ? draw.below(120_000) - 60_000 : 0 };
}

/** Elements that fit on every page: a millisecond may have two prices, each of them twice. */
const capMin = 5;

export interface Service {
  /** The response body for a path with its query, or the status of a refusal; `nowMs`: of the collector's clock. */
  answer(path: string, nowMs: number): string | number;
  /** A page of a full window as of a time of the service's clock: a recording. */
  page(market: WorldMarket, from: number, to: number, atMs: number): string;
}

export function startService(world: World, manners: ServiceBehavior, draw: Draw): Service {
  const { paging, tellsMoment, skewMs } = manners;
  let requests = 0;

  function ticks(query: URLSearchParams, atMs: number): string | number {
    const market = world.bySymbol.get(query.get('symbol') ?? '');
    if (market === undefined) return 404;
    const [from, to, limit] = ['from', 'to', 'limit'].map((name) => Number(query.get(name)));
    const requested = { from: from!, to: to! };
    const window = computeMatchedWindow(requested, paging);
    const rowsOf = (visible: readonly WorldTick[]) =>
      visible.flatMap((tick) => listVisiblePrices(tick, atMs).map((p) => ({ t: tick.t, p })));
    const before = rowsOf(listVisibleTicks(market, { from: 0, to: window.from }, atMs)).slice(-1);
    const request = { window: requested, limit: limit!, n: ++requests, rank: 0, nowMs: atMs, oldestMs: 0, draw };
    const page = composePage(before, rowsOf(listVisibleTicks(market, window, atMs)), request, paging, capMin);
    const gaps = listVisibleGaps(market, { from: requested.from, to: window.to }, atMs);
    return JSON.stringify({
      symbol: market.symbol,
      ticks: page.elements,
      count: page.elements.length,
      ...(page.from !== null && { from: page.from }),
      ...(page.to !== null && { to: page.to }),
      ...(tellsMoment ? { generated_at: atMs } : {}),
      ...(gaps.length > 0 ? { gaps } : {}),
    });
  }

  function markets(query: URLSearchParams, atMs: number): string {
    const view = query.get('view');
    const listed = world.markets.filter(
      (market) =>
        market.opensAt <= atMs && atMs < market.goneAt && (view !== 'resolving' || market.closesAt - dayMs <= atMs),
    );
    const records = listed.map((market) => recordOf(market, atMs));
    const total = records.length;
    return JSON.stringify({ markets: records, count: total, total, view, ...(tellsMoment && { generated_at: atMs }) });
  }

  function orderbook(query: URLSearchParams, atMs: number): string | number {
    const market = world.bySymbol.get(query.get('symbol') ?? '');
    if (market === undefined || atMs >= market.closesAt) return 404;
    const level = (price: number) => ({ price, quantity: 1 + draw.below(500) });
    const bids = Array.from({ length: draw.below(4) }, (_, i) => level((40 - i) / 100));
    const asks = Array.from({ length: draw.below(4) }, (_, i) => level((45 + i) / 100));
    return JSON.stringify({ symbol: market.symbol, bids, asks, generated_at: atMs });
  }

  return {
    answer(path, nowMs) {
      const url = new URL(path, 'http://box.test');
      const atMs = nowMs + skewMs;
      if (url.pathname.endsWith('/ticks')) return ticks(url.searchParams, atMs);
      if (url.pathname.endsWith('/markets')) return markets(url.searchParams, atMs);
      if (url.pathname.endsWith('/orderbook')) return orderbook(url.searchParams, atMs);
      return 404;
    },
    page(market, from, to, atMs) {
      const rows = listVisibleTicks(market, { from, to }, atMs).flatMap((tick) =>
        listVisiblePrices(tick, atMs).map((p) => ({ t: tick.t, p })),
      );
      const gaps = listVisibleGaps(market, { from, to }, atMs);
      // A recording of a service that states where it truncated, or of one that echoes the request.
      const saysCut = rows.length > 0 && draw.chance(0.5);
      const ends = saysCut ? { from: rows[0]!.t, to: rows.at(-1)!.t + 1 } : { from, to };
      const envelope = { count: rows.length, ...ends, generated_at: atMs, ...(gaps.length > 0 ? { gaps } : {}) };
      return JSON.stringify({ symbol: market.symbol, ticks: rows, ...envelope });
    },
  };
}

function recordOf(market: WorldMarket, atMs: number): object {
  const { canonicalId, symbol, opensAt, closesAt, resolvedAt } = market;
  const isResolved = resolvedAt <= atMs;
  return {
    canonical_id: canonicalId,
    ticker: symbol,
    venue: 'box',
    category: 'crypto',
    confidence: 0.9,
    is_active: atMs < closesAt,
    question: `Will ${symbol}?`,
    close_time: closesAt,
    ...(market.tellsOpening && { open_time: opensAt }),
    ...(isResolved && { resolution_time: resolvedAt, outcome: opensAt % 2 }),
    volume: Math.floor(atMs / hourMs),
  };
}
