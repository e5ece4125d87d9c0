import type { Samples } from './equity-samples.ts';
import { worth } from './execution.ts';
import type { Trade } from './simulate.ts';
import { countBelow, type Series } from './symbol-series.ts';

/** What objectives are made of, summed over symbols. */
export interface Tally {
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
  readonly gained: Float64Array;
  readonly held: Float64Array;
}

export const emptyTally = (samples: Samples): Tally => ({
  trades: 0,
  wins: 0,
  contracts: 0,
  pnl: 0,
  fees: 0,
  settled: 0,
  brier: 0,
  gained: new Float64Array(samples.t.length),
  held: new Float64Array(samples.t.length),
});

/** Adds the trades of one symbol, in their order. */
export function addTrades(tally: Tally, series: Series, trades: readonly Trade[], samples: Samples): void {
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
export function addTally(to: Tally, other: Tally): void {
  to.trades += other.trades;
  to.wins += other.wins;
  to.contracts += other.contracts;
  to.pnl += other.pnl;
  to.fees += other.fees;
  to.settled += other.settled;
  to.brier += other.brier;
  for (let k = 0; k < to.gained.length; k++) {
    to.gained[k]! += other.gained[k]!;
    to.held[k]! += other.held[k]!;
  }
}

function addToEquity({ gained, held }: Tally, { t, p }: Series, trade: Trade, samples: Samples): void {
  const { side, contracts, paid, filled_at, exited_at, entry_fees } = trade;
  // What happens at a sample's own moment counts from the next one on.
  const first = countBelow(samples.t, filled_at + 1);
  const last = countBelow(samples.t, exited_at + 1);
  let tick = first < last ? countBelow(t, samples.t[first]!) : 0;
  for (let k = first; k < last; k++) {
    while (tick < t.length && t[tick]! < samples.t[k]!) tick++;
    const price = Math.min(1, Math.max(0, p[tick - 1]!));
    held[k]! += contracts * (worth(side, price) - paid) - entry_fees;
  }
  // Nothing ends at the end of a run or after it: the last sample has it.
  gained[last]! += trade.pnl;
}

/** The value of a run at each sample, dollars. */
export function equityOf({ gained, held }: Tally): Float64Array {
  let sum = 0;
  return gained.map((value, k) => {
    sum += value;
    return sum + held[k]!;
  });
}
