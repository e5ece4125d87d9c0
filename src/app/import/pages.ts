import { daysIn, type Read } from '../../archive/publish/import-buffer.ts';
import type { Spill } from '../../archive/publish/spill-file.ts';
import type { Rejected } from '../../core/tick.ts';
import type { ImportDataset } from '../../ingest/import-columns.ts';
import { readSavedPage } from '../../ingest/import-page.ts';
import { inOrder } from '../../state/journal.ts';
import type { ImportFile } from './files.ts';
import { wholeNow } from './open-input.ts';

/** Saved pages that a thread reads one after the other, putting their ticks aside. */
export interface PagesTask {
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
export type PageRead = { readonly read: Read; readonly rejected: readonly Rejected[] } | null;

/** Reads pages, and puts their ticks aside. */
export const readPages = (task: PagesTask, spill: Spill): PageRead[] =>
  task.files.map((file) => {
    const page = pageIn(file, task);
    if (page?.kind !== 'ticks') return null;
    const { symbol, observedAt, judged, covered } = page;
    const sorted = inOrder(judged.ticks);
    const read = { symbol, observedAt, ticks: spill.put(sorted), days: daysIn(sorted), covered };
    return { read, rejected: judged.rejected };
  });

/** Undefined where it cannot be read: why is told by whoever reads it again. */
function pageIn(
  file: PagesTask['files'][number],
  { dataset, futureMs, bytesMax }: PagesTask,
): ReturnType<typeof readSavedPage> | undefined {
  try {
    return readSavedPage(wholeNow(file, bytesMax), dataset, { writtenAt: file.writtenAt, futureMs });
  } catch {
    return undefined;
  }
}
