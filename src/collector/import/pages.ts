import { sortTicksByTime } from '../../archive/journal/journal.ts';
import { type ImportedSymbolTicks, splitTicksByDay } from '../../archive/publish/import-buffer.ts';
import type { SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import { type ImportFile, readWholeFileSync } from './files.ts';
import { readSavedPage } from './import-page.ts';
import type { ImportDataset } from './import-rows.ts';

/** Saved pages that a thread reads one after the other, putting their ticks aside. */
export interface ReadPagesTask {
  readonly files: readonly Pick<ImportFile, 'path' | 'compression' | 'writtenAt'>[];
  readonly dataset: ImportDataset | null;
  /** The latest time that is believed, epoch ms. */
  readonly futureMs: number;
  /** Longer files are not read. */
  readonly bytesMax: number;
  /** A folder for what is put aside. */
  readonly scratch: string;
}

/** A page of ticks that was read; null for whatever else a file may be, which is not for a thread to judge. */
export type TickPageRead = { readonly read: ImportedSymbolTicks; readonly rejected: readonly RejectedInput[] } | null;

/** Reads pages, and puts their ticks aside. */
export const readPages = (task: ReadPagesTask, spill: SpillFile): TickPageRead[] =>
  task.files.map((file) => {
    const page = tryReadPage(file, task);
    if (page?.kind !== 'ticks') return null;
    const { symbol, observedAt, judged, covered } = page;
    const sorted = sortTicksByTime(judged.ticks);
    const read = { symbol, observedAt, ticks: spill.append(sorted), days: splitTicksByDay(sorted), covered };
    return { read, rejected: judged.rejected };
  });

/** Undefined where it cannot be read: why is told by whoever reads it again. */
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
