import type { Archive } from '../../archive/open-archive.ts';
import type { Random } from '../../base/ports.ts';
import type { Window } from '../../base/window.ts';
import type { BacktestSpec } from '../backtest-spec.ts';
import { openBacktestData } from '../data/backtest-data.ts';
import {
  BacktestTooLargeError,
  type Batch,
  computeReadFrom,
  computeSpan,
  estimateCost,
  planBatches,
  readUniverse,
} from '../data/batches.ts';
import { type CoverageTotals, clipLifetimes } from '../data/coverage-gaps.ts';
import { readMarketIndex } from '../data/markets.ts';
import { computeSampleTimes } from '../engine/trade-totals.ts';
import { InvalidBacktestError } from '../invalid-backtest.ts';
import { type BacktestResult, createBacktestResult, createGridResult, splitWindow } from '../result.ts';
import type { Fault } from '../strategy/json-validator.ts';
import {
  bindParameters,
  type DataDependencies,
  expandGrid,
  mergeDataDependencies,
  type ParameterPoint,
} from '../strategy/parse-strategy.ts';
import type { Strategy } from '../strategy/strategy.ts';
import type { BatchPlan } from './run-batch.ts';
import { type BatchWorkers, openBatchWorkers } from './worker-pool.ts';

/** What goes on beside a run. */
export interface BacktestRunContext {
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Threads that play, at least 1. */
  readonly threads: number;
  /** Ticks that are played at most, weighed as `estimateCost` does; any number where it is not given. */
  readonly ticksMax?: number;
  /** Told now and then how many batches of how many are done. */
  progress(done: number, total: number): void;
}

/** The strategy that is asked for, as it was found by its name. */
export interface ResolvedStrategy {
  readonly strategy: Strategy;
  /** Of a user's strategy; else null. */
  readonly version: number | null;
}

/**
 * Runs a backtest on one generation of the archive. A grid is run with all of its points on what they are chosen by and on
 * what is held out; then the best of them is told one by one, on what was held out.
 * @throws InvalidBacktestError where what is asked cannot be run; BacktestTooLargeError; UsageError for a symbol that nobody knows; DamageError for
 *   damaged files; the signal's reason once it is aborted
 */
export async function runBacktest(
  archive: Archive,
  asked: BacktestSpec,
  found: ResolvedStrategy,
  { random, signal, threads, progress, ticksMax = Number.POSITIVE_INFINITY }: BacktestRunContext,
): Promise<BacktestResult> {
  const points = expandGrid(asked.grid);
  const strategies = bindGridPoints(points, asked, found);
  const looks = mergeDataDependencies(strategies);
  const ground = await openBacktestData(
    archive,
    { ...computeDataRange(asked, looks), hasStates: looks.needsStates || looks.needsVenues },
    random,
    signal,
  );
  let players: BatchWorkers | undefined;
  try {
    const universe = await readUniverse(ground.query, asked, signal);
    const span = computeSpan(universe.members, asked, ground.publishedAt);
    if (span === null)
      throw new InvalidBacktestError([{ name: 'from', reason: 'leaves no tick of any symbol that is asked for' }]);
    // Before all files are hashed: a large run would be told of it late.
    const weight = estimateCost(universe, span, strategies);
    if (weight > ticksMax) throw new BacktestTooLargeError(`${weight} ticks`);
    const split = Object.keys(asked.grid).length === 0 ? null : splitSpan(span, asked);
    const told = split === null ? span : split[1];
    requireGridWithinMax(points.length, split ?? [told]);
    const markets = looks.needsVenues ? await readMarketIndex(ground.query, span.to, signal) : null;
    const batchesOn = (window: Window): Batch[] =>
      planBatches(universe, { from: lookFromOn(window, span), to: window.to }, ground.parts, markets);
    const [all, last] = [batchesOn(span), batchesOn(told)];
    const batches = last.length + (split === null ? 0 : all.length);
    let done = 0;
    const threadsUsed = Math.min(threads, Math.max(all.length, last.length));
    players = await openBatchWorkers(ground, threadsUsed, signal, () => progress(++done, batches));
    await ground.requireIntact(signal);
    const lacking = players.computeCoverage(clipLifetimes(universe.members, told), told);
    // Where it is played that fails first, nobody asks for it any more.
    lacking.catch(() => {});
    if (looks.needsStates && batches > writeStatesBatchesMin) await ground.writeStates(span.to, signal);

    let [grid, chosen]: [BacktestResult['grid'], Strategy | undefined] = [null, strategies[0]];
    if (split !== null) {
      const plan = { strategies, spans: split, isDetailed: false };
      grid = createGridResult(asked, points, split, await players.runBatches(all, planOn(span, span, plan)));
      chosen = strategies[grid.best ?? 0];
    }
    // What was held out is looked back on from as far as the grid was: its values are those that are told here.
    const plan = { strategies: [chosen!], spans: [told], isDetailed: true };
    const run = await players.runBatches(last, planOn(told, span, plan));
    const coverage = toCoverageShare(await lacking);
    const framed = {
      asked,
      strategy: chosen!,
      strategy_version: found.version,
      grid,
      coverage,
      archive: ground.archiveUsed,
    };
    return createBacktestResult(framed, told, run);
  } finally {
    try {
      await players?.close();
    } finally {
      await ground.close();
    }
  }

  function planOn(window: Window, span: Window, plan: BatchPlan['runPlan']): BatchPlan {
    const { parts, hasBooks } = ground;
    const { needsStates } = looks;
    const statesFrom = computeReadFrom(span.from, looks);
    const lookFrom = lookFromOn(window, span);
    return { runPlan: plan, parts, span: window, readFrom: lookFrom, statesFrom, hasStates: needsStates, hasBooks };
  }

  /** What was held out is looked back on from as far as all of the run is. */
  function lookFromOn(window: Window, span: Window): number {
    return looks.lookbackMs === 0 ? window.from : computeReadFrom(span.from, looks);
  }
}

const toCoverageShare = ({ lifetimeMs, uncoveredMs }: CoverageTotals): BacktestResult['coverage'] => ({
  asked_ms: lifetimeMs,
  lacking_ms: uncoveredMs,
  lacking_share: lifetimeMs === 0 ? null : uncoveredMs / lifetimeMs,
});

/**
 * The strategy at every point of a grid.
 * @throws InvalidBacktestError
 */
export const bindGridPoints = (
  points: readonly ParameterPoint[],
  asked: BacktestSpec,
  found: ResolvedStrategy,
): Strategy[] => points.map((point) => bindStrategy(asked, found, point));

/** With more batches than these, what was known of markets is put in order once, rather than all of it read for each. */
const writeStatesBatchesMin = 4;

/** Points times samples of one run: each of them takes 16 bytes, several times. */
const gridCellsMax = 2_000_000;

/** @throws InvalidBacktestError where the curves of all points take too much memory */
function requireGridWithinMax(points: number, spans: readonly Window[]): void {
  const samples = spans.reduce((sum, span) => sum + computeSampleTimes(span).t.length, 0);
  if (points * samples <= gridCellsMax) return;
  const reason = `has ${points} points, too many for a span with ${samples} samples: take at most ${Math.floor(gridCellsMax / samples)}, or a shorter span`;
  throw new InvalidBacktestError([{ name: 'grid', reason }]);
}

function bindStrategy(asked: BacktestSpec, { strategy }: ResolvedStrategy, point: ParameterPoint): Strategy {
  const both = Object.keys(point).find((name) => Object.hasOwn(asked.parameters, name));
  if (both !== undefined)
    throw new InvalidBacktestError([{ name: `parameters.${both}`, reason: 'is in the grid, too' }]);
  const read = bindParameters(strategy, { ...asked.parameters, ...point });
  if ('faults' in read) throw new InvalidBacktestError(read.faults.map((fault) => toPointFault(fault, point)));
  return read.strategy;
}

/** A parameter is named where its value was given. */
function toPointFault({ name, reason }: Fault, point: ParameterPoint): Fault {
  const [, parameter = ''] = /^parameters\.(.*)$/s.exec(name) ?? [];
  return { name: Object.hasOwn(point, parameter) ? `grid.${parameter}` : name, reason };
}

function splitSpan(span: Window, asked: BacktestSpec): readonly [Window, Window] {
  const split = splitWindow(span, asked.held_out);
  if (split === undefined)
    throw new InvalidBacktestError([{ name: 'held_out', reason: 'leaves nothing to choose by, or to judge on' }]);
  return split;
}

/** What may be read of the archive. */
const computeDataRange = ({ from, to, symbols }: BacktestSpec, looks: DataDependencies) => ({
  from: from === null ? null : computeReadFrom(from, looks),
  to,
  // Their other venues are known only once the symbols are read.
  symbols: looks.needsVenues ? [] : (symbols ?? []),
});
