import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { dayMs, hourMs, minuteMs, type Window } from '../../base/window.ts';
import type { Trade } from '../../contract/trade-fields.ts';
import { toSidePrice } from './fills.ts';
import type { SymbolSeries } from './symbol-series.ts';

/** Totals over symbols, from which objectives are computed. */
export interface TradeTotals {
  trades: number;
  /** Trades with a gain. */
  wins: number;
  contracts: number;
  /** Dollars. */
  pnl: number;
  fees: number;
  /** Number of fills by what they were filled at. Each fill of an order that is filled in parts counts. */
  tickFills: number;
  bookFills: number;
  quoteFills: number;
  /** Number of settled trades, and their sum of (price at the fill - outcome)². */
  settled: number;
  brier: number;
  /** Per sample, in dollars: realized gain since the previous sample, and unrealized gain at the last price. */
  readonly gainedSamples: Float64Array;
  readonly heldSamples: Float64Array;
}

/** The totals that are added when totals are merged. */
const sumNames = [
  ...(['trades', 'wins', 'contracts', 'pnl', 'fees', 'tickFills', 'bookFills', 'quoteFills'] as const),
  ...(['settled', 'brier'] as const),
];

export const createTradeTotals = (samples: SampleTimes): TradeTotals => ({
  ...(Object.fromEntries(sumNames.map((name) => [name, 0])) as Record<(typeof sumNames)[number], number>),
  gainedSamples: new Float64Array(samples.t.length),
  heldSamples: new Float64Array(samples.t.length),
});

/** Adds the trades of one symbol, in the order in which `simulate` returns them. */
export function addTrades(
  totals: TradeTotals,
  series: SymbolSeries,
  trades: readonly Trade[],
  samples: SampleTimes,
): void {
  let previous: Trade | undefined;
  for (const trade of trades) {
    countFills(totals, trade, previous);
    previous = trade;
    totals.trades++;
    if (trade.pnl > 0) totals.wins++;
    totals.contracts += trade.contracts;
    totals.pnl += trade.pnl;
    totals.fees += trade.entry_fees + trade.exit_fees;
    if (series.settlement !== null && trade.exit_reason === 'settled') {
      totals.settled++;
      totals.brier += (trade.price - series.settlement.outcome) ** 2;
    }
    addToEquity(totals, series, trade, samples);
  }
}

/** Counts the fills of a trade. The parts of a position are adjacent and share the fill of their entry. */
function countFills(totals: TradeTotals, trade: Trade, previous: Trade | undefined): void {
  const isSamePosition = previous?.rule === trade.rule && previous.filled_at === trade.filled_at;
  const fills = isSamePosition ? [trade.exit_fill] : [trade.entry_fill, trade.exit_fill];
  for (const basis of fills) {
    if (basis === 'tick') totals.tickFills++;
    if (basis === 'book') totals.bookFills++;
    if (basis === 'quote') totals.quoteFills++;
  }
}

/** Adds other totals. Floating-point sums depend on the order: merge in a fixed order for reproducible results. */
export function mergeTradeTotals(to: TradeTotals, other: TradeTotals): void {
  for (const name of sumNames) to[name] += other[name];
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
  const { side, contracts, entry_price, filled_at, exited_at, entry_fees } = trade;
  // Events at the time of a sample count from the next sample.
  const first = findFirstAtOrAfter(samples.t, filled_at + 1);
  const last = findFirstAtOrAfter(samples.t, exited_at + 1);
  let tick = first < last ? findFirstAtOrAfter(t, samples.t[first]!) : 0;
  for (let k = first; k < last; k++) {
    while (tick < t.length && t[tick]! < samples.t[k]!) tick++;
    const price = Math.min(1, Math.max(0, p[tick - 1]!));
    heldSamples[k]! += contracts * (toSidePrice(side, price) - entry_price) - entry_fees;
  }
  // All exits are before the end of the run, which is the last sample.
  gainedSamples[last]! += trade.pnl;
}

/** Equity at each sample, in dollars. */
export function computeEquity({ gainedSamples, heldSamples }: TradeTotals): Float64Array {
  let sum = 0;
  return gainedSamples.map((value, k) => {
    sum += value;
    return sum + heldSamples[k]!;
  });
}

const sampleStepsMs = [minuteMs, 5 * minuteMs, 15 * minuteMs, hourMs, 6 * hourMs, dayMs] as const;

/** Maximum number of samples of a curve, unless the step is a day. */
const samplesMax = 1000;

/** Sample times of the equity curve. A sample includes all events before its time. */
export interface SampleTimes {
  /** Step in milliseconds. The first and the last interval may be shorter. */
  readonly stepMs: number;
  /** Epoch milliseconds, ascending: the multiples of the step within the run, and the end of the run. */
  readonly t: Float64Array;
}

/**
 * Chooses the smallest step with at most `samplesMax` samples. The largest step is a day, even if it yields more
 * samples.
 */
export function computeSampleTimes({ from, to }: Window): SampleTimes {
  const stepMs = sampleStepsMs.find((step) => (to - from) / step <= samplesMax) ?? dayMs;
  const first = (Math.floor(from / stepMs) + 1) * stepMs;
  const innerCount = Math.max(0, Math.ceil((to - first) / stepMs));
  const t = Float64Array.from({ length: innerCount + 1 }, (_, k) => (k === innerCount ? to : first + k * stepMs));
  return { stepMs, t };
}

/** Indexes of the samples at the ends of UTC days, and of the last sample. */
export const findDayEnds = ({ t }: SampleTimes): number[] =>
  [...t.keys()].filter((k) => t[k]! % dayMs === 0 || k === t.length - 1);

export const decilesCount = 10;

/** Prices and outcomes of settled symbols by decile of the price. */
export type Calibration = ReturnType<typeof createCalibration>;

export const createCalibration = () => ({
  /** Per decile: number of ticks, and sums of prices, of outcomes, and of (price - outcome)². */
  ticks: new Float64Array(decilesCount),
  prices: new Float64Array(decilesCount),
  outcomes: new Float64Array(decilesCount),
  brier: new Float64Array(decilesCount),
});

/** Adds the ticks of a symbol in a window before its settlement. Skips prices outside [0, 1]. */
export function addSeriesCalibration(
  { ticks, prices, outcomes, brier }: Calibration,
  series: SymbolSeries,
  { from, to }: Window,
): void {
  const { t, p, settlement } = series;
  // Later settlements are not known within the window.
  if (settlement === null || settlement.at >= to) return;
  const { at, outcome } = settlement;
  const end = findFirstAtOrAfter(t, Math.min(to, at));
  for (let i = findFirstAtOrAfter(t, from); i < end; i++) {
    const price = p[i]!;
    if (!(price >= 0 && price <= 1)) continue;
    const decile = toDecile(price);
    ticks[decile]!++;
    prices[decile]! += price;
    outcomes[decile]! += outcome;
    brier[decile]! += (price - outcome) ** 2;
  }
}

/** Decile of a price. Corrects the rounding of products just below a bound. */
function toDecile(price: number): number {
  const decile = Math.min(decilesCount - 1, Math.floor(price * decilesCount));
  return price < decile / decilesCount ? decile - 1 : decile;
}

export function addCalibration(to: Calibration, other: Calibration): void {
  for (const name of ['ticks', 'prices', 'outcomes', 'brier'] as const)
    for (let k = 0; k < decilesCount; k++) to[name][k]! += other[name][k]!;
}
