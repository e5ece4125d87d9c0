import { compareUtf8 } from '../base/symbol-name.ts';
import type { Window } from '../base/window.ts';
import type { BacktestSpec } from '../contract/backtest-request.ts';
import type { Strategy } from '../contract/strategy-language.ts';
import { type BacktestAssumptions, describeAssumptions } from './assumptions.ts';
import { findBest, objectives } from './engine/objectives.ts';
import type { RunTotals, SymbolRow } from './engine/run-series.ts';
import type { Trade } from './engine/simulate.ts';
import { computeEquity, computeSampleTimes, decilesCount, type TradeTotals } from './engine/trade-totals.ts';
import type { ParameterPoint } from './strategy/parse-strategy.ts';

/** Result of a backtest. The same request on the same archive gives the same bytes. Times in epoch ms. */
export interface BacktestResult {
  readonly request: BacktestSpec;
  /** The strategy with bound parameters; with a grid, at its best point. */
  readonly strategy: Strategy;
  /** Version of a saved strategy, otherwise null. */
  readonly strategy_version: number | null;
  readonly assumptions: BacktestAssumptions;
  /** Window of the following results; with a grid, the held-out window. */
  readonly from: number;
  readonly to: number;
  /** Value of the objective; null if it is undefined, e.g. without trades. */
  readonly value: number | null;
  readonly summary: BacktestSummary;
  readonly equity: { readonly step_ms: number; readonly t: readonly number[]; readonly value: readonly number[] };
  /** Sorted by P&L, highest first. If `count` exceeds 1,000, only the first 500 and the last 500. */
  readonly symbols: { readonly count: number; readonly items: readonly SymbolRow[] };
  /** In the order of fills; the first 1,000 of `count`. */
  readonly trades: { readonly count: number; readonly items: readonly Trade[] };
  readonly calibration: readonly CalibrationRow[];
  readonly grid: GridResult | null;
  readonly coverage: CoverageShare;
  readonly archive: ArchiveUsed;
}

interface BacktestSummary {
  /** Number of symbols tested, of symbols with trades, and of ticks. */
  readonly symbols: number;
  readonly symbols_traded: number;
  readonly ticks: number;
  readonly trades: number;
  readonly contracts: number;
  /** Dollars. */
  readonly fees: number;
  readonly total_pnl: number;
  readonly avg_pnl: number | null;
  readonly sharpe: number | null;
  readonly max_drawdown: number | null;
  readonly win_rate: number | null;
  readonly brier: number | null;
}

/** Prices of settled symbols in [from, to). If prices are calibrated, the mean price equals the share of yes. */
interface CalibrationRow {
  readonly price_from: number;
  readonly price_to: number;
  readonly ticks: number;
  readonly mean_price: number | null;
  readonly mean_outcome: number | null;
  readonly brier: number | null;
}

export interface GridResult {
  /** Start of the held-out window. */
  readonly split_at: number;
  /** Index of the point with the best value before `split_at`. */
  readonly best: number | null;
  readonly points: readonly {
    readonly parameters: ParameterPoint;
    readonly value: number | null;
    readonly trades: number;
    readonly held_out_value: number | null;
    readonly held_out_trades: number;
  }[];
}

/** Total of the symbols' lifetimes within the window, and its uncovered part, where ticks may be missing. */
interface CoverageShare {
  readonly lifetime_ms: number;
  readonly gap_ms: number;
  /** Null if `lifetime_ms` is 0. */
  readonly gap_share: number | null;
}

/** Identity of the input files. */
export interface ArchiveUsed {
  readonly generation: number;
  readonly manifest_sha256: string;
  /** Number of files read, and the sha256 of lines `<sha256>  <path>`, sorted by path. */
  readonly files: number;
  readonly files_sha256: string;
}

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

const toCalibrationRows = ({ calibration: { ticks, prices, outcomes, brier } }: RunTotals): CalibrationRow[] =>
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
