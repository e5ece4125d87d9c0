import { extname } from 'node:path';
import { Tinypool } from 'tinypool';
import type { PartDone } from '../archive/publish/part-done.ts';
import type { PartWorkers } from '../archive/publish/part-workers.ts';
import type { PageRead, PagesTask } from './import-pages.ts';

/** Threads that read saved pages and work on parts. */
export interface Threads {
  readonly count: number;
  readonly parts: PartWorkers;
  pages(task: PagesTask): Promise<PageRead[]>;
  /** Ends the threads, whatever they are at. */
  close(): Promise<void>;
}

/** Starts threads; they are there when the first task is given to them. */
export function openThreads(count: number): Threads {
  const pool = new Tinypool({
    // Not a literal: the build renames the endings of imports only.
    filename: new URL(`./thread${extname(import.meta.url)}`, import.meta.url).href,
    ...{ minThreads: count, maxThreads: count, execArgv: ['--disable-warning=ExperimentalWarning'] },
    // What they allocate is mostly large and short-lived.
    resourceLimits: { maxYoungGenerationSizeMb: 8 },
  });
  return {
    count,
    pages: (task) => pool.run(task, { name: 'pages' }) as Promise<PageRead[]>,
    parts: {
      // One more than they are, so that none waits for the next.
      width: count + 1,
      work(task, standings) {
        const buffers = [task.old, ...task.chunks.flatMap((chunk) => ('t' in chunk ? [chunk.t, chunk.p] : []))];
        const transferList = [...new Set(buffers.filter(isWhole).map(({ buffer }) => buffer as ArrayBuffer))];
        const values = { task, standings: standings.values() };
        return pool.run(values, { name: 'part', transferList }) as Promise<PartDone>;
      },
    },
    close: () => pool.destroy(),
  };
}

/** Whether an array is all that its buffer holds: else others may need that. */
const isWhole = (array: Uint8Array | Float64Array | null): array is Uint8Array | Float64Array =>
  array !== null && array.byteLength === array.buffer.byteLength;
