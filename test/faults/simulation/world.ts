import type { Window } from '../../../src/base/window.ts';
import type { Draw } from '../seeds.ts';

// The world behind the service: markets that open, burst, close and resolve, late ticks, revised prices, and windows
// that the service lost. Times are of the service's clock, epoch ms.

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

export interface WorldTick {
  readonly t: number;
  /** When it becomes visible; infinite: never. */
  readonly visibleAt: number;
  /** Its prices, each with its start time; the first from the beginning. */
  readonly prices: readonly { readonly at: number; readonly p: number }[];
  /** A second price that is always returned for the same time. */
  readonly twin: number | null;
}

/** A window that the service states as a gap, until it has the data again. */
export interface ServiceGap extends Window {
  readonly until: number;
}

export interface WorldMarket {
  readonly symbol: string;
  readonly canonicalId: string;
  readonly opensAt: number;
  readonly closesAt: number;
  readonly resolvedAt: number;
  /** When the lists drop it. */
  readonly goneAt: number;
  /** Whether its records state when it opens. */
  readonly tellsOpening: boolean;
  /** In order of time. */
  readonly ticks: readonly WorldTick[];
  readonly holes: readonly ServiceGap[];
}

export interface World {
  readonly markets: readonly WorldMarket[];
  readonly bySymbol: ReadonlyMap<string, WorldMarket>;
}

const oddNames = ['A/B', 'Ünï 🚀', 'X.Y-1', 'a b?c'];

/** A world between two times. */
export function makeWorld(draw: Draw, { from, to }: Window): World {
  const count = 5 + draw.below(8);
  const isCalm = draw.chance(0.2);
  const withHoles = draw.chance(0.5);
  const markets = Array.from({ length: count }, (_, i) => makeMarket(draw, i, { from, to }, isCalm, withHoles));
  return { markets, bySymbol: new Map(markets.map((market) => [market.symbol, market])) };
}

function makeMarket(draw: Draw, index: number, { from, to }: Window, isCalm: boolean, withHoles: boolean): WorldMarket {
  const symbol = draw.chance(0.2) ? `${oddNames[index % oddNames.length]}${index}` : `KX-${index}`;
  const lengthMs = to - from;
  const opensAt = Math.floor(from - 3 * dayMs + (draw.chance(0.5) ? 0 : draw() * lengthMs * 0.8));
  const closesAt = draw.chance(0.3) ? to + 90 * dayMs : Math.floor(opensAt + (1 + draw() * 20) * dayMs);
  const resolvedAt = closesAt + Math.floor(draw() * 12 * hourMs);
  const end = Math.min(resolvedAt, to);
  const holes = withHoles && draw.chance(0.4) ? drawGaps(draw, { from: opensAt, to: end }) : [];
  const times = new Set<number>();
  for (let t = opensAt + draw.below(hourMs); t < end; t += Math.floor((1 + draw() * 8) * hourMs)) times.add(t);
  const bursts = draw.below(4);
  for (let i = 0; i < bursts; i++) {
    let t = Math.floor(opensAt + draw() * (end - opensAt));
    for (let n = 10 + draw.below(50); n > 0 && t < end; n--, t += 1 + draw.below(draw.one([3, 60_000]))) times.add(t);
  }
  // Days are split at midnight.
  if (draw.chance(0.5)) {
    const midnight = Math.ceil((opensAt + draw() * (end - opensAt)) / dayMs) * dayMs;
    for (const t of [midnight - 1, midnight]) if (t > opensAt && t < end) times.add(t);
  }
  const ticks = [...times].sort((a, b) => a - b).map((t) => makeTick(draw, t, isCalm, holes));
  return {
    symbol,
    canonicalId: `id-${index}`,
    opensAt,
    closesAt,
    resolvedAt,
    ticks,
    holes,
    goneAt: resolvedAt + Math.floor(draw() * 4 * dayMs),
    tellsOpening: draw.chance(0.8),
  };
}

const cents = (draw: Draw): number => (1 + draw.below(99)) / 100;

function makeTick(draw: Draw, t: number, isCalm: boolean, holes: readonly ServiceGap[]): WorldTick {
  const gap = holes.find((w) => w.from <= t && t < w.to);
  const lateMs = isCalm || draw.chance(0.85) ? 0 : draw.chance(0.6) ? draw() * 50 * 60_000 : draw() * 2 * dayMs;
  const visibleAt = gap === undefined ? t + Math.floor(lateMs) : Math.max(gap.until, t);
  const prices = [{ at: Number.NEGATIVE_INFINITY, p: cents(draw) }];
  for (let at = visibleAt; !isCalm && Number.isFinite(at) && draw.chance(0.08); ) {
    at += Math.floor(draw() * (draw.chance(0.7) ? hourMs : 3 * dayMs));
    prices.push({ at, p: cents(draw) });
  }
  return { t, visibleAt, prices, twin: !isCalm && draw.chance(0.02) ? cents(draw) : null };
}

function drawGaps(draw: Draw, { from, to }: Window): ServiceGap[] {
  const start = Math.floor(from + draw() * Math.max(0, to - from));
  const end = start + Math.floor((0.5 + draw() * 12) * hourMs);
  return [
    { from: start, to: end, until: draw.chance(0.5) ? Number.POSITIVE_INFINITY : end + Math.floor(draw() * 3 * dayMs) },
  ];
}

/** The ticks of [from, to) visible at a time. */
export function listVisibleTicks(market: WorldMarket, { from, to }: Window, atMs: number): WorldTick[] {
  const { ticks } = market;
  let low = 0;
  for (let high = ticks.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (ticks[middle]!.t < from) low = middle + 1;
    else high = middle;
  }
  const out: WorldTick[] = [];
  for (let i = low; i < ticks.length && ticks[i]!.t < to; i++) if (ticks[i]!.visibleAt <= atMs) out.push(ticks[i]!);
  return out;
}

/** The visible prices of a tick at a time: one, or two. */
export function listVisiblePrices({ prices, twin }: WorldTick, atMs: number): number[] {
  const p = prices.findLast(({ at }) => at <= atMs)!.p;
  return twin === null || twin === p ? [p] : [p, twin];
}

/** The gaps in a window at a time. */
export const listVisibleGaps = (market: WorldMarket, { from, to }: Window, atMs: number): Window[] =>
  market.holes
    .filter((gap) => atMs < gap.until && gap.from < to && from < gap.to && gap.from < atMs)
    .map((gap) => ({ from: Math.max(gap.from, from), to: Math.min(gap.to, to) }));
