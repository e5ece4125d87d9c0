import type { Window } from '../core/window.ts';
import { countBelow, type SymbolSeries } from './symbol-series.ts';

/** Prices of settled symbols against their outcomes, by decile: the first holds prices below 0.1, the last from 0.9 on. */
export interface Calibration {
  /** Ticks by decile, the sums of their prices, of their outcomes, and of (price - outcome)². */
  readonly ticks: Float64Array;
  readonly prices: Float64Array;
  readonly outcomes: Float64Array;
  readonly brier: Float64Array;
}

export const decilesCount = 10;

export const createCalibration = (): Calibration => ({
  ticks: new Float64Array(decilesCount),
  prices: new Float64Array(decilesCount),
  outcomes: new Float64Array(decilesCount),
  brier: new Float64Array(decilesCount),
});

/** Adds the ticks of a symbol in a window and before its settlement; a price that no contract can have counts nowhere. */
export function addSeriesCalibration(
  { ticks, prices, outcomes, brier }: Calibration,
  series: SymbolSeries,
  { from, to }: Window,
): void {
  const { t, p, settlement } = series;
  // What was settled after the window was not known in it.
  if (settlement === null || settlement.at >= to) return;
  const { at, outcome } = settlement;
  const end = countBelow(t, Math.min(to, at));
  for (let i = countBelow(t, from); i < end; i++) {
    const price = p[i]!;
    if (!(price >= 0 && price <= 1)) continue;
    const decile = toDecile(price);
    ticks[decile]!++;
    prices[decile]! += price;
    outcomes[decile]! += outcome;
    brier[decile]! += (price - outcome) ** 2;
  }
}

/** By its bounds as doubles: the product of what is just below one of them may be rounded up to it. */
function toDecile(price: number): number {
  const decile = Math.min(decilesCount - 1, Math.floor(price * decilesCount));
  return price < decile / decilesCount ? decile - 1 : decile;
}

export function addCalibration(to: Calibration, other: Calibration): void {
  for (const name of ['ticks', 'prices', 'outcomes', 'brier'] as const)
    for (let k = 0; k < decilesCount; k++) to[name][k]! += other[name][k]!;
}
