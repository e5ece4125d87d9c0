import type { PartDone } from '../archive/publish/part-done.ts';
import type { PartWorkers } from '../archive/publish/part-workers.ts';
import { openPool } from '../threads.ts';
import type { PageRead, PagesTask } from './import-pages.ts';

/** Threads that read saved pages and work on parts; see thread.ts. */
export interface Threads {
  readonly count: number;
  readonly parts: PartWorkers;
  pages(task: PagesTask): Promise<PageRead[]>;
  /** Ends the threads, whatever they are at. */
  close(): Promise<void>;
}

/** Starts threads; they are there when the first task is given to them. */
export async function openThreads(count: number): Promise<Threads> {
  const pool = await openPool('./thread', import.meta.url, count);
  return {
    count,
    pages: (task) => pool.run('pages', task) as Promise<PageRead[]>,
    parts: {
      // One more than they are, so that none waits for the next.
      width: count + 1,
      work(task, standings) {
        const arrays = [task.old, ...task.chunks.flatMap((chunk) => ('t' in chunk ? [chunk.t, chunk.p] : []))];
        const transfer = new Set(arrays.filter(isWhole).map(({ buffer }) => buffer as ArrayBuffer));
        return pool.run('part', { task, standings: standings.values() }, [...transfer]) as Promise<PartDone>;
      },
    },
    close: () => pool.close(),
  };
}

/** Whether an array is all that its buffer holds: else others may need that. */
const isWhole = (array: Uint8Array | Float64Array | null): array is Uint8Array | Float64Array =>
  array !== null && array.byteLength === array.buffer.byteLength;
