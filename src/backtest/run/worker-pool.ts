import { DamageError, exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import type { Window } from '../../base/window.ts';
import { openWorkerPool } from '../../base/worker-threads.ts';
import type { BacktestData } from '../data/backtest-data.ts';
import { type Batch, estimateTicksIn } from '../data/batches.ts';
import type { CoverageTotals, LifetimeWindow } from '../data/coverage-gaps.ts';
import { mergeRunTotals, type RunTotals } from '../engine/run-series.ts';
import type { BatchTask, CoverageTask, TaskFailure, TaskResult } from './backtest-thread.ts';
import type { BatchPlan } from './run-batch.ts';

/** Threads that play batches. */
export interface BatchWorkers {
  /** Plays batches, at least one, and adds up what became of them in their order. */
  runBatches(batches: readonly Batch[], plan: BatchPlan): Promise<RunTotals>;
  /** What coverage lacks, found out beside what is played. */
  computeCoverage(lives: readonly LifetimeWindow[], span: Window): Promise<CoverageTotals>;
  close(): Promise<void>;
}

type TaskOutcome<T> = { readonly done: T } | { readonly error: unknown };

/** Batches that are under way or done before their turn, a thread. */
const queuedPerThreadMax = 2;

/** Every two thousand ticks come in memory of their own: with less, a tenth of the time went into marking the heap. */
const heapMb = 128;

/** With less of the rows being of its own symbols, a batch leaves out those of others as they are read. */
const ownRowsShareMin = 0.6;

/** @param onBatch told of each batch that is done */
export async function openBatchWorkers(
  ground: BacktestData,
  threads: number,
  signal: AbortSignal,
  onBatch: () => void,
): Promise<BatchWorkers> {
  signal.throwIfAborted();
  const pool = await openWorkerPool('./backtest-thread', import.meta.url, threads, heapMb);
  // Threads are asked to stop, and then ended: one that is ended while DuckDB works in it takes the whole process with it.
  const stopped = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const stop = (): void => void Atomics.store(stopped, 0, 1);
  signal.addEventListener('abort', stop, { once: true });
  const under = new Set<Promise<unknown>>();
  // They load what they need while files are still being looked at.
  const place = { root: ground.root, scratch: ground.scratch, stopped };
  for (let thread = 0; thread < threads; thread++) {
    const one = pool.run('wake', place).catch(() => {});
    under.add(one);
    void one.then(() => under.delete(one));
  }

  /** What comes of it, and never a rejection: several are under way before anybody asks for the first. */
  function begin<T>(name: string, task: () => BatchTask | CoverageTask): Promise<TaskOutcome<T>> {
    const one = ended<T>(name, task);
    under.add(one);
    void one.then(() => under.delete(one));
    return one;
  }

  async function ended<T>(name: string, task: () => BatchTask | CoverageTask): Promise<TaskOutcome<T>> {
    try {
      const told = (await pool.run(name, task())) as TaskResult<T>;
      return 'done' in told ? told : { error: toError(told.failed) };
    } catch (error) {
      return { error };
    }
  }

  function taskOf(batch: Batch, plan: BatchPlan): BatchTask {
    const all = [...batch.members, ...batch.otherVenues];
    const window = { from: plan.readFrom, to: plan.span.to };
    const symbols = all.map(({ symbol }) => symbol);
    const { sources, tickRows, hasRowsOutsideWindow } = ground.findFiles(symbols, window, plan.statesFrom);
    const ticks = all.reduce((sum, member) => sum + estimateTicksIn(member, window), 0);
    const cut = { time: hasRowsOutsideWindow, symbols: ticks < ownRowsShareMin * tickRows };
    return { ...place, sources, batch, plan, cut };
  }

  /** @throws what it came to instead of a result */
  async function resultOf<T>(one: Promise<TaskOutcome<T>>): Promise<T> {
    const told = await one;
    signal.throwIfAborted();
    if ('error' in told) throw told.error;
    return told.done;
  }

  return {
    async runBatches(batches, plan) {
      const ahead: Promise<TaskOutcome<RunTotals>>[] = [];
      let begun = 0;
      let sum: RunTotals | undefined;
      for (let i = 0; i < batches.length; i++) {
        while (begun < batches.length && ahead.length < threads * queuedPerThreadMax) {
          const batch = batches[begun++]!;
          ahead.push(begin('play', () => taskOf(batch, plan)));
        }
        const done = await resultOf(ahead.shift()!);
        sum = sum === undefined ? done : mergeRunTotals(sum, done);
        onBatch();
      }
      if (sum === undefined) throw new Error('there is nothing to play');
      return sum;
    },
    computeCoverage: (lives, span) =>
      resultOf(begin('lack', () => ({ ...place, sources: [ground.findCoverage(span)], lifetimes: lives }))),
    async close() {
      signal.removeEventListener('abort', stop);
      stop();
      await Promise.all(under);
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
