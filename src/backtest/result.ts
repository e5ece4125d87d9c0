import { formatCount, formatNumber } from '../base/format-quantity.ts';
import { compareUtf8 } from '../base/symbol-name.ts';
import type { Window } from '../base/window.ts';
import type { BacktestSpec } from '../contract/backtest-request.ts';
import type { BacktestResult } from '../contract/backtests.ts';
import type { Strategy } from '../contract/strategy-language.ts';
import { findBest, objectives } from './engine/objectives.ts';
import type { RunTotals } from './engine/run-series.ts';
import { computeEquity, computeSampleTimes, decilesCount, type TradeTotals } from './engine/trade-totals.ts';
import type { ParameterPoint } from './strategy/parse-strategy.ts';
import { resolveQuantity, tradesWholeContracts } from './strategy/strategy.ts';

export type GridResult = NonNullable<BacktestResult['grid']>;

/** Maximum number of symbols in a result: half of them with the largest gains, half with the largest losses. */
const symbolsMax = 1000;

const takeFirstAndLast = <T>(all: readonly T[], max: number): readonly T[] =>
  all.length <= max ? all : [...all.slice(0, max / 2), ...all.slice(-max / 2)];

/** Results of a grid on the in-sample and the held-out window, and its best point. */
export function createGridResult(
  request: BacktestSpec,
  points: readonly ParameterPoint[],
  [inSample, heldOut]: readonly [Window, Window],
  totals: RunTotals,
): GridResult {
  const valuesOn = (span: Window, totalsByStrategy: readonly TradeTotals[]) => {
    const samples = computeSampleTimes(span);
    return totalsByStrategy.map((totals) => objectives[request.objective].compute(totals, samples));
  };
  const [inSampleTotals, heldOutTotals] = [totals.totals[0]!, totals.totals[1]!];
  const values = valuesOn(inSample, inSampleTotals);
  const heldOutValues = valuesOn(heldOut, heldOutTotals);
  const best = findBest(request.objective, values);
  return {
    split_at: heldOut.from,
    best: best < 0 ? null : best,
    points: points.map((parameters, i) => ({
      parameters,
      value: values[i]!,
      trades: inSampleTotals[i]!.trades,
      held_out_value: heldOutValues[i]!,
      held_out_trades: heldOutTotals[i]!.trades,
    })),
  };
}

/** Splits a window into the in-sample and the held-out part; undefined if it is too short. */
export function splitWindow({ from, to }: Window, heldOut: number): readonly [Window, Window] | undefined {
  const splitAt = Math.round(to - (to - from) * heldOut);
  return splitAt > from && splitAt < to
    ? [
        { from, to: splitAt },
        { from: splitAt, to },
      ]
    : undefined;
}

/** The parts of a result that are known before the final run. */
type ResultContext = Pick<
  BacktestResult,
  'request' | 'strategy' | 'strategy_version' | 'grid' | 'coverage' | 'archive'
>;

/** Creates the detailed result of one strategy on one window. */
export function createBacktestResult(context: ResultContext, span: Window, runTotals: RunTotals): BacktestResult {
  const { request, strategy, strategy_version, grid, coverage, archive } = context;
  const samples = computeSampleTimes(span);
  const totals = runTotals.totals[0]![0]!;
  const computeObjective = (name: keyof typeof objectives): number | null => objectives[name].compute(totals, samples);
  const { trades, contracts, fees, pnl } = totals;
  const tradedRows = runTotals.symbols.filter((row) => row.trades > 0);
  return {
    request,
    strategy,
    strategy_version,
    assumptions: describeAssumptions(strategy, totals),
    ...span,
    value: computeObjective(request.objective),
    summary: {
      symbols: runTotals.symbols.length,
      symbols_traded: tradedRows.length,
      ticks: runTotals.symbols.reduce((n, row) => n + row.ticks, 0),
      trades,
      contracts,
      fees,
      total_pnl: pnl,
      avg_pnl: computeObjective('avg_pnl'),
      sharpe: computeObjective('sharpe'),
      max_drawdown: computeObjective('max_drawdown'),
      win_rate: computeObjective('win_rate'),
      brier: computeObjective('brier'),
    },
    equity: { step_ms: samples.stepMs, t: [...samples.t], value: [...computeEquity(totals)] },
    symbols: {
      count: tradedRows.length,
      items: takeFirstAndLast(
        tradedRows.toSorted((a, b) => b.pnl - a.pnl || compareUtf8(a.symbol, b.symbol)),
        symbolsMax,
      ),
    },
    trades: { count: trades, items: runTotals.trades },
    calibration: toCalibrationRows(runTotals),
    grid,
    coverage,
    archive,
  };
}

const toCalibrationRows = ({
  calibration: { ticks, prices, outcomes, brier },
}: RunTotals): BacktestResult['calibration'] =>
  Array.from({ length: decilesCount }, (_, k) => {
    const mean = (sums: Float64Array): number | null => (ticks[k] === 0 ? null : sums[k]! / ticks[k]!);
    return {
      price_from: k / decilesCount,
      price_to: (k + 1) / decilesCount,
      ticks: ticks[k]!,
      mean_price: mean(prices),
      mean_outcome: mean(outcomes),
      brier: mean(brier),
    };
  });

type BacktestAssumptions = BacktestResult['assumptions'];

type FillCounts = Pick<TradeTotals, 'tickFills' | 'bookFills' | 'quoteFills'>;

export function describeAssumptions(strategy: Strategy, fills: FillCounts): BacktestAssumptions {
  const fees = getFeeKind(strategy);
  const slippage = resolveQuantity(strategy.slippage, strategy);
  return {
    note: createNote(fees, slippage, fills),
    fees,
    slippage,
    whole_contracts: tradesWholeContracts(strategy),
    tick_fills: fills.tickFills,
    book_fills: fills.bookFills,
    quote_fills: fills.quoteFills,
  };
}

function getFeeKind(strategy: Strategy): BacktestAssumptions['fees'] {
  const { fees } = strategy;
  if ('schedule' in fees) return fees.schedule;
  const all = [fees.per_contract, fees.of_notional, fees.of_variance];
  return all.every((fee) => resolveQuantity(fee, strategy) === 0) ? 'none' : 'per_contract';
}

/** Order books and quotes contain the spread. */
function createNote(
  fees: BacktestAssumptions['fees'],
  slippage: number,
  { tickFills, bookFills, quoteFills }: FillCounts,
): string | null {
  const fills = tickFills + bookFills + quoteFills;
  if (fills === 0) return null;
  const hasNoSpread = tickFills > 0 && slippage === 0;
  if (!hasNoSpread) return fees === 'none' ? 'Without fees.' : null;
  const share = tickFills === fills ? 'Filled' : `${formatNumber(tickFills)} of ${formatCount(fills, 'fill')}`;
  return `${share} at tick prices, not bid and ask, ${fees === 'none' ? 'without fees or spread' : 'without spread'}.`;
}
