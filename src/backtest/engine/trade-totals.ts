import type { Window } from '../../base/window.ts';
import { dayMs, hourMs, minuteMs } from '../../base/window.ts';
import { type Trade, toSidePrice } from './simulate.ts';
import { countBelow, type SymbolSeries } from './symbol-series.ts';

/** What objectives are made of, summed over symbols. */
export interface TradeTotals {
  trades: number;
  /** Trades with a gain. */
  wins: number;
  contracts: number;
  /** Dollars. */
  pnl: number;
  fees: number;
  /** Trades that were settled, and the sum over them of (price at the fill - outcome)². */
  settled: number;
  brier: number;
  /** By sample, dollars: what was gained since the one before, and what is held then at its last price, less what it cost. */
  readonly gainedSamples: Float64Array;
  readonly heldSamples: Float64Array;
}

export const createTradeTotals = (samples: SampleTimes): TradeTotals => ({
  trades: 0,
  wins: 0,
  contracts: 0,
  pnl: 0,
  fees: 0,
  settled: 0,
  brier: 0,
  gainedSamples: new Float64Array(samples.t.length),
  heldSamples: new Float64Array(samples.t.length),
});

/** Adds the trades of one symbol, in their order. */
export function addTrades(
  tally: TradeTotals,
  series: SymbolSeries,
  trades: readonly Trade[],
  samples: SampleTimes,
): void {
  for (const trade of trades) {
    tally.trades++;
    if (trade.pnl > 0) tally.wins++;
    tally.contracts += trade.contracts;
    tally.pnl += trade.pnl;
    tally.fees += trade.entry_fees + trade.exit_fees;
    if (series.settlement !== null && trade.exit === 'settled') {
      tally.settled++;
      tally.brier += (trade.price - series.settlement.outcome) ** 2;
    }
    addToEquity(tally, series, trade, samples);
  }
}

/** Adds another tally. Sums of doubles depend on their order: who wants the same bytes adds in the same order. */
export function mergeTradeTotals(to: TradeTotals, other: TradeTotals): void {
  to.trades += other.trades;
  to.wins += other.wins;
  to.contracts += other.contracts;
  to.pnl += other.pnl;
  to.fees += other.fees;
  to.settled += other.settled;
  to.brier += other.brier;
  for (let k = 0; k < to.gainedSamples.length; k++) {
    to.gainedSamples[k]! += other.gainedSamples[k]!;
    to.heldSamples[k]! += other.heldSamples[k]!;
  }
}

function addToEquity(
  { gainedSamples, heldSamples }: TradeTotals,
  { t, p }: SymbolSeries,
  trade: Trade,
  samples: SampleTimes,
): void {
  const { side, contracts, paid, filled_at, exited_at, entry_fees } = trade;
  // What happens at a sample's own moment counts from the next one on.
  const first = countBelow(samples.t, filled_at + 1);
  const last = countBelow(samples.t, exited_at + 1);
  let tick = first < last ? countBelow(t, samples.t[first]!) : 0;
  for (let k = first; k < last; k++) {
    while (tick < t.length && t[tick]! < samples.t[k]!) tick++;
    const price = Math.min(1, Math.max(0, p[tick - 1]!));
    heldSamples[k]! += contracts * (toSidePrice(side, price) - paid) - entry_fees;
  }
  // Nothing ends at the end of a run or after it: the last sample has it.
  gainedSamples[last]! += trade.pnl;
}

/** The value of a run at each sample, dollars. */
export function computeEquity({ gainedSamples, heldSamples }: TradeTotals): Float64Array {
  let sum = 0;
  return gainedSamples.map((value, k) => {
    sum += value;
    return sum + heldSamples[k]!;
  });
}

const sampleStepsMs = [minuteMs, 5 * minuteMs, 15 * minuteMs, hourMs, 6 * hourMs, dayMs] as const;

/** Samples of one curve, where a day a step is not too many already. */
const samplesMax = 1000;

/** Moments at which the value of a run is taken: what happened before each of them counts. */
export interface SampleTimes {
  /** Milliseconds between two of them, but for the first and the last. */
  readonly stepMs: number;
  /** Epoch milliseconds, ascending: every multiple of the step inside the run, and the run's end. */
  readonly t: Float64Array;
}

/** The finest step of minutes, hours or a day that gives at most 1,000 samples; of many years there are more, one a day. */
export function computeSampleTimes({ from, to }: Window): SampleTimes {
  const stepMs = sampleStepsMs.find((step) => (to - from) / step <= samplesMax) ?? dayMs;
  const first = (Math.floor(from / stepMs) + 1) * stepMs;
  const inside = Math.max(0, Math.ceil((to - first) / stepMs));
  const t = Float64Array.from({ length: inside + 1 }, (_, k) => (k === inside ? to : first + k * stepMs));
  return { stepMs, t };
}

/** Which of the samples are the ends of UTC days, and the last one. */
export const findDayEnds = ({ t }: SampleTimes): number[] =>
  [...t.keys()].filter((k) => t[k]! % dayMs === 0 || k === t.length - 1);

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
