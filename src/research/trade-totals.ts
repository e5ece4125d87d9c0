import type { SampleTimes } from './equity-samples.ts';
import { toSidePrice } from './execution.ts';
import type { Trade } from './simulate.ts';
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
