import type { ServerResponse } from 'node:http';
import { floorToDay } from '../../src/base/window.ts';
import { type MarketsBody, type Reply, type Requested, startScripted } from '../collector/run/scripted-service.ts';
import type { Draw } from '../faults/draw.ts';
import type { WorldSymbol } from './world.ts';

// A simulated service with faults that records what it delivered.

/** The behaviour of the service toward a symbol in one night. */
export type SymbolBehavior = 'well' | '500' | '404' | 'reset' | 'unreadable' | 'breaks off';
export type ListBehavior = 'well' | 'cut' | '500' | 'one view cut';

/** A response: its time, and the window and ticks in it. */
interface Delivered {
  readonly symbol: string;
  readonly from: number;
  readonly to: number;
  readonly at: number;
}

export interface WholeService {
  readonly url: string;
  readonly delivered: readonly Delivered[];
  /** When lists first named each symbol to the collector. */
  readonly listedAt: ReadonlyMap<string, number>;
  /** UTC midnights of the days in which every list was delivered completely. */
  readonly listedWhole: ReadonlySet<number>;
  /** When the lists were asked for last. */
  listsAskedAt(): number;
  nowMs(): number;
  /** Sets the time and the moods of a night; symbols without one are well. */
  begin(nowMs: number, moods: ReadonlyMap<string, SymbolBehavior>, lists: ListBehavior): void;
  stop(): Promise<void>;
}

const fail = (status: number) => (response: ServerResponse) => void response.writeHead(status).end('no');
const reset = (response: ServerResponse) => void response.destroy();

export async function startService(draw: Draw, world: readonly WorldSymbol[], nowMs: number): Promise<WholeService> {
  const box = await startScripted(
    nowMs,
    world.map(({ symbol }) => symbol),
  );
  const bySymbol = new Map(world.map((one) => [one.symbol, one]));
  const delivered: Delivered[] = [];
  const listedAt = new Map<string, number>();
  const listedWhole = new Set<number>();
  let listsAskedAt = Number.NEGATIVE_INFINITY;
  let moods: ReadonlyMap<string, SymbolBehavior> = new Map();
  let lists: ListBehavior = 'well';
  const requestCounts = new Map<string, number>();
  // Paging: a cap that truncates often or never, the truncation side, and the stated ends.
  const cap = draw.one([4, 7, 20, 500]);
  const keeps = draw.one(['earliest', 'earliest', 'latest'] as const);
  const echo = draw.one(['stated', 'echo', 'echo'] as const);
  const stepMs = draw.one([0, 1, 40]);
  const visibleTicks = (symbol: string, from: number, to: number) =>
    bySymbol
      .get(symbol)!
      .ticks.filter(({ t, visibleAt }) => from <= t && t < Math.min(to, box.nowMs) && visibleAt <= box.nowMs)
      .map(({ t, p }) => ({ t, p }));
  box.truth = visibleTicks;

  function ticks(request: Requested): Reply {
    box.nowMs += stepMs;
    const { symbol, from, to } = request;
    const n = requestCounts.get(symbol) ?? 0;
    requestCounts.set(symbol, n + 1);
    const behavior = moods.get(symbol) ?? 'well';
    if (behavior === '500' || (behavior === 'breaks off' && n > 0)) return fail(500);
    if (behavior === '404') return fail(404);
    if (behavior === 'reset') return reset;
    if (behavior === 'unreadable') return '{"ticks": [1, 2';
    const all = visibleTicks(symbol, from, to);
    const limit = Math.min(cap, request.limit);
    const page = keeps === 'earliest' ? all.slice(0, limit) : all.slice(-limit);
    const isCut = page.length < all.length;
    const low = isCut && keeps === 'latest' ? page[0]!.t : from;
    const high = isCut && keeps === 'earliest' ? page.at(-1)!.t + 1 : Math.min(to, box.nowMs);
    delivered.push({ symbol, from: low, to: high, at: box.nowMs });
    const ends = echo === 'stated' ? { from: low, to: high } : { from, to };
    return { symbol, ticks: page, count: page.length, ...ends, generated_at: box.nowMs };
  }

  function markets(honest: MarketsBody): Reply {
    box.nowMs += stepMs;
    listsAskedAt = box.nowMs;
    if (lists === '500') return fail(500);
    const all = honest.markets
      .filter(({ symbol }) => bySymbol.get(symbol)!.listedFrom <= box.nowMs)
      .map((market) => {
        const { opensAt, resolvedAt } = bySymbol.get(market.symbol)!;
        const isResolved = resolvedAt !== null && resolvedAt <= box.nowMs;
        return {
          ...market,
          ...(opensAt !== null && { opens_at: opensAt }),
          ...(isResolved && { is_active: false, resolved_at: resolvedAt }),
        };
      });
    const isCut = lists === 'cut' || (lists === 'one view cut' && honest.view === 'matched');
    const listedSymbols = isCut ? all.slice(0, Math.max(1, all.length - 2)) : all;
    for (const { symbol } of listedSymbols) if (!listedAt.has(symbol)) listedAt.set(symbol, box.nowMs);
    if (lists === 'well') listedWhole.add(floorToDay(box.nowMs));
    return {
      ...honest,
      markets: listedSymbols,
      count: listedSymbols.length,
      total: all.length,
      generated_at: box.nowMs,
    };
  }

  box.script = { ticks: (_, request) => ticks(request), markets: (honest) => markets(honest) };
  return {
    url: box.url,
    delivered,
    listedAt,
    listedWhole,
    listsAskedAt: () => listsAskedAt,
    nowMs: () => box.nowMs,
    begin(at, now, ofLists) {
      box.nowMs = at;
      moods = now;
      lists = ofLists;
      requestCounts.clear();
    },
    stop: () => box.stop(),
  };
}
