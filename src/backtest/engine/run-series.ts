import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import type { BacktestResult } from '../../contract/backtests.ts';
import type { Strategy } from '../../contract/strategy-language.ts';
import type { Trade } from '../../contract/trade-fields.ts';
import { simulate } from './simulate.ts';
import type { SymbolSeries } from './symbol-series.ts';
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

/** The strategies and windows of a run; every strategy runs on every window. */
export interface RunPlan {
  /** One per grid point, with bound parameters. */
  readonly strategies: readonly Strategy[];
  readonly spans: readonly Window[];
  /** Whether to list trades and symbols. Only for one strategy and one window. */
  readonly isDetailed: boolean;
}

export type SymbolRow = BacktestResult['symbols']['items'][number];

export interface RunTotals {
  /** By window, then by strategy. */
  readonly totals: readonly (readonly TradeTotals[])[];
  /** Over all windows. */
  readonly calibration: Calibration;
  readonly symbols: readonly SymbolRow[];
  /** The first `tradesMax` trades, in the order of fills. */
  readonly trades: readonly Trade[];
  readonly ticks: number;
}

/** Maximum number of listed trades. */
export const tradesMax = 1000;

/**
 * Runs a plan on symbols, in order.
 * @param throwIfStopped called regularly; ends the run by throwing
 * @param onTrades called with all trades of each symbol, if the plan is detailed
 */
export function runSeries(
  plan: RunPlan,
  allSeries: readonly SymbolSeries[],
  throwIfStopped: () => void = () => {},
  onTrades: (trades: readonly Trade[]) => void = () => {},
): RunTotals {
  const { strategies, spans, isDetailed } = plan;
  const samples = spans.map(computeSampleTimes);
  const totals = samples.map((sampleTimes) => strategies.map(() => createTradeTotals(sampleTimes)));
  const calibration = createCalibration();
  const symbols: SymbolRow[] = [];
  let trades: Trade[] = [];
  let ticks = 0;
  for (const series of allSeries) {
    for (const [s, span] of spans.entries()) {
      addSeriesCalibration(calibration, series, span);
      for (const [k, strategy] of strategies.entries()) {
        const newTrades = simulate(series, strategy, span, throwIfStopped);
        addTrades(totals[s]![k]!, series, newTrades, samples[s]!);
        if (!isDetailed) continue;
        symbols.push(toSymbolRow(series, newTrades, span));
        onTrades(newTrades);
        for (const trade of newTrades) trades.push(trade);
        if (trades.length > 10 * tradesMax) trades = selectFirstTrades(trades);
      }
    }
    ticks += series.t.length;
  }
  return { totals: totals, calibration, symbols, trades: selectFirstTrades(trades), ticks };
}

/** The first trades, sorted by fill time, symbol and rule. */
const selectFirstTrades = (trades: readonly Trade[]): Trade[] =>
  trades
    .toSorted((a, b) => a.filled_at - b.filled_at || compareUtf8(a.symbol, b.symbol) || a.rule - b.rule)
    .slice(0, tradesMax);

function toSymbolRow(
  { symbol, t, settlement }: SymbolSeries,
  trades: readonly Trade[],
  { from, to }: Window,
): SymbolRow {
  const sum = (getValue: (trade: Trade) => number): number =>
    trades.reduce((total, trade) => total + getValue(trade), 0);
  return {
    symbol,
    ticks: findFirstAtOrAfter(t, to) - findFirstAtOrAfter(t, from),
    trades: trades.length,
    contracts: sum(({ contracts }) => contracts),
    fees: sum(({ entry_fees, exit_fees }) => entry_fees + exit_fees),
    pnl: sum(({ pnl }) => pnl),
    outcome: settlement !== null && settlement.at < to ? settlement.outcome : null,
  };
}

/** Adds the totals of the next symbols. Floating-point sums depend on the order: merge batches in a fixed order. */
export function mergeRunTotals(to: RunTotals, other: RunTotals): RunTotals {
  for (const [s, totals] of to.totals.entries())
    for (const [k, tally] of totals.entries()) mergeTradeTotals(tally, other.totals[s]![k]!);
  addCalibration(to.calibration, other.calibration);
  return {
    ...to,
    symbols: [...to.symbols, ...other.symbols],
    trades: selectFirstTrades([...to.trades, ...other.trades]),
    ticks: to.ticks + other.ticks,
  };
}
