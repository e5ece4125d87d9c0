import { type SymbolsPrecedence, toKnownPrecedence } from '../../archive/journal/precedence-store.ts';
import {
  type MergeResult,
  type MergeTask,
  type MergeWorkers,
  mergePartition,
} from '../../archive/publish/merge-partition.ts';
import {
  mergeSeriesPart,
  type SeriesMergeResult,
  type SeriesMergeTask,
} from '../../archive/publish/merge-series-part.ts';
import { DamageError } from '../../base/errors.ts';
import { listWholeBuffers, lowerInBackground, moveToCaller, openWorkerPool } from '../../base/worker-threads.ts';

lowerInBackground();

/** Threads that merge part files. The calling thread runs the tasks that the others have no room for. */
export type MergeThreads = Awaited<ReturnType<typeof openMergeThreads>>;

/**
 * Tasks per thread: one that is running, and one that has already been sent to it, so that it is never idle. The calling thread
 * could not send one while it merges a part itself.
 */
const tasksPerThread = 2;

/**
 * Starts threads. The calling thread is also available while they start.
 * @param count at least 2
 * @param entry module that the threads run, relative to `callerUrl` and without extension; it exports `mergePart` and `mergeSeriesOnThread`
 */
export async function openMergeThreads(count: number, entry = './merge-workers', callerUrl = import.meta.url) {
  const pool = await openWorkerPool(entry, callerUrl, count - 1, { tasksPerThread });
  const tasksMax = (count - 1) * tasksPerThread;
  let running = 0;
  /** Whether a thread can take another task. */
  const hasRoom = (): boolean => running < tasksMax;
  /** Runs a task on one of the other threads. `task`: name of an export of their module. */
  async function run<T>(task: string, value: unknown, transfer: readonly ArrayBuffer[] = []): Promise<T> {
    running++;
    try {
      return (await pool.run(task, value, transfer)) as T;
    } finally {
      running--;
    }
  }
  return {
    /** Number of threads, including the calling one. */
    count,
    hasRoom,
    run,
    parts: {
      // In addition: one task on this thread, and one finished task that waits to be staged in order.
      concurrency: tasksMax + 2,
      async merge(task, precedence) {
        if (!hasRoom()) return mergePartition(task, precedence.lookup);
        const value: PartTask = { task, precedence: precedence.readAll() };
        return requireIntact(await run<MergeResult | FoundDamage>('mergePart', value, listTransferables(task)));
      },
      async mergeSeries(task) {
        if (!hasRoom()) return mergeSeriesPart(task);
        const transfer = listWholeBuffers(task.old === null ? [] : [task.old]);
        return requireIntact(await run<SeriesMergeResult | FoundDamage>('mergeSeriesOnThread', task, transfer));
      },
    } satisfies MergeWorkers,
    /** Terminates the threads, even during a task. */
    close: () => pool.close(),
  };
}

/** Buffers that are transferred to the thread instead of copied. */
function listTransferables({ old, chunks, series }: MergeTask): ArrayBuffer[] {
  const columns = chunks.flatMap((chunk) => ('t' in chunk ? [chunk.t, chunk.p] : []));
  return listWholeBuffers([...(old === null ? [] : [old]), ...series.values(), ...columns]);
}

interface PartTask {
  readonly task: MergeTask;
  readonly precedence: SymbolsPrecedence;
}

/** Merges a part file on a thread. */
export const mergePart = ({ task, precedence }: PartTask): Promise<MergeResult | FoundDamage> =>
  returnDamage(() => {
    const result = mergePartition(task, toKnownPrecedence(precedence));
    return moveToCaller(result, listWholeBuffers(result.files.map(({ bytes }) => bytes)));
  });

export const mergeSeriesOnThread = (task: SeriesMergeTask): Promise<SeriesMergeResult | FoundDamage> =>
  returnDamage(() => {
    const result = mergeSeriesPart(task);
    return moveToCaller(result, listWholeBuffers(result.file === null ? [] : [result.file.bytes]));
  });

/** A DamageError of a merge as a value: an error that a thread throws loses its class, by which a publish refuses the part. */
interface FoundDamage {
  readonly damage: string;
}

async function returnDamage<T>(merge: () => Promise<T>): Promise<T | FoundDamage> {
  try {
    return await merge();
  } catch (error) {
    if (error instanceof DamageError) return { damage: error.message };
    throw error;
  }
}

function requireIntact<T extends object>(result: T | FoundDamage): T {
  if ('damage' in result) throw new DamageError(result.damage);
  return result;
}
