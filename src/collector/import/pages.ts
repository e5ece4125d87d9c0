import { sortTicksByTime } from '../../archive/journal/journal.ts';
import { type ImportedSymbolTicks, splitTicksByDay } from '../../archive/publish/import-buffer.ts';
import type { SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import { type ImportFile, readWholeFileSync } from './files.ts';
import { readSavedPage } from './import-page.ts';
import type { ImportDataset } from './import-rows.ts';

/** A batch of saved pages for a worker thread, which writes their ticks to its scratch file. */
export interface ReadPagesTask {
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

/** Reads pages and writes their ticks to the scratch file. */
export const readPages = (task: ReadPagesTask, spillFile: SpillFile): TickPageRead[] =>
  task.files.map((file) => {
    const page = tryReadPage(file, task);
    if (page?.kind !== 'ticks') return null;
    const { symbol, observedAt, judged: validated, covered } = page;
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
