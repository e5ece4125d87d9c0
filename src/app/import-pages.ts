import { join } from 'node:path';
import { daysIn, type Read } from '../archive/publish/intake.ts';
import { openSpill, type Spill } from '../archive/publish/spill.ts';
import type { Rejected } from '../core/tick.ts';
import type { ImportDataset } from '../ingest/import-columns.ts';
import { readSavedPage } from '../ingest/import-page.ts';
import { inOrder } from '../state/journal.ts';
import { wholeNow } from './import-bytes.ts';
import type { ImportFile } from './import-files.ts';

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

const spills = new Map<string, Spill>();

/** @param name tells the scratch file apart from those of other threads */
export const readPages = (task: PagesTask, name: string): PageRead[] =>
  task.files.map((file) => readOne(task, file, join(task.scratch, name)));

function readOne({ dataset, futureMs, bytesMax }: PagesTask, file: PagesTask['files'][number], path: string): PageRead {
  const page = pageIn(file, dataset, futureMs, bytesMax);
  if (page?.kind !== 'ticks') return null;
  const { symbol, observedAt, judged, covered } = page;
  const sorted = inOrder(judged.ticks);
  let spill = spills.get(path);
  if (spill === undefined) {
    spill = openSpill(path);
    spills.set(path, spill);
  }
  const read = { symbol, observedAt, ticks: spill.put(sorted), days: daysIn(sorted), covered };
  return { read, rejected: judged.rejected };
}

/** Undefined where it cannot be read: why is told by whoever reads it again. */
function pageIn(
  file: PagesTask['files'][number],
  dataset: ImportDataset | null,
  futureMs: number,
  bytesMax: number,
): ReturnType<typeof readSavedPage> | undefined {
  try {
    return readSavedPage(wholeNow(file, bytesMax), dataset, { writtenAt: file.writtenAt, futureMs });
  } catch {
    return undefined;
  }
}
