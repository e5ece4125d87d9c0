import { join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import { parsePartNumber } from '../../archive/format/layout.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import type { Random } from '../../base/ports.ts';
import type { Window } from '../../base/window.ts';
import type { WorkerPool } from '../../base/worker-threads.ts';
import type { BacktestSpec } from '../../contract/backtest-request.ts';
import type { BacktestResult } from '../../contract/backtests.ts';
import type { Strategy } from '../../contract/strategy-language.ts';
import { openBacktestData } from '../data/backtest-data.ts';
import {
  BacktestTooLargeError,
  type Batch,
  computeReadFrom,
  computeSpan,
  estimateCost,
  isFiltered,
  planBatches,
  readUniverse,
} from '../data/batches.ts';
import { type CoverageTotals, clipLifetimes } from '../data/coverage-gaps.ts';
import { readMarketIndex } from '../data/markets.ts';
import { type SortedTrades, withSortedTrades } from '../data/trade-files.ts';
import { computeSampleTimes } from '../engine/trade-totals.ts';
import { bindGridPoints, InvalidBacktestError, type ResolvedStrategy } from '../resolve-strategy.ts';
import { createBacktestResult, createGridResult, splitWindow } from '../result.ts';
import { expandGrid } from '../strategy/parse-strategy.ts';
import { type DataDependencies, mergeDataDependencies } from '../strategy/strategy.ts';
import { type BatchWorkers, openBatchWorkers, startBatchThreads } from './batch-pool.ts';
import type { BatchPlan } from './batch-thread.ts';

/** Resources and callbacks of a run. */
export interface BacktestRunContext {
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Number of worker threads, at least 1. */
  readonly threads: number;
  /** Maximum cost in ticks, see `estimateCost`. Default: unlimited. */
  readonly ticksMax?: number;
  /** Called with the number of finished batches and their total. */
  progress(done: number, total: number): void;
  /**
   * Called once with all trades of the result, which lists only the first ones. They can be read until the returned promise is
   * resolved. Without it, the other trades are not kept.
   */
  saveTrades?(trades: SortedTrades): Promise<void>;
}

/**
 * Runs a backtest on one generation of the archive. With a grid, runs all points on the in-sample and on the held-out window,
 * then the best point on the held-out window with details.
 * @throws InvalidBacktestError for an invalid request; BacktestTooLargeError; DamageError for damaged files; the signal's
 *   reason if it is aborted
 */
export async function runBacktest(
  archive: Archive,
  spec: BacktestSpec,
  resolved: ResolvedStrategy,
  context: BacktestRunContext,
): Promise<BacktestResult> {
  const points = expandGrid(spec.grid);
  const strategies = bindGridPoints(points, spec, resolved);
  const dependencies = mergeDataDependencies(strategies);
  context.signal.throwIfAborted();
  // Threads take as long to start as the files to be opened.
  const startsEarly = countBatchesMin(archive, spec, dependencies) >= context.threads;
  const started = startsEarly ? await startBatchThreads(context.threads) : null;
  try {
    return await runPoints(archive, spec, resolved, { points, strategies, dependencies, started }, context);
  } finally {
    await started?.close();
  }
}

/** The fewest batches that a backtest may have, by the manifest; 0 if that is not known yet. */
function countBatchesMin(archive: Archive, spec: BacktestSpec, dependencies: DataDependencies): number {
  if (spec.symbols !== null || isFiltered(spec.filter) || dependencies.needsVenues) return 0;
  const manifest = archive.readManifest();
  const isNeeded = createFileFilter('ticks', [], computeDataRange(spec, dependencies));
  return new Set(manifest.datasets.ticks.files.filter(isNeeded).map(({ path }) => parsePartNumber(path))).size;
}

interface PreparedRun {
  readonly points: ReturnType<typeof expandGrid>;
  /** One for each point. */
  readonly strategies: readonly Strategy[];
  readonly dependencies: DataDependencies;
  /** Threads that were started before; null to start as many as there are batches. */
  readonly started: WorkerPool | null;
}

async function runPoints(
  archive: Archive,
  spec: BacktestSpec,
  resolved: ResolvedStrategy,
  { points, strategies, dependencies, started }: PreparedRun,
  { random, signal, threads, progress, saveTrades, ticksMax = Number.POSITIVE_INFINITY }: BacktestRunContext,
): Promise<BacktestResult> {
  const data = await openBacktestData(
    archive,
    { ...computeDataRange(spec, dependencies), hasStates: dependencies.needsStates || dependencies.needsVenues },
    random,
    signal,
  );
  let workers: BatchWorkers | undefined;
  try {
    const universe = await readUniverse(data.query, spec, signal);
    const span = computeSpan(universe.members, spec, data.publishedAt);
    if (span === null)
      throw new InvalidBacktestError([{ name: 'from', reason: 'leaves no ticks of the selected symbols' }]);
    // Checked before the files are hashed, so that an oversized request fails early.
    const cost = estimateCost(universe, span, strategies);
    if (cost > ticksMax) throw new BacktestTooLargeError(`${cost} ticks`);
    const split = Object.keys(spec.grid).length === 0 ? null : splitSpan(span, spec);
    const resultWindow = split === null ? span : split[1];
    requireGridWithinMax(points.length, split ?? [resultWindow]);
    const markets = dependencies.needsVenues ? await readMarketIndex(data.query, span.to, signal) : null;
    const createBatches = (window: Window): Batch[] =>
      planBatches(universe, { from: computeWindowReadFrom(window, span), to: window.to }, markets);
    const [allBatches, resultBatches] = [createBatches(span), createBatches(resultWindow)];
    const batches = resultBatches.length + (split === null ? 0 : allBatches.length);
    let done = 0;
    const threadsUsed =
      started === null ? Math.min(threads, Math.max(allBatches.length, resultBatches.length)) : threads;
    workers = await openBatchWorkers(data, threadsUsed, signal, () => progress(++done, batches), started);
    await workers.checkFiles();
    const uncovered = workers.computeCoverage(clipLifetimes(universe.members, resultWindow), resultWindow);
    // Not awaited if a batch fails first.
    uncovered.catch(() => {});
    if (dependencies.needsStates && batches > writeStatesBatchesMin) await data.writeStates(span.to, signal);

    let [grid, chosenStrategy]: [BacktestResult['grid'], Strategy | undefined] = [null, strategies[0]];
    if (split !== null) {
      const plan = { strategies, spans: split, isDetailed: false };
      grid = createGridResult(
        spec,
        points,
        split,
        await workers.runBatches(allBatches, createBatchPlan(span, span, plan)),
      );
      chosenStrategy = strategies[grid.best ?? 0];
    }
    // The same lookback as for the grid, so that the values are the same.
    const plan = { strategies: [chosenStrategy!], spans: [resultWindow], isDetailed: true };
    const tradesFolder = saveTrades === undefined ? null : join(data.scratch, 'trades');
    const totals = await workers.runBatches(resultBatches, createBatchPlan(resultWindow, span, plan), tradesFolder);
    if (saveTrades !== undefined && tradesFolder !== null)
      await withSortedTrades(tradesFolder, data.scratch, signal, saveTrades);
    const coverage = toCoverageShare(await uncovered);
    const resultContext = {
      request: spec,
      strategy: chosenStrategy!,
      strategy_version: resolved.version,
      grid,
      coverage,
      archive: data.archiveUsed,
    };
    return createBacktestResult(resultContext, resultWindow, totals);
  } finally {
    try {
      await workers?.close();
    } finally {
      await data.close();
    }
  }

  function createBatchPlan(window: Window, span: Window, plan: BatchPlan['runPlan']): BatchPlan {
    const { hasBooks, hasQuotes } = data;
    return {
      runPlan: plan,
      span: window,
      readFrom: computeWindowReadFrom(window, span),
      statesFrom: computeReadFrom(span.from, dependencies),
      hasStates: dependencies.needsStates,
      hasBooks,
      hasQuotes,
    };
  }

  /** Start of the ticks of a window. The held-out window uses the lookback of the whole run. */
  function computeWindowReadFrom(window: Window, span: Window): number {
    return dependencies.lookbackMs === 0 ? window.from : computeReadFrom(span.from, dependencies);
  }
}

const toCoverageShare = ({ lifetimeMs, uncoveredMs }: CoverageTotals): BacktestResult['coverage'] => ({
  lifetime_ms: lifetimeMs,
  gap_ms: uncoveredMs,
  gap_share: lifetimeMs === 0 ? null : uncoveredMs / lifetimeMs,
});

/** With more batches than this, market states are sorted once instead of read for each batch. */
const writeStatesBatchesMin = 4;

/** Maximum product of grid points and samples of a run. Each unit takes several times 16 bytes. */
const gridCellsMax = 2_000_000;

/** @throws InvalidBacktestError if the equity curves of all points take too much memory */
function requireGridWithinMax(points: number, spans: readonly Window[]): void {
  const samples = spans.reduce((sum, span) => sum + computeSampleTimes(span).t.length, 0);
  if (points * samples <= gridCellsMax) return;
  const reason = `has ${points} points, too many for a window with ${samples} samples: use at most ${Math.floor(gridCellsMax / samples)} points, or a shorter window`;
  throw new InvalidBacktestError([{ name: 'grid', reason }]);
}

function splitSpan(span: Window, spec: BacktestSpec): readonly [Window, Window] {
  const split = splitWindow(span, spec.held_out);
  if (split === undefined)
    throw new InvalidBacktestError([{ name: 'held_out', reason: 'leaves one part of the window empty' }]);
  return split;
}

const computeDataRange = ({ from, to, symbols }: BacktestSpec, dependencies: DataDependencies) => ({
  from: from === null ? null : computeReadFrom(from, dependencies),
  to,
  // Other venues are known only after the symbols are read.
  symbols: dependencies.needsVenues ? [] : (symbols ?? []),
});
