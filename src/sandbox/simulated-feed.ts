import { LRUCache } from 'lru-cache';
import { findFirstAtOrAfter } from '../base/binary-search.ts';
import { createRandom, drawAt, hashNumber } from '../base/random.ts';
import { emptyTicks, type TickColumns } from '../base/ticks.ts';
import { dayMs, hourMs, intersectTwo, minuteMs } from '../base/window.ts';
import { concatTicks, type Feed, sliceTicks } from './feed.ts';
import {
  createMarketCatalogue,
  getMarketLifetime,
  type SimulatedMarket,
  type SimulatedSymbol,
  type Simulation,
  toListedMarket,
} from './simulated-markets.ts';

/** Maximum number of ticks in the cache, over all hours; each takes 16 bytes, and an hour as much as 40. */
const cachedSizeMax = 2_000_000;

/** Markets and ticks computed from a seed: independent of the order of requests and their windows. */
export function createSimulatedFeed(simulation: Simulation): Feed {
  const catalogue = createMarketCatalogue(simulation);
  const getHour = createHourCache(simulation.ticksPerDay);
  return {
    symbols: (nowMs) => catalogue.listOpened(nowMs).flatMap((market) => market.symbols.map(({ symbol }) => symbol)),
    getLifetime(symbol, nowMs) {
      const known = catalogue.findOpened(symbol, nowMs);
      return known === undefined ? undefined : getMarketLifetime(known.market, simulation.epochMs);
    },
    ticks(symbol, window) {
      const known = catalogue.findSeen(symbol);
      if (known === undefined) return emptyTicks;
      const { from, to } = intersectTwo(window, getMarketLifetime(known.market, simulation.epochMs));
      const blocks: TickColumns[] = [];
      for (let hour = Math.floor(from / hourMs); hour * hourMs < to; hour++) {
        const { t, p } = getHour(known.market, known.symbol, hour);
        const block = sliceTicks({ t, p }, findFirstAtOrAfter(t, from), findFirstAtOrAfter(t, to));
        if (block.t.length > 0) blocks.push(block);
      }
      return concatTicks(blocks);
    },
    markets: (nowMs) =>
      catalogue
        .listOpened(nowMs)
        .map((market) => toListedMarket(market, nowMs))
        .filter((market) => market !== undefined),
  };
}

function createHourCache(ticksPerDay: number) {
  const cache = new LRUCache<string, TickColumns>({
    maxSize: cachedSizeMax,
    sizeCalculation: ({ t }) => t.length + 40,
  });
  return (market: SimulatedMarket, symbol: SimulatedSymbol, hour: number): TickColumns => {
    const key = `${hour} ${symbol.symbol}`;
    const ticks = cache.get(key) ?? generateHourTicks(market, symbol, hour, ticksPerDay);
    cache.set(key, ticks);
    return ticks;
  };
}

/** Activity of an hour relative to the mean: a quarter are quiet, one in twelve is a burst; the mean over all is 1. */
const quiet = { share: 0.25, factor: 0.1 };
const burst = { share: 1 / 12, factor: 5 };
const usualFactor = (1 - quiet.share * quiet.factor - burst.share * burst.factor) / (1 - quiet.share - burst.share);
/** Activity between close and resolution. */
const closedFactor = 0.05;

/** Expected number of ticks of the symbol in a UTC hour during which it is open. */
function computeExpectedTicks(symbol: SimulatedSymbol, hour: number, ticksPerDay: number): number {
  const random = drawAt(symbol.key ^ 0xb0, hour);
  const kind = random < quiet.share ? quiet.factor : random > 1 - burst.share ? burst.factor : usualFactor;
  const daily = 1 + 0.6 * Math.sin(((hour - 9) / 12) * Math.PI);
  return (ticksPerDay / 24) * symbol.weight * kind * daily;
}

/**
 * All ticks of a symbol in one UTC hour (counted from 1970), computed from its keys only: a Poisson process by
 * exponential steps, clipped to the market's lifetime, plus the last ticks at exactly 0 or 1.
 */
function generateHourTicks(
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
    const atMs = Math.floor(at);
    if (atMs === last || atMs < market.opensAt) continue;
    last = atMs;
    t.push(atMs);
    p.push(price(atMs));
  }
  for (const final of symbol.finalTimes) {
    if (final < from || final >= to) continue;
    t.push(final);
    p.push(market.outcome);
  }
  return { t: Float64Array.from(t), p: Float64Array.from(p) };
}

/** From slow to fast: period of a swing and its amplitude in logits. */
const octaves = [
  { periodMs: 8 * dayMs, amplitude: 1.6 },
  { periodMs: 1.5 * dayMs, amplitude: 0.9 },
  { periodMs: dayMs / 4, amplitude: 0.4 },
  { periodMs: hourMs, amplitude: 0.15 },
  { periodMs: 5 * minuteMs, amplitude: 0.05 },
] as const;

/** Logit of 0.9991, the last price on the grid. */
const certainLogit = 7;

/**
 * Value noise (Perlin's lattice with a smooth step): a number in [-1, 1] for any time, computed without earlier times.
 */
function computeNoise(key: number, at: number): number {
  const cell = Math.floor(at);
  const share = at - cell;
  const low = drawAt(key, cell);
  const step = share * share * (3 - 2 * share);
  return 2 * (low + (drawAt(key, cell + 1) - low) * step) - 1;
}

/**
 * The price of a symbol at `t`, on its grid and inside (0, 1). The prices of both venues are the market's random walk
 * plus a small random walk of the venue. Toward the close the walk converges to the outcome.
 */
function createPriceFunction(market: SimulatedMarket, symbol: SimulatedSymbol): (t: number) => number {
  const keys = octaves.map((_, i) => hashNumber(market.key, 100 + i));
  const bias = 2 * (drawAt(market.key, 50) + drawAt(market.key, 51) - 1);
  const venueKey = hashNumber(symbol.key, 60);
  const outcomeLogit = market.outcome === 1 ? certainLogit : -certainLogit;
  const { gridParts } = symbol;
  return (t) => {
    let logit = bias;
    for (let i = 0; i < octaves.length; i++)
      logit += octaves[i]!.amplitude * computeNoise(keys[i]!, t / octaves[i]!.periodMs);
    logit += 0.08 * computeNoise(venueKey, t / (20 * minuteMs));
    const progress = Math.min(1, (t - market.opensAt) / (market.closesAt - market.opensAt));
    const convergence = progress ** 6;
    const price = 1 / (1 + Math.exp(-(logit + (outcomeLogit - logit) * convergence)));
    return Math.min(gridParts - 1, Math.max(1, Math.round(price * gridParts))) / gridParts;
  };
}
