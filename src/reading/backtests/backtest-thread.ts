import { OddslakeError } from '../../core/errors.ts';
import { type Engine, openEngine } from '../../query/engine.ts';
import type { Source } from '../../query/query.ts';
import type { Batch } from './batches.ts';
import { type BatchDone, type BatchPlan, playBatch } from './play-batch.ts';
import type { Cut } from './tick-columns.ts';

// What a thread that plays backtests is asked to do. It ends with the run that it plays for, and its DuckDB with it.

export interface PlayTask {
  /** Where the files are, and where DuckDB may put aside what does not fit in memory. */
  readonly root: string;
  readonly scratch: string;
  readonly sources: readonly Source[];
  readonly batch: Batch;
  readonly plan: BatchPlan;
  readonly cut: Cut;
  /** Shared: 1 once nothing of it is wanted any more. */
  readonly stopped: Int32Array;
}

/** What a class of errors tells is lost between threads: those that are meant for people go as what they say. */
export type Played = { readonly done: BatchDone } | { readonly failed: Failed };

export type Failed = Pick<OddslakeError, 'exitCode' | 'message' | 'stack'>;

/** What DuckDB may hold in one thread. */
const memoryBytesMax = 512 * 1024 ** 2;

/** How often it is looked whether a task is wanted still, while DuckDB works for it; milliseconds. */
const lookEveryMs = 50;

let engine: Promise<Engine> | undefined;

/** Opens what all tasks need. What goes wrong here goes wrong again with the first of them. */
export async function wake({ root, scratch }: Pick<PlayTask, 'root' | 'scratch'>): Promise<void> {
  await engineOver(root, scratch);
}

export async function play(task: PlayTask): Promise<Played> {
  try {
    return { done: await playTask(task) };
  } catch (error) {
    if (!(error instanceof OddslakeError)) throw error;
    const { exitCode, message, stack } = error;
    return { failed: { exitCode, message, ...(stack !== undefined && { stack }) } };
  }
}

function engineOver(root: string, scratch: string): Promise<Engine> {
  // One thread, as there are as many of them as are worth their while; with one the order of rows is that of the files.
  engine ??= openEngine(root, { threads: 1, memoryBytesMax, scratch });
  return engine;
}

async function playTask({ root, scratch, sources, batch, plan, cut, stopped }: PlayTask): Promise<BatchDone> {
  const stop = new AbortController();
  const look = (): void => {
    if (Atomics.load(stopped, 0) === 1) stop.abort(new Error('the backtest was broken off'));
  };
  look();
  stop.signal.throwIfAborted();
  const query = await (await engineOver(root, scratch)).over(sources, []);
  const looking = setInterval(look, lookEveryMs);
  try {
    return await playBatch(query, batch, plan, cut, { signal: stop.signal, look });
  } finally {
    clearInterval(looking);
    await query.close();
  }
}
