import { emptyTicks, type TickColumns } from '../core/tick.ts';
import type { Feed } from './data-source.ts';
import { createMarketCatalogue } from './simulated-catalogue.ts';
import {
  getMarketLifetime,
  type SimulatedMarket,
  type SimulatedSymbol,
  type Simulation,
  toListedMarket,
} from './simulated-markets.ts';
import { generateHourTicks, hourMs } from './simulated-ticks.ts';
import { concatTicks, findRow, sliceTicks } from './tick-columns.ts';

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
