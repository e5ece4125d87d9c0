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

/** Threads that read saved pages and work on parts (see worker.ts), the one that asks among them. */
export interface JobWorkers {
  readonly count: number;
  readonly parts: MergeWorkers;
  readPages(task: ReadPagesTask): Promise<TickPageRead[]>;
  /** Ends the threads, whatever they are at. */
  close(): Promise<void>;
}

/** Tasks that a thread is given: one to work on, and one so that it need not wait for the next. */
const tasksPerThread = 2;

/**
 * Starts threads. The one that asks does what the others have no room for: it is there while they are still starting,
 * and has loaded what it takes.
 * @param count at least 2
 */
export async function openJobWorkers(count: number): Promise<JobWorkers> {
  const pool = await openWorkerPool('./worker', import.meta.url, count - 1);
  const most = (count - 1) * tasksPerThread;
  let under = 0;
  let spill: SpillFile | undefined;
  const inPool = async <T>(task: string, value: unknown, transfer: readonly ArrayBuffer[] = []): Promise<T> => {
    under++;
    try {
      return (await pool.run(task, value, transfer)) as T;
    } finally {
      under--;
    }
  };
  let turns = Promise.resolve();
  /** One task after the other finds its place, once it was heard what the others have done. */
  const turn = (): Promise<void> => {
    turns = turns.then(() => new Promise((resolve) => setImmediate(resolve)));
    return turns;
  };
  return {
    count,
    async readPages(task) {
      await turn();
      if (under < most) return await inPool<TickPageRead[]>('pages', task);
      spill ??= openSpillFile(join(task.scratch, 'ticks-0'));
      return readPages(task, spill);
    },
    parts: {
      // One that this thread is at, and one that is done before its turn to be staged: it would wait for the others else.
      concurrency: most + 2,
      async merge(task, standings) {
        if (under < most)
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

/** What is moved to a thread, not copied. */
function listTransferables({ old, chunks }: MergeTask): ArrayBuffer[] {
  const columns = chunks.flatMap((chunk) => ('t' in chunk ? [chunk.t, chunk.p] : []));
  return listWholeBuffers(old === null ? columns : [old, ...columns]);
}
