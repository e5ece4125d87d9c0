import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { sortTicksByTime } from '../../archive/journal/journal.ts';
import { type ImportedSymbolTicks, splitTicksByDay } from '../../archive/publish/import-buffer.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import { type MergeThreads, openMergeThreads } from '../steps/merge-workers.ts';
import { type ImportFile, readWholeFileSync } from './files.ts';
import { readSavedPage } from './import-page.ts';
import type { ImportDataset } from './import-rows.ts';

// The threads of an import use the exports of this module.
export { mergePart } from '../steps/merge-workers.ts';

/** A batch of saved pages for one thread, which writes their ticks to its scratch file. */
interface ReadPagesTask {
  readonly files: readonly Pick<ImportFile, 'path' | 'compression' | 'writtenAt'>[];
  readonly dataset: ImportDataset | null;
  /** Latest time accepted, epoch ms. */
  readonly futureMs: number;
  /** Maximum size of a file. */
  readonly bytesMax: number;
  /** Folder for scratch files. */
  readonly scratch: string;
}

/** A tick page that was read. Null for any other file, which the main thread handles. */
export type TickPageRead = { readonly read: ImportedSymbolTicks; readonly rejected: readonly RejectedInput[] } | null;

/** Threads that read saved pages and merge part files. */
export interface ImportThreads extends MergeThreads {
  readPages(task: ReadPagesTask): Promise<TickPageRead[]>;
}

/** Starts threads. @param count at least 2 */
export async function openImportThreads(count: number): Promise<ImportThreads> {
  const threads = await openMergeThreads(count, './page-workers', import.meta.url);
  let spill: SpillFile | undefined;
  let assignments = Promise.resolve();
  return {
    ...threads,
    async readPages(task) {
      // Assign one task after the other, each after the completion messages of the threads have been processed.
      assignments = assignments.then(() => new Promise((resolve) => setImmediate(resolve)));
      await assignments;
      if (threads.hasRoom()) return await threads.run<TickPageRead[]>('readPagesOnThread', task);
      spill ??= openSpillFile(toSpillPath(task));
      return readPages(task, spill);
    },
    async close() {
      await threads.close();
      spill?.close();
    },
  };
}

const toSpillPath = ({ scratch }: ReadPagesTask): string => join(scratch, `ticks-${threadId}`);

/** The scratch file of this thread. The threads of an import end with the import, so it needs no close. */
let threadSpill: SpillFile | undefined;

/** Reads pages on a thread. */
export function readPagesOnThread(task: ReadPagesTask): TickPageRead[] {
  threadSpill ??= openSpillFile(toSpillPath(task));
  return readPages(task, threadSpill);
}

/** Reads pages and writes their ticks to the scratch file. */
const readPages = (task: ReadPagesTask, spillFile: SpillFile): TickPageRead[] =>
  task.files.map((file) => {
    const page = tryReadPage(file, task);
    if (page?.kind !== 'ticks') return null;
    const { symbol, observedAt, validated, covered } = page;
    const sorted = sortTicksByTime(validated.ticks);
    const read = { symbol, observedAt, ticks: spillFile.append(sorted), days: splitTicksByDay(sorted), covered };
    return { read, rejected: validated.rejected };
  });

/** Undefined if the page cannot be read. The main thread reads it again and reports the error. */
function tryReadPage(
  file: ReadPagesTask['files'][number],
  { dataset, futureMs, bytesMax }: ReadPagesTask,
): ReturnType<typeof readSavedPage> | undefined {
  try {
    return readSavedPage(readWholeFileSync(file, bytesMax), dataset, { writtenAt: file.writtenAt, futureMs });
  } catch {
    return undefined;
  }
}
