import { DamageError, exitCodes, OddslakeError, UsageError } from '../../core/errors.ts';
import { addRun } from '../../research/run-series.ts';
import { openPool } from '../../threads.ts';
import type { Failed, Played, PlayTask } from './backtest-thread.ts';
import { type Batch, ticksIn } from './batches.ts';
import type { Ground } from './ground.ts';
import type { BatchDone, BatchPlan } from './play-batch.ts';

/** Threads that play batches. */
export interface Players {
  /** Plays batches, at least one, and adds up what became of them in their order. */
  play(batches: readonly Batch[], plan: BatchPlan): Promise<BatchDone>;
  close(): Promise<void>;
}

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
  for (let thread = 0; thread < threads; thread++) {
    const one = pool.run('wake', { root: ground.root, scratch: ground.scratch }).catch(() => {});
    under.add(one);
    void one.then(() => under.delete(one));
  }

  function begin(batch: Batch, plan: BatchPlan): ReturnType<typeof played> {
    const one = played(batch, plan);
    under.add(one);
    void one.then(() => under.delete(one));
    return one;
  }

  async function played(batch: Batch, plan: BatchPlan): Promise<{ done: BatchDone } | { error: unknown }> {
    try {
      const all = [...batch.members, ...batch.beside];
      const window = { from: plan.lookFrom, to: plan.span.to };
      const symbols = all.map(({ symbol }) => symbol);
      const { sources, tickRows, beyondWindow } = ground.files(symbols, window, plan.statesFrom);
      const ticks = all.reduce((sum, member) => sum + ticksIn(member, window), 0);
      const cut = { time: beyondWindow, symbols: ticks < ownShare * tickRows };
      const task: PlayTask = { root: ground.root, scratch: ground.scratch, sources, batch, plan, cut, stopped };
      const told = (await pool.run('play', task)) as Played;
      return 'done' in told ? told : { error: errorOf(told.failed) };
    } catch (error) {
      return { error };
    }
  }

  return {
    async play(batches, plan) {
      const ahead: ReturnType<typeof begin>[] = [];
      let begun = 0;
      let sum: BatchDone | undefined;
      for (let i = 0; i < batches.length; i++) {
        while (begun < batches.length && ahead.length < threads * aheadPerThread)
          ahead.push(begin(batches[begun++]!, plan));
        const next = await ahead.shift()!;
        signal.throwIfAborted();
        if ('error' in next) throw next.error;
        const { done } = next;
        sum = sum === undefined ? done : added(sum, done);
        onBatch();
      }
      if (sum === undefined) throw new Error('there is nothing to play');
      return sum;
    },
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

const added = (a: BatchDone, b: BatchDone): BatchDone => ({
  run: addRun(a.run, b.run),
  lacking: { asked: a.lacking.asked + b.lacking.asked, lacking: a.lacking.lacking + b.lacking.lacking },
});
