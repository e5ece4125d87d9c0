import { OddslakeError } from '../../core/errors.ts';
import { type Engine, openEngine } from '../../query/duckdb-connection.ts';
import type { Query, Source } from '../../query/query.ts';
import type { RunDone } from '../../research/run-series.ts';
import type { Batch } from './batches.ts';
import { type Lacking, type Life, lackingOf } from './coverage-gaps.ts';
import { type BatchPlan, playBatch } from './run-batch.ts';
import type { Cut } from './tick-columns.ts';

// What a thread that plays backtests is asked to do. It ends with the run that it plays for, and its DuckDB with it.

interface Task {
  /** Where the files are, and where may be put aside what does not fit in memory. */
  readonly root: string;
  readonly scratch: string;
  readonly sources: readonly Source[];
  /** Shared: 1 once nothing of it is wanted any more. */
  readonly stopped: Int32Array;
}

export interface PlayTask extends Task {
  readonly batch: Batch;
  readonly plan: BatchPlan;
  readonly cut: Cut;
}

/** What coverage lacks of some lives; over coverage alone. */
export interface LackingTask extends Task {
  readonly lives: readonly Life[];
}

/** What a class of errors tells is lost between threads: those that are meant for people go as what they say. */
export type Done<T> = { readonly done: T } | { readonly failed: Failed };

export type Failed = Pick<OddslakeError, 'exitCode' | 'message' | 'stack'>;

/** What DuckDB may hold in one thread. */
const memoryBytesMax = 512 * 1024 ** 2;

/** How often it is looked whether a task is wanted still, while DuckDB works for it; milliseconds. */
const lookEveryMs = 50;

let engine: Promise<Engine> | undefined;

/** Opens what all tasks need. What goes wrong here goes wrong again with the first of them. */
export async function wake({ root, scratch }: Pick<Task, 'root' | 'scratch'>): Promise<void> {
  await engineOver(root, scratch);
}

export const play = (task: PlayTask): Promise<Done<RunDone>> =>
  told(task, ({ batch, plan, cut, scratch }, query, breaking) =>
    playBatch(query, batch, plan, cut, { scratch, ...breaking }),
  );

export const lack = (task: LackingTask): Promise<Done<Lacking>> =>
  told(task, ({ lives }, query, { signal }) => lackingOf(query, lives, signal));

/** How a task is broken off, as a batch is. */
interface Breaking {
  readonly signal: AbortSignal;
  look(): void;
}

type Work<Asked extends Task, T> = (task: Asked, query: Query, breaking: Breaking) => Promise<T>;

async function told<Asked extends Task, T>(task: Asked, work: Work<Asked, T>): Promise<Done<T>> {
  try {
    return { done: await worked(task, work) };
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

async function worked<Asked extends Task, T>(task: Asked, work: Work<Asked, T>): Promise<T> {
  const { root, scratch, sources, stopped } = task;
  const stop = new AbortController();
  const look = (): void => {
    if (Atomics.load(stopped, 0) === 1) stop.abort(new Error('the backtest was broken off'));
  };
  look();
  stop.signal.throwIfAborted();
  const query = await (await engineOver(root, scratch)).over(sources, []);
  const looking = setInterval(look, lookEveryMs);
  try {
    return await work(task, query, { signal: stop.signal, look });
  } finally {
    clearInterval(looking);
    await query.close();
  }
}
