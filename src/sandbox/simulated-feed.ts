import { createRandom, drawAt, hashNumber } from '../base/random.ts';
import { emptyTicks, type TickColumns } from '../base/ticks.ts';
import { dayMs, hourMs } from '../base/window.ts';
import { concatTicks, type Feed, findRow, sliceTicks } from './data-source.ts';
import {
  createMarketCatalogue,
  getMarketLifetime,
  type SimulatedMarket,
  type SimulatedSymbol,
  type Simulation,
  toListedMarket,
} from './simulated-markets.ts';

/** Ticks kept ready, over all hours: 16 bytes each. */
const cachedTicksMax = 2_000_000;
const cachedHoursMax = 50_000;

/** Markets and ticks computed from a seed: any window, asked in any order, gives the same. */
export function createSimulatedFeed(simulation: Simulation): Feed {
  const catalogue = createMarketCatalogue(simulation);
  const hourOf = createHourCache(simulation.ticksPerDay);
  return {
    symbols: (nowMs) => catalogue.opened(nowMs).flatMap((market) => market.symbols.map(({ symbol }) => symbol)),
    getLifetime(symbol, nowMs) {
      const found = catalogue.find(symbol, nowMs);
      return found === undefined ? undefined : getMarketLifetime(found.market, simulation.epochMs);
    },
    ticks(symbol, window) {
      const found = catalogue.met(symbol);
      if (found === undefined) return emptyTicks;
      const life = getMarketLifetime(found.market, simulation.epochMs);
      const from = Math.max(window.from, life.from);
      const to = Math.min(window.to, life.to);
      const blocks: TickColumns[] = [];
      for (let hour = Math.floor(from / hourMs); hour * hourMs < to; hour++) {
        const { t, p } = hourOf(found.market, found.symbol, hour);
        const block = sliceTicks({ t, p }, findRow(t, from), findRow(t, to));
        if (block.t.length > 0) blocks.push(block);
      }
      return concatTicks(blocks);
    },
    markets: (nowMs) =>
      catalogue
        .opened(nowMs)
        .map((market) => toListedMarket(market, nowMs))
        .filter((market) => market !== undefined),
  };
}

/** Hours lately asked for; the one unused for longest goes first. */
function createHourCache(ticksPerDay: number) {
  const cache = new Map<string, TickColumns>();
  let cachedTicks = 0;
  return (market: SimulatedMarket, symbol: SimulatedSymbol, hour: number): TickColumns => {
    const key = `${hour} ${symbol.symbol}`;
    const known = cache.get(key);
    if (known !== undefined) {
      cache.delete(key);
      cache.set(key, known);
      return known;
    }
    const ticks = generateHourTicks(market, symbol, hour, ticksPerDay);
    cache.set(key, ticks);
    cachedTicks += ticks.t.length;
    for (const [oldest, dropped] of cache) {
      if (cachedTicks <= cachedTicksMax && cache.size <= cachedHoursMax) break;
      cache.delete(oldest);
      cachedTicks -= dropped.t.length;
    }
    return ticks;
  };
}

/** How an hour departs from the mean: a quarter are quiet, one in twelve is a burst; the mean over all is 1. */
const quiet = { share: 0.25, factor: 0.1 };
const burst = { share: 1 / 12, factor: 5 };
const usualFactor = (1 - quiet.share * quiet.factor - burst.share * burst.factor) / (1 - quiet.share - burst.share);
/** Between close and resolution hardly anybody trades. */
const closedFactor = 0.05;

/** Expected ticks of the symbol in that hour of UTC, were it open all the while. */
function computeExpectedTicks(symbol: SimulatedSymbol, hour: number, ticksPerDay: number): number {
  const dice = drawAt(symbol.key ^ 0xb0, hour);
  const kind = dice < quiet.share ? quiet.factor : dice > 1 - burst.share ? burst.factor : usualFactor;
  const daily = 1 + 0.6 * Math.sin(((hour - 9) / 12) * Math.PI);
  return (ticksPerDay / 24) * symbol.weight * kind * daily;
}

/**
 * All ticks of a symbol in one hour of UTC (counted from 1970), from nothing but its keys: a Poisson process by
 * exponential steps, cut to the market's life, and the last ticks at exactly 0 or 1.
 */
export function generateHourTicks(
  market: SimulatedMarket,
  symbol: SimulatedSymbol,
  hour: number,
  ticksPerDay: number,
): TickColumns {
  const from = hour * hourMs;
  const to = from + hourMs;
  const t: number[] = [];
  const p: number[] = [];
  const price = createPriceFunction(market, symbol);
  const random = createRandom(hashNumber(symbol.key ^ 0x71c5, hour));
  const stepMs = hourMs / computeExpectedTicks(symbol, hour, ticksPerDay);
  let last = -1;
  for (let at = from; ; ) {
    at += -Math.log(1 - random()) * (at >= market.closesAt ? stepMs / closedFactor : stepMs);
    if (at >= Math.min(to, market.resolvedAt)) break;
    const whole = Math.floor(at);
    if (whole === last || whole < market.opensAt) continue;
    last = whole;
    t.push(whole);
    p.push(price(whole));
  }
  for (const final of symbol.finalTimes) {
    if (final < from || final >= to) continue;
    t.push(final);
    p.push(market.outcome);
  }
  return { t: Float64Array.from(t), p: Float64Array.from(p) };
}

/** Slow to fast: how long a swing takes, and how far it goes in logits. */
const octaves = [
  { periodMs: 8 * dayMs, reach: 1.6 },
  { periodMs: 1.5 * dayMs, reach: 0.9 },
  { periodMs: dayMs / 4, reach: 0.4 },
  { periodMs: 3_600_000, reach: 0.15 },
  { periodMs: 300_000, reach: 0.05 },
] as const;

/** Logit of 0.9991: beyond it the grid ends. */
const certainLogit = 7;

/**
 * Value noise (Perlin's lattice with a smooth step): a number in [-1, 1] at any moment without the moments before.
 */
function computeNoise(key: number, at: number): number {
  const cell = Math.floor(at);
  const share = at - cell;
  const low = drawAt(key, cell);
  const step = share * share * (3 - 2 * share);
  return 2 * (low + (drawAt(key, cell + 1) - low) * step) - 1;
}

/**
 * The price of a symbol at `t`, on its grid and inside (0, 1). Both venues follow the market's own walk, each with a
 * small one of its own; the nearer the close, the more the walk gives way to the outcome.
 */
export function createPriceFunction(market: SimulatedMarket, symbol: SimulatedSymbol): (t: number) => number {
  const keys = octaves.map((_, i) => hashNumber(market.key, 100 + i));
  const bias = 2 * (drawAt(market.key, 50) + drawAt(market.key, 51) - 1);
  const venueKey = hashNumber(symbol.key, 60);
  const goal = market.outcome === 1 ? certainLogit : -certainLogit;
  const { gridParts } = symbol;
  return (t) => {
    let logit = bias;
    for (let i = 0; i < octaves.length; i++)
      logit += octaves[i]!.reach * computeNoise(keys[i]!, t / octaves[i]!.periodMs);
    logit += 0.08 * computeNoise(venueKey, t / 1_200_000);
    const progress = Math.min(1, (t - market.opensAt) / (market.closesAt - market.opensAt));
    const pull = progress ** 6;
    const price = 1 / (1 + Math.exp(-(logit + (goal - logit) * pull)));
    return Math.min(gridParts - 1, Math.max(1, Math.round(price * gridParts))) / gridParts;
  };
}
