import { compareUtf8 } from '../base/symbol-name.ts';
import type { Window } from '../base/window.ts';
import type { BacktestSpec } from './backtest-spec.ts';
import { findBest, objectives } from './engine/objectives.ts';
import type { RunTotals, SymbolRow } from './engine/run-series.ts';
import type { Trade } from './engine/simulate.ts';
import { computeEquity, computeSampleTimes, decilesCount, type TradeTotals } from './engine/trade-totals.ts';
import type { ParameterPoint } from './strategy/parse-strategy.ts';
import type { Strategy } from './strategy/strategy.ts';

/** What a backtest gives. The same archive, asked the same, gives the same to the byte. Times are epoch milliseconds. */
export interface BacktestResult {
  readonly asked: BacktestSpec;
  /** What was run, its parameters bound; of a grid its best point. */
  readonly strategy: Strategy;
  /** Of a user's strategy that is kept; else null. */
  readonly strategy_version: number | null;
  /** The span that all that follows is of: of a grid what was held out. */
  readonly from: number;
  readonly to: number;
  /** The objective's value; null where there was nothing to take it of. */
  readonly value: number | null;
  readonly summary: BacktestSummary;
  readonly equity: { readonly step_ms: number; readonly t: readonly number[]; readonly value: readonly number[] };
  /** By pnl, the greatest first; of a `count` beyond 1,000 the 500 greatest and the 500 least. */
  readonly symbols: { readonly count: number; readonly listed: readonly SymbolRow[] };
  /** By fill; the first 1,000 of `count`. */
  readonly trades: { readonly count: number; readonly listed: readonly Trade[] };
  readonly calibration: readonly CalibrationRow[];
  readonly grid: GridResult | null;
  readonly coverage: CoverageShare;
  readonly archive: ArchiveUsed;
}

export interface BacktestSummary {
  /** Symbols that were played, those with a trade, and their ticks. */
  readonly symbols: number;
  readonly traded: number;
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

/** Prices from `from` to below `to`, of settled symbols: a calibrated market's mean price is its share of yes. */
export interface CalibrationRow {
  readonly from: number;
  readonly to: number;
  readonly ticks: number;
  readonly mean_price: number | null;
  readonly mean_outcome: number | null;
  readonly brier: number | null;
}

export interface GridResult {
  /** Where what was held out begins. */
  readonly split_at: number;
  /** Index of the point with the best value before it. */
  readonly best: number | null;
  readonly points: readonly {
    readonly parameters: ParameterPoint;
    readonly value: number | null;
    readonly trades: number;
    readonly held_out_value: number | null;
    readonly held_out_trades: number;
  }[];
}

/** What of the symbols' windows in the span nothing was heard of: there may have been ticks. */
export interface CoverageShare {
  readonly asked_ms: number;
  readonly lacking_ms: number;
  /** Null where nothing was asked. */
  readonly lacking_share: number | null;
}

/** What a result rests on. */
export interface ArchiveUsed {
  readonly generation: number;
  readonly manifest_sha256: string;
  /** Files that were read, and the sha256 over lines of their own sha256, two blanks and path, in the order of paths. */
  readonly files: number;
  readonly files_sha256: string;
}

/** Symbols that are told one by one: half of them gained most, half lost most, where there are more. */
export const symbolsMax = 1000;

const takeFirstAndLast = <T>(all: readonly T[], most: number): readonly T[] =>
  all.length <= most ? all : [...all.slice(0, most / 2), ...all.slice(-most / 2)];

/** The points of a grid after both of its spans, and which of them is best. */
export function createGridResult(
  asked: BacktestSpec,
  points: readonly ParameterPoint[],
  [chosenBy, heldOut]: readonly [Window, Window],
  done: RunTotals,
): GridResult {
  const valuesOn = (span: Window, tallies: readonly TradeTotals[]) => {
    const samples = computeSampleTimes(span);
    return tallies.map((tally) => objectives[asked.objective].compute(tally, samples));
  };
  const [first, second] = [done.totals[0]!, done.totals[1]!];
  const values = valuesOn(chosenBy, first);
  const judged = valuesOn(heldOut, second);
  const best = findBest(asked.objective, values);
  return {
    split_at: heldOut.from,
    best: best < 0 ? null : best,
    points: points.map((parameters, i) => ({
      parameters,
      value: values[i]!,
      trades: first[i]!.trades,
      held_out_value: judged[i]!,
      held_out_trades: second[i]!.trades,
    })),
  };
}

/** The split of a span for a grid; undefined where it is too short to be split. */
export function splitWindow({ from, to }: Window, heldOut: number): readonly [Window, Window] | undefined {
  const at = Math.round(to - (to - from) * heldOut);
  return at > from && at < to
    ? [
        { from, to: at },
        { from: at, to },
      ]
    : undefined;
}

/** What is the same in every result of a run. */
export type ResultContext = Pick<
  BacktestResult,
  'asked' | 'strategy' | 'strategy_version' | 'grid' | 'coverage' | 'archive'
>;

/** The result of a run of one strategy on one span, told one by one. */
export function createBacktestResult(framed: ResultContext, span: Window, done: RunTotals): BacktestResult {
  const { asked, strategy, strategy_version, grid, coverage, archive } = framed;
  const samples = computeSampleTimes(span);
  const tally = done.totals[0]![0]!;
  const of = (name: keyof typeof objectives): number | null => objectives[name].compute(tally, samples);
  const { trades, contracts, fees, pnl } = tally;
  const traded = done.symbols.filter((row) => row.trades > 0);
  return {
    asked,
    strategy,
    strategy_version,
    ...span,
    value: of(asked.objective),
    summary: {
      symbols: done.symbols.length,
      traded: traded.length,
      ticks: done.symbols.reduce((n, row) => n + row.ticks, 0),
      trades,
      contracts,
      fees,
      total_pnl: pnl,
      avg_pnl: of('avg_pnl'),
      sharpe: of('sharpe'),
      max_drawdown: of('max_drawdown'),
      win_rate: of('win_rate'),
      brier: of('brier'),
    },
    equity: { step_ms: samples.stepMs, t: [...samples.t], value: [...computeEquity(tally)] },
    symbols: {
      count: traded.length,
      listed: takeFirstAndLast(
        traded.toSorted((a, b) => b.pnl - a.pnl || compareUtf8(a.symbol, b.symbol)),
        symbolsMax,
      ),
    },
    trades: { count: trades, listed: done.trades },
    calibration: toCalibrationRows(done),
    grid,
    coverage,
    archive,
  };
}

const toCalibrationRows = ({ calibration: { ticks, prices, outcomes, brier } }: RunTotals): CalibrationRow[] =>
  Array.from({ length: decilesCount }, (_, k) => {
    const mean = (sums: Float64Array): number | null => (ticks[k] === 0 ? null : sums[k]! / ticks[k]!);
    return {
      from: k / decilesCount,
      to: (k + 1) / decilesCount,
      ticks: ticks[k]!,
      mean_price: mean(prices),
      mean_outcome: mean(outcomes),
      brier: mean(brier),
    };
  });
