import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import type { Strategy } from '../strategy/strategy.ts';
import { simulate, type Trade } from './simulate.ts';
import { countBelow, type SymbolSeries } from './symbol-series.ts';
import {
  addCalibration,
  addSeriesCalibration,
  addTrades,
  type Calibration,
  computeSampleTimes,
  createCalibration,
  createTradeTotals,
  mergeTradeTotals,
  type TradeTotals,
} from './trade-totals.ts';

/** What is to be played: every strategy on every span. */
export interface RunPlan {
  /** One a point of the grid, its parameters bound. */
  readonly strategies: readonly Strategy[];
  readonly spans: readonly Window[];
  /** Whether trades and symbols are wanted one by one; of one strategy on one span. */
  readonly isDetailed: boolean;
}

/** What became of one symbol. */
export interface SymbolRow {
  readonly symbol: string;
  /** Ticks in the span. */
  readonly ticks: number;
  readonly trades: number;
  readonly contracts: number;
  /** Dollars. */
  readonly fees: number;
  readonly pnl: number;
  /** Null where it is not settled within the span. */
  readonly outcome: number | null;
}

export interface RunTotals {
  /** By span, then by strategy. */
  readonly totals: readonly (readonly TradeTotals[])[];
  /** Of the first span to the last. */
  readonly calibration: Calibration;
  readonly symbols: readonly SymbolRow[];
  /** The first ones by the time of their fill, at most `tradesMax`. */
  readonly trades: readonly Trade[];
  readonly ticks: number;
}

/** Trades that are told one by one. */
export const tradesMax = 1000;

/**
 * Plays a plan on some symbols, in their order.
 * @param throwIfStopped asked now and then; what it throws ends the run
 */
export function runSeries(plan: RunPlan, all: readonly SymbolSeries[], goOn: () => void = () => {}): RunTotals {
  const { strategies, spans, isDetailed } = plan;
  const samples = spans.map(computeSampleTimes);
  const tallies = samples.map((one) => strategies.map(() => createTradeTotals(one)));
  const calibration = createCalibration();
  const symbols: SymbolRow[] = [];
  let trades: Trade[] = [];
  let ticks = 0;
  for (const series of all) {
    for (const [s, span] of spans.entries()) {
      addSeriesCalibration(calibration, series, span);
      for (const [k, strategy] of strategies.entries()) {
        const made = simulate(series, strategy, span, goOn);
        addTrades(tallies[s]![k]!, series, made, samples[s]!);
        if (!isDetailed) continue;
        symbols.push(toSymbolRow(series, made, span));
        for (const trade of made) trades.push(trade);
        if (trades.length > 10 * tradesMax) trades = selectFirstTrades(trades);
      }
    }
    ticks += series.t.length;
  }
  return { totals: tallies, calibration, symbols, trades: selectFirstTrades(trades), ticks };
}

/** The first trades by fill, symbol and rule. */
export const selectFirstTrades = (trades: readonly Trade[]): Trade[] =>
  trades
    .toSorted((a, b) => a.filled_at - b.filled_at || compareUtf8(a.symbol, b.symbol) || a.rule - b.rule)
    .slice(0, tradesMax);

function toSymbolRow(
  { symbol, t, settlement }: SymbolSeries,
  trades: readonly Trade[],
  { from, to }: Window,
): SymbolRow {
  const sum = (of: (trade: Trade) => number): number => trades.reduce((total, trade) => total + of(trade), 0);
  return {
    symbol,
    ticks: countBelow(t, to) - countBelow(t, from),
    trades: trades.length,
    contracts: sum(({ contracts }) => contracts),
    fees: sum(({ entry_fees, exit_fees }) => entry_fees + exit_fees),
    pnl: sum(({ pnl }) => pnl),
    outcome: settlement !== null && settlement.at < to ? settlement.outcome : null,
  };
}

/** Adds what became of the next symbols. Sums depend on their order: the same batches in the same order give the same bytes. */
export function mergeRunTotals(to: RunTotals, other: RunTotals): RunTotals {
  for (const [s, tallies] of to.totals.entries())
    for (const [k, tally] of tallies.entries()) mergeTradeTotals(tally, other.totals[s]![k]!);
  addCalibration(to.calibration, other.calibration);
  return {
    ...to,
    symbols: [...to.symbols, ...other.symbols],
    trades: selectFirstTrades([...to.trades, ...other.trades]),
    ticks: to.ticks + other.ticks,
  };
}
