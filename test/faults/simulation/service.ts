import type { Draw } from '../seeds.ts';
import { dayMs, hourMs, toldHoles, toldPrices, toldTicks, type World, type WorldMarket } from './world.ts';

/** How the simulated service tells what it knows; it never tells what is not so. */
export interface Manners {
  /** Ticks of an answer at most, whatever limit was asked for. */
  readonly cap: number;
  /** Which ticks of a window too full it gives. */
  readonly side: 'earliest' | 'latest';
  /** Whether the ends of a window belong to it. */
  readonly fromIncluded: boolean;
  readonly toIncluded: boolean;
  readonly order: 'sorted' | 'reversed' | 'shuffled';
  /** Share of ticks that stand twice in an answer. */
  readonly repeats: number;
  /** The window that an answer states: as asked, the one that its ticks are of, or none. */
  readonly states: 'asked' | 'told' | 'none';
  /** Whether answers say when they were generated. */
  readonly tellsMoment: boolean;
  /** How far its clock is ahead of the collector's, in ms. */
  readonly skewMs: number;
}

export function makeManners(draw: Draw): Manners {
  const tellsMoment = draw.chance(0.85);
  return {
    cap: draw.one([7, 12, 30, 100, 1000]),
    side: draw.one(['earliest', 'latest']),
    fromIncluded: draw.chance(0.7),
    toIncluded: draw.chance(0.4),
    order: draw.one(['sorted', 'sorted', 'reversed', 'shuffled']),
    repeats: draw.one([0, 0, 0.1]),
    states: draw.one(['asked', 'told', 'none']),
    tellsMoment,
    skewMs: tellsMoment && draw.chance(0.4) ? draw.below(120_000) - 60_000 : 0,
  };
}

export interface Service {
  /** The body of the answer to a path with its query, or the status of a refusal; `nowMs`: of the collector's clock. */
  answer(path: string, nowMs: number): string | number;
  /** The body of a tick page of a whole window as it was told at a moment of the service's clock: a recording. */
  page(market: WorldMarket, from: number, to: number, atMs: number): string;
}

export function startService(world: World, manners: Manners, draw: Draw): Service {
  const { cap, side, fromIncluded, toIncluded, order, repeats, states, tellsMoment, skewMs } = manners;

  function ticks(query: URLSearchParams, atMs: number): string | number {
    const market = world.bySymbol.get(query.get('symbol') ?? '');
    if (market === undefined) return 404;
    const [from, to, limit] = ['from', 'to', 'limit'].map((name) => Number(query.get(name)));
    const window = { from: from! + (fromIncluded ? 0 : 1), to: to! + (toIncluded ? 1 : 0) };
    let rows = toldTicks(market, window, atMs).flatMap((tick) =>
      toldPrices(tick, atMs).flatMap((p) =>
        Array.from({ length: draw.chance(repeats) ? 2 : 1 }, () => ({ t: tick.t, p })),
      ),
    );
    const most = Math.min(limit!, cap);
    let stated = { from: from!, to: to! };
    if (rows.length > most) {
      rows = side === 'earliest' ? rows.slice(0, most) : rows.slice(-most);
      if (states === 'told')
        stated = side === 'earliest' ? { from: from!, to: rows.at(-1)!.t } : { from: rows[0]!.t, to: to! };
    }
    if (order === 'reversed') rows.reverse();
    if (order === 'shuffled') rows = shuffled(draw, rows);
    const gaps = toldHoles(market, { from: from!, to: window.to }, atMs);
    return JSON.stringify({
      ...{ symbol: market.symbol, ticks: rows, count: rows.length, ...(states === 'none' ? {} : stated) },
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
      const rows = toldTicks(market, { from, to }, atMs).flatMap((tick) =>
        toldPrices(tick, atMs).map((p) => ({ t: tick.t, p })),
      );
      const gaps = toldHoles(market, { from, to }, atMs);
      // A recording of a service that states where it cut, or of one that echoes the request.
      const saysCut = rows.length > 0 && draw.chance(0.5);
      const ends = saysCut ? { from: rows[0]!.t, to: rows.at(-1)!.t + 1 } : { from, to };
      const around = { count: rows.length, ...ends, generated_at: atMs, ...(gaps.length > 0 ? { gaps } : {}) };
      return JSON.stringify({ symbol: market.symbol, ticks: rows, ...around });
    },
  };
}

function recordOf(market: WorldMarket, atMs: number): object {
  const { canonicalId, symbol, opensAt, closesAt, resolvedAt } = market;
  const isResolved = resolvedAt <= atMs;
  return {
    ...{ canonical_id: canonicalId, ticker: symbol, venue: 'box', category: 'crypto', confidence: 0.9 },
    ...{ is_active: atMs < closesAt, question: `Will ${symbol}?`, close_time: closesAt },
    ...(market.tellsOpening && { open_time: opensAt }),
    ...(isResolved && { resolution_time: resolvedAt, outcome: opensAt % 2 }),
    volume: Math.floor(atMs / hourMs),
  };
}

function shuffled<T>(draw: Draw, items: readonly T[]): T[] {
  const out = [...items];
  for (let i = out.length - 1; i > 0; i--) {
    const j = draw.below(i + 1);
    [out[i], out[j]] = [out[j]!, out[i]!];
  }
  return out;
}
