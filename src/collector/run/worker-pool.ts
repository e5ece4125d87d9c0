import { join } from 'node:path';
import {
  type MergeResult,
  type MergeTask,
  type MergeWorkers,
  mergePartition,
} from '../../archive/publish/merge-partition.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import { listWholeBuffers, openWorkerPool } from '../../base/worker-threads.ts';
import { type ReadPagesTask, readPages, type TickPageRead } from '../import/pages.ts';

/** Threads that read saved pages and merge part files (see worker.ts). The calling thread is one of them. */
export interface JobWorkers {
  readonly count: number;
  readonly parts: MergeWorkers;
  readPages(task: ReadPagesTask): Promise<TickPageRead[]>;
  /** Terminates the threads, also during a task. */
  close(): Promise<void>;
}

/** Tasks per thread: one that runs, and one that is queued so that the thread is never idle. */
const tasksPerThread = 2;

/**
 * Starts threads. The calling thread runs the tasks that the others have no room for; it is also available while they start.
 * @param count at least 2
 */
export async function openJobWorkers(count: number): Promise<JobWorkers> {
  const pool = await openWorkerPool('./worker', import.meta.url, count - 1);
  const tasksMax = (count - 1) * tasksPerThread;
  let running = 0;
  let spill: SpillFile | undefined;
  const inPool = async <T>(task: string, value: unknown, transfer: readonly ArrayBuffer[] = []): Promise<T> => {
    running++;
    try {
      return (await pool.run(task, value, transfer)) as T;
    } finally {
      running--;
    }
  };
  let assignments = Promise.resolve();
  /** Assigns one task after the other, each after the completion messages of the threads have been processed. */
  const waitForAssignment = (): Promise<void> => {
    assignments = assignments.then(() => new Promise((resolve) => setImmediate(resolve)));
    return assignments;
  };
  return {
    count,
    async readPages(task) {
      await waitForAssignment();
      if (running < tasksMax) return await inPool<TickPageRead[]>('pages', task);
      spill ??= openSpillFile(join(task.scratch, 'ticks-0'));
      return readPages(task, spill);
    },
    parts: {
      // In addition: one task on this thread, and one finished task that waits to be staged in order.
      concurrency: tasksMax + 2,
      async merge(task, standings) {
        if (running < tasksMax)
          return await inPool<MergeResult>('part', { task, standings: standings.readAll() }, listTransferables(task));
        return mergePartition(task, standings.lookup);
      },
    },
    async close() {
      await pool.close();
      spill?.close();
    },
  };
}

/** Buffers that are transferred to the thread instead of copied. */
function listTransferables({ old, chunks }: MergeTask): ArrayBuffer[] {
  const columns = chunks.flatMap((chunk) => ('t' in chunk ? [chunk.t, chunk.p] : []));
  return listWholeBuffers(old === null ? columns : [old, ...columns]);
}
