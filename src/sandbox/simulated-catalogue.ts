import { UsageError } from '../core/errors.ts';
import {
  computeSlotRhythm,
  createSlotMarket,
  type SimulatedMarket,
  type SimulatedSymbol,
  type Simulation,
} from './simulated-markets.ts';

/** Markets held in memory since the epoch, about 1 kB each. */
const marketsEverMax = 500_000;

/**
 * Markets found as time goes on, those resolved before the epoch left out. They throw UsageError where the
 * epoch lies so far back that they would not fit in memory.
 */
export function createMarketCatalogue(simulation: Simulation) {
  const markets: SimulatedMarket[] = [];
  const bySymbol = new Map<string, { readonly market: SimulatedMarket; readonly symbol: SimulatedSymbol }>();
  const next = Array.from({ length: simulation.markets }, (_, slot) => {
    const { periodMs, offsetMs } = computeSlotRhythm(slot, simulation);
    return Math.max(0, Math.floor((simulation.epochMs - offsetMs) / periodMs) - 1);
  });

  let extendedMs = Number.NEGATIVE_INFINITY;

  function extendTo(nowMs: number): void {
    if (nowMs <= extendedMs) return;
    for (let slot = 0; slot < next.length; slot++) {
      const { periodMs, offsetMs } = computeSlotRhythm(slot, simulation);
      for (; offsetMs + next[slot]! * periodMs <= nowMs; next[slot]!++) {
        const market = createSlotMarket(slot, next[slot]!, simulation);
        if (market.resolvedAt < simulation.epochMs) continue;
        if (markets.length >= marketsEverMax) throw new UsageError('sandbox: too many markets since epochMs');
        markets.push(market);
        for (const symbol of market.symbols) bySymbol.set(symbol.symbol, { market, symbol });
      }
    }
    extendedMs = nowMs;
  }

  return {
    /** Markets opened by `nowMs`. */
    opened(nowMs: number): SimulatedMarket[] {
      extendTo(nowMs);
      return markets.filter((market) => market.opensAt <= nowMs);
    },
    /** A symbol met before, without looking any further: nobody's clock is needed for its ticks. */
    met: (symbol: string) => bySymbol.get(symbol),
    /** A symbol whose market has opened by `nowMs`. */
    find(symbol: string, nowMs: number) {
      extendTo(nowMs);
      const found = bySymbol.get(symbol);
      return found !== undefined && found.market.opensAt <= nowMs ? found : undefined;
    },
  };
}
