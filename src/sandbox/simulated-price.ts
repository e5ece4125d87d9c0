import { drawAt, hashNumber } from '../core/random.ts';
import { dayMs } from '../core/window.ts';
import type { SimulatedMarket, SimulatedSymbol } from './simulated-markets.ts';

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
