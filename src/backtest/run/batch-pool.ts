import { join } from 'node:path';
import { checkNextFile, createSharedCheck } from '../../archive/integrity/check-files.ts';
import { DamageError, exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import type { Window } from '../../base/window.ts';
import { openWorkerPool, type WorkerPool } from '../../base/worker-threads.ts';
import type { BacktestData } from '../data/backtest-data.ts';
import type { Batch } from '../data/batches.ts';
import type { CoverageTotals, LifetimeWindow } from '../data/coverage-gaps.ts';
import { mergeRunTotals, type RunTotals } from '../engine/run-series.ts';
import type { BatchPlan, BatchTask, CheckFilesTask, CoverageTask, TaskFailure, TaskResult } from './batch-thread.ts';

/** A pool of worker threads for batches. */
export interface BatchWorkers {
  /**
   * Runs batches, at least one, and merges their totals in order.
   * @param tradesFolder folder to which all trades are written (`trade-files.ts`); null if they are not needed
   */
  runBatches(batches: readonly Batch[], plan: BatchPlan, tradesFolder?: string | null): Promise<RunTotals>;
  /**
   * Checks the hashes of all files that are not checked yet, on the threads and, until they have started, on this one. Must
   * succeed before batches are run. @throws DamageError if a file does not match the manifest
   */
  checkFiles(): Promise<void>;
  /** Computes uncovered time, concurrently with batches. */
  computeCoverage(lifetimes: readonly LifetimeWindow[], span: Window): Promise<CoverageTotals>;
  close(): Promise<void>;
}

type ThreadTask = BatchTask | CheckFilesTask | CoverageTask;

type TaskOutcome<T> = { readonly done: T } | { readonly error: unknown };

/** Maximum number of running or finished but not yet merged batches per thread. */
const queuedPerThreadMax = 2;

/** Size of the young generation of the heap. With less, garbage collection took a tenth of the time. */
const heapMb = 128;

/** Starts threads for `openBatchWorkers`. They load their modules at once. */
export const startBatchThreads = (threads: number): Promise<WorkerPool> =>
  openWorkerPool('./batch-thread', import.meta.url, threads, { heapMb });

/**
 * @param onBatch called after each batch
 * @param started as many threads, if they were started before; `close` ends them
 */
export async function openBatchWorkers(
  data: BacktestData,
  threads: number,
  signal: AbortSignal,
  onBatch: () => void,
  started: WorkerPool | null = null,
): Promise<BatchWorkers> {
  signal.throwIfAborted();
  const pool = started ?? (await startBatchThreads(threads));
  // Threads are stopped cooperatively: terminating a thread while DuckDB runs in it crashes the process.
  const stopped = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const stop = (): void => void Atomics.store(stopped, 0, 1);
  signal.addEventListener('abort', stop, { once: true });
  const pending = new Set<Promise<unknown>>();
  const track = <T>(one: Promise<T>): Promise<T> => {
    pending.add(one);
    void one.then(() => pending.delete(one));
    return one;
  };
  const taskBase = { root: data.root, scratch: data.scratch, stopped };
  const threadTask = { ...taskBase, needsQuery: data.hasBooks || data.hasQuotes };
  // Threads open DuckDB while files are still being checked.
  for (let thread = 0; thread < threads; thread++) void track(pool.run('openThread', threadTask).catch(() => {}));

  /** Starts a task. Never rejects, because several tasks run before the first result is awaited. */
  const startTask = <T>(name: string, createTask: () => ThreadTask): Promise<TaskOutcome<T>> =>
    track(runTask<T>(name, createTask));

  async function runTask<T>(name: string, createTask: () => ThreadTask): Promise<TaskOutcome<T>> {
    try {
      const outcome = (await pool.run(name, createTask())) as TaskResult<T>;
      return 'done' in outcome ? outcome : { error: toError(outcome.failed) };
    } catch (error) {
      return { error };
    }
  }

  function createBatchTask(batch: Batch, plan: BatchPlan, tradesPrefix: string | null): BatchTask {
    const all = [...batch.members, ...batch.otherVenues];
    const window = { from: plan.readFrom, to: plan.span.to };
    const symbols = all.map(({ symbol }) => symbol);
    return { ...taskBase, ...data.findFiles(symbols, window, plan.statesFrom), batch, plan, tradesPrefix };
  }

  /** @throws the error of the task */
  async function awaitResult<T>(one: Promise<TaskOutcome<T>>): Promise<T> {
    const outcome = await one;
    signal.throwIfAborted();
    if ('error' in outcome) throw outcome.error;
    return outcome.done;
  }

  return {
    async checkFiles() {
      const check = createSharedCheck(data.root, data.uncheckedFiles);
      const onThreads = Array.from({ length: threads }, () =>
        startTask<null>('checkFilesTask', () => ({ ...taskBase, check })),
      );
      let hasMore = true;
      while (hasMore) {
        signal.throwIfAborted();
        hasMore = checkNextFile(check, data.disk);
        await new Promise((resolve) => setImmediate(resolve));
      }
      for (const one of onThreads) await awaitResult(one);
    },
    async runBatches(batches, plan, tradesFolder = null) {
      const queue: Promise<TaskOutcome<RunTotals>>[] = [];
      let startedCount = 0;
      let total: RunTotals | undefined;
      for (let i = 0; i < batches.length; i++) {
        while (startedCount < batches.length && queue.length < threads * queuedPerThreadMax) {
          const tradesPrefix = tradesFolder === null ? null : join(tradesFolder, `batch-${startedCount}`);
          const batch = batches[startedCount++]!;
          queue.push(startTask('runBatchTask', () => createBatchTask(batch, plan, tradesPrefix)));
        }
        const totals = await awaitResult(queue.shift()!);
        total = total === undefined ? totals : mergeRunTotals(total, totals);
        onBatch();
      }
      if (total === undefined) throw new Error('no batches to run');
      return total;
    },
    computeCoverage: (lifetimes, span) =>
      awaitResult(startTask('computeCoverageTask', () => ({ ...taskBase, paths: data.findCoverage(span), lifetimes }))),
    async close() {
      signal.removeEventListener('abort', stop);
      stop();
      await Promise.all(pending);
      await pool.close();
    },
  };
}

const toError = ({ exitCode, message, stack }: TaskFailure): Error => {
  const options = { cause: stack };
  if (exitCode === exitCodes.damaged) return new DamageError(message, options);
  return exitCode === exitCodes.usage
    ? new UsageError(message, options)
    : new OddslakeError(exitCode, message, options);
};
