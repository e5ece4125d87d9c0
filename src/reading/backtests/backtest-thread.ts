import { type Engine, openEngine } from '../../query/engine.ts';
import type { Source } from '../../query/query.ts';
import type { Batch } from './batches.ts';
import { type BatchDone, type BatchPlan, playBatch } from './play-batch.ts';

// What a thread that plays backtests is asked to do. It ends with the run that it plays for, and its DuckDB with it.

export interface PlayTask {
  /** Where the files are, and where DuckDB may put aside what does not fit in memory. */
  readonly root: string;
  readonly scratch: string;
  readonly sources: readonly Source[];
  readonly batch: Batch;
  readonly plan: BatchPlan;
}

/** What DuckDB may hold in one thread. */
const memoryBytesMax = 512 * 1024 ** 2;

let engine: Promise<Engine> | undefined;
const never = new AbortController().signal;

export async function play({ root, scratch, sources, batch, plan }: PlayTask): Promise<BatchDone> {
  // One thread, as there are as many of them as are worth their while; with one the order of rows is that of the files.
  engine ??= openEngine(root, { threads: 1, memoryBytesMax, scratch });
  const query = await (await engine).over(sources, []);
  try {
    return await playBatch(query, batch, plan, never);
  } finally {
    await query.close();
  }
}
