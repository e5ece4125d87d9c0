import { createQueryEngine, type QueryEngine } from '../../archive/query/database.ts';
import type { DatasetFiles, Query } from '../../archive/query/query.ts';
import { OddslakeError } from '../../base/errors.ts';
import type { Batch } from '../data/batches.ts';
import { type CoverageTotals, computeCoverageTotals, type LifetimeWindow } from '../data/coverage-gaps.ts';
import type { TickReadFilter } from '../data/tick-columns.ts';
import type { RunTotals } from '../engine/run-series.ts';
import { type BatchPlan, runBatch } from './run-batch.ts';

// Tasks of a worker thread. The thread and its DuckDB end with the run.

interface WorkerTask {
  /** Folder of the files, and folder for temporary files. */
  readonly root: string;
  readonly scratch: string;
  readonly sources: readonly DatasetFiles[];
  /** Shared; 1 if the run is cancelled. */
  readonly stopped: Int32Array;
}

export interface BatchTask extends WorkerTask {
  readonly batch: Batch;
  readonly plan: BatchPlan;
  readonly cut: TickReadFilter;
}

/** Computes the uncovered time of lifetimes. */
export interface CoverageTask extends WorkerTask {
  readonly lifetimes: readonly LifetimeWindow[];
}

/** Expected errors are passed as data, because error classes are lost between threads. */
export type TaskResult<T> = { readonly done: T } | { readonly failed: TaskFailure };

export type TaskFailure = Pick<OddslakeError, 'exitCode' | 'message' | 'stack'>;

/** Memory limit of DuckDB per thread. */
const memoryBytesMax = 512 * 1024 ** 2;

/** Interval of checks for cancellation while DuckDB runs, in ms. */
const stopPollMs = 50;

let engine: Promise<QueryEngine> | undefined;

/** Opens DuckDB in advance. Errors are ignored by the caller, because the first task repeats them. */
export async function openThread({ root, scratch }: Pick<WorkerTask, 'root' | 'scratch'>): Promise<void> {
  await openSharedEngine(root, scratch);
}

export const runBatchTask = (task: BatchTask): Promise<TaskResult<RunTotals>> =>
  runTask(task, ({ batch, plan, cut, scratch }, query, cancellation) =>
    runBatch(query, batch, plan, cut, { scratch, ...cancellation }),
  );

export const computeCoverageTask = (task: CoverageTask): Promise<TaskResult<CoverageTotals>> =>
  runTask(task, ({ lifetimes }, query, { signal }) => computeCoverageTotals(query, lifetimes, signal));

/** Cancellation of a task. */
interface TaskCancellation {
  readonly signal: AbortSignal;
  checkStopped(): void;
}

type TaskFunction<Asked extends WorkerTask, T> = (
  task: Asked,
  query: Query,
  cancellation: TaskCancellation,
) => Promise<T>;

async function runTask<Asked extends WorkerTask, T>(task: Asked, work: TaskFunction<Asked, T>): Promise<TaskResult<T>> {
  try {
    return { done: await executeTask(task, work) };
  } catch (error) {
    if (!(error instanceof OddslakeError)) throw error;
    const { exitCode, message, stack } = error;
    return { failed: { exitCode, message, ...(stack !== undefined && { stack }) } };
  }
}

function openSharedEngine(root: string, scratch: string): Promise<QueryEngine> {
  // One DuckDB thread, because the pool already uses all cores, and because it keeps rows in file order.
  engine ??= createQueryEngine(root, { threads: 1, memoryBytesMax, scratch });
  return engine;
}

async function executeTask<Asked extends WorkerTask, T>(task: Asked, work: TaskFunction<Asked, T>): Promise<T> {
  const { root, scratch, sources, stopped } = task;
  const stop = new AbortController();
  const checkStopped = (): void => {
    if (Atomics.load(stopped, 0) === 1) stop.abort(new Error('the backtest was cancelled'));
  };
  checkStopped();
  stop.signal.throwIfAborted();
  const query = await (await openSharedEngine(root, scratch)).openQuery(sources, []);
  const timer = setInterval(checkStopped, stopPollMs);
  try {
    return await work(task, query, { signal: stop.signal, checkStopped: checkStopped });
  } finally {
    clearInterval(timer);
    await query.close();
  }
}
