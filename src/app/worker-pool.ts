import { join } from 'node:path';
import { type PartTask, workPart } from '../archive/publish/merge-partition.ts';
import type { PartDone } from '../archive/publish/partition-result.ts';
import { openSpill, type Spill } from '../archive/publish/spill-file.ts';
import type { PartWorkers } from '../archive/publish/worker-pool.ts';
import { openPool, wholeBuffers } from '../worker-threads.ts';
import { type PageRead, type PagesTask, readPages } from './import/pages.ts';

/** Threads that read saved pages and work on parts (see worker.ts), the one that asks among them. */
export interface Threads {
  readonly count: number;
  readonly parts: PartWorkers;
  pages(task: PagesTask): Promise<PageRead[]>;
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
export async function openThreads(count: number): Promise<Threads> {
  const pool = await openPool('./worker', import.meta.url, count - 1);
  const most = (count - 1) * tasksPerThread;
  let under = 0;
  let spill: Spill | undefined;
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
    async pages(task) {
      await turn();
      if (under < most) return await inPool<PageRead[]>('pages', task);
      spill ??= openSpill(join(task.scratch, 'ticks-0'));
      return readPages(task, spill);
    },
    parts: {
      // One that this thread is at, and one that is done before its turn to be staged: it would wait for the others else.
      width: most + 2,
      async work(task, standings) {
        if (under < most)
          return await inPool<PartDone>('part', { task, standings: standings.values() }, buffersOf(task));
        return workPart(task, standings.live);
      },
    },
    async close() {
      await pool.close();
      spill?.close();
    },
  };
}

/** What is moved to a thread, not copied. */
function buffersOf({ old, chunks }: PartTask): ArrayBuffer[] {
  const columns = chunks.flatMap((chunk) => ('t' in chunk ? [chunk.t, chunk.p] : []));
  return wholeBuffers(old === null ? columns : [old, ...columns]);
}
