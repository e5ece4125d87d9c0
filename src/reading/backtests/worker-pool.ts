import { DamageError, exitCodes, OddslakeError, UsageError } from '../../core/errors.ts';
import type { Window } from '../../core/window.ts';
import { addRun, type RunDone } from '../../research/run-series.ts';
import { openPool } from '../../worker-threads.ts';
import type { Ground } from './backtest-data.ts';
import type { Done, Failed, LackingTask, PlayTask } from './backtest-thread.ts';
import { type Batch, ticksIn } from './batches.ts';
import type { Lacking, Life } from './coverage-gaps.ts';
import type { BatchPlan } from './run-batch.ts';

/** Threads that play batches. */
export interface Players {
  /** Plays batches, at least one, and adds up what became of them in their order. */
  play(batches: readonly Batch[], plan: BatchPlan): Promise<RunDone>;
  /** What coverage lacks, found out beside what is played. */
  lacking(lives: readonly Life[], span: Window): Promise<Lacking>;
  close(): Promise<void>;
}

type Ended<T> = { readonly done: T } | { readonly error: unknown };

/** Batches that are under way or done before their turn, a thread. */
const aheadPerThread = 2;

/** Every two thousand ticks come in memory of their own: with less, a tenth of the time went into marking the heap. */
const heapMb = 128;

/** With less of the rows being of its own symbols, a batch leaves out those of others as they are read. */
const ownShare = 0.6;

/** @param onBatch told of each batch that is done */
export async function openPlayers(
  ground: Ground,
  threads: number,
  signal: AbortSignal,
  onBatch: () => void,
): Promise<Players> {
  signal.throwIfAborted();
  const pool = await openPool('./backtest-thread', import.meta.url, threads, heapMb);
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
  function begin<T>(name: string, task: () => PlayTask | LackingTask): Promise<Ended<T>> {
    const one = ended<T>(name, task);
    under.add(one);
    void one.then(() => under.delete(one));
    return one;
  }

  async function ended<T>(name: string, task: () => PlayTask | LackingTask): Promise<Ended<T>> {
    try {
      const told = (await pool.run(name, task())) as Done<T>;
      return 'done' in told ? told : { error: errorOf(told.failed) };
    } catch (error) {
      return { error };
    }
  }

  function taskOf(batch: Batch, plan: BatchPlan): PlayTask {
    const all = [...batch.members, ...batch.beside];
    const window = { from: plan.lookFrom, to: plan.span.to };
    const symbols = all.map(({ symbol }) => symbol);
    const { sources, tickRows, beyondWindow } = ground.files(symbols, window, plan.statesFrom);
    const ticks = all.reduce((sum, member) => sum + ticksIn(member, window), 0);
    const cut = { time: beyondWindow, symbols: ticks < ownShare * tickRows };
    return { ...place, sources, batch, plan, cut };
  }

  /** @throws what it came to instead of a result */
  async function resultOf<T>(one: Promise<Ended<T>>): Promise<T> {
    const told = await one;
    signal.throwIfAborted();
    if ('error' in told) throw told.error;
    return told.done;
  }

  return {
    async play(batches, plan) {
      const ahead: Promise<Ended<RunDone>>[] = [];
      let begun = 0;
      let sum: RunDone | undefined;
      for (let i = 0; i < batches.length; i++) {
        while (begun < batches.length && ahead.length < threads * aheadPerThread) {
          const batch = batches[begun++]!;
          ahead.push(begin('play', () => taskOf(batch, plan)));
        }
        const done = await resultOf(ahead.shift()!);
        sum = sum === undefined ? done : addRun(sum, done);
        onBatch();
      }
      if (sum === undefined) throw new Error('there is nothing to play');
      return sum;
    },
    lacking: (lives, span) => resultOf(begin('lack', () => ({ ...place, sources: [ground.coverage(span)], lives }))),
    async close() {
      signal.removeEventListener('abort', stop);
      stop();
      await Promise.all(under);
      await pool.close();
    },
  };
}

const errorOf = ({ exitCode, message, stack }: Failed): Error => {
  const options = { cause: stack };
  if (exitCode === exitCodes.damaged) return new DamageError(message, options);
  return exitCode === exitCodes.usage
    ? new UsageError(message, options)
    : new OddslakeError(exitCode, message, options);
};
