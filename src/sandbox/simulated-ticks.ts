import { createRandom, drawAt, hashNumber } from '../core/random.ts';
import type { TickColumns } from '../core/tick.ts';
import type { SimulatedMarket, SimulatedSymbol } from './simulated-markets.ts';
import { createPriceFunction } from './simulated-price.ts';

export const hourMs = 3_600_000;

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
