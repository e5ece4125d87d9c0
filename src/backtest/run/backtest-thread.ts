import { createQueryEngine, type QueryEngine } from '../../archive/query/database.ts';
import type { DatasetFiles, Query } from '../../archive/query/query.ts';
import { OddslakeError } from '../../base/errors.ts';
import type { Batch } from '../data/batches.ts';
import { type CoverageTotals, computeCoverageTotals, type LifetimeWindow } from '../data/coverage-gaps.ts';
import type { TickReadFilter } from '../data/tick-columns.ts';
import type { RunTotals } from '../engine/run-series.ts';
import { type BatchPlan, runBatch } from './run-batch.ts';

// What a thread that plays backtests is asked to do. It ends with the run that it plays for, and its DuckDB with it.

interface WorkerTask {
  /** Where the files are, and where may be put aside what does not fit in memory. */
  readonly root: string;
  readonly scratch: string;
  readonly sources: readonly DatasetFiles[];
  /** Shared: 1 once nothing of it is wanted any more. */
  readonly stopped: Int32Array;
}

export interface BatchTask extends WorkerTask {
  readonly batch: Batch;
  readonly plan: BatchPlan;
  readonly cut: TickReadFilter;
}

/** What coverage lacks of some lives; over coverage alone. */
export interface CoverageTask extends WorkerTask {
  readonly lifetimes: readonly LifetimeWindow[];
}

/** What a class of errors tells is lost between threads: those that are meant for people go as what they say. */
export type TaskResult<T> = { readonly done: T } | { readonly failed: TaskFailure };

export type TaskFailure = Pick<OddslakeError, 'exitCode' | 'message' | 'stack'>;

/** What DuckDB may hold in one thread. */
const memoryBytesMax = 512 * 1024 ** 2;

/** How often it is looked whether a task is wanted still, while DuckDB works for it; milliseconds. */
const stopPollMs = 50;

let engine: Promise<QueryEngine> | undefined;

/** Opens what all tasks need. What goes wrong here goes wrong again with the first of them. */
export async function wake({ root, scratch }: Pick<WorkerTask, 'root' | 'scratch'>): Promise<void> {
  await openSharedEngine(root, scratch);
}

export const play = (task: BatchTask): Promise<TaskResult<RunTotals>> =>
  runTask(task, ({ batch, plan, cut, scratch }, query, breaking) =>
    runBatch(query, batch, plan, cut, { scratch, ...breaking }),
  );

export const lack = (task: CoverageTask): Promise<TaskResult<CoverageTotals>> =>
  runTask(task, ({ lifetimes }, query, { signal }) => computeCoverageTotals(query, lifetimes, signal));

/** How a task is broken off, as a batch is. */
interface TaskCancellation {
  readonly signal: AbortSignal;
  checkStopped(): void;
}

type TaskFunction<Asked extends WorkerTask, T> = (task: Asked, query: Query, breaking: TaskCancellation) => Promise<T>;

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
  // One thread, as there are as many of them as are worth their while; with one the order of rows is that of the files.
  engine ??= createQueryEngine(root, { threads: 1, memoryBytesMax, scratch });
  return engine;
}

async function executeTask<Asked extends WorkerTask, T>(task: Asked, work: TaskFunction<Asked, T>): Promise<T> {
  const { root, scratch, sources, stopped } = task;
  const stop = new AbortController();
  const look = (): void => {
    if (Atomics.load(stopped, 0) === 1) stop.abort(new Error('the backtest was broken off'));
  };
  look();
  stop.signal.throwIfAborted();
  const query = await (await openSharedEngine(root, scratch)).openQuery(sources, []);
  const looking = setInterval(look, stopPollMs);
  try {
    return await work(task, query, { signal: stop.signal, checkStopped: look });
  } finally {
    clearInterval(looking);
    await query.close();
  }
}
