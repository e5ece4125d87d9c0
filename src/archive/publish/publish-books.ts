import { DamageError } from '../../core/errors.ts';
import { mergeBooks, noBooks } from '../../core/merge-books.ts';
import { dayFloor } from '../../core/window.ts';
import type { Bin } from '../../state/journal.ts';
import { type BookAnswer, bookBins, readBookAnswers, readBookBin } from '../../state/journal-books.ts';
import { type Archive, readPublished } from '../archive.ts';
import { encodedBooks } from '../generation/encoded-parts.ts';
import { type Stage, stageFile } from '../generation/stage.ts';
import { dayPath } from '../layout.ts';
import { fileAt } from '../manifest.ts';
import { decodeBooks } from '../parquet/books-file.ts';

/** What a publish takes in of order books. */
export interface BooksOutcome {
  readonly bins: readonly Bin[];
  /** Answers whose snapshots are all taken in, by the UTC day of the answer: their coverage is to be published. */
  readonly answers: ReadonlyMap<number, readonly BookAnswer[]>;
  /** Why parts were refused: what is published there is damaged. Their journal is kept. */
  readonly refused: readonly string[];
}

/** Merges the journal's order books with what is published and stages what changed. Holds one part in memory. */
export async function stageBooks(
  archive: Archive,
  stage: Stage,
  end: number,
  signal: AbortSignal | undefined,
): Promise<BooksOutcome> {
  const { db } = archive.state;
  const bins: Bin[] = [];
  const refused: string[] = [];
  for (const bin of bookBins(db, end)) {
    signal?.throwIfAborted();
    try {
      stageBin(archive, stage, bin, end);
      bins.push(bin);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
    // Signals and other work get their turn between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const answers = Map.groupBy(readBookAnswers(db, bins, end), (answer) => dayFloor(answer.at));
  return { bins, answers, refused };
}

function stageBin(archive: Archive, stage: Stage, bin: Bin, end: number): void {
  const path = dayPath('orderbooks', bin.day, bin.part);
  const file = fileAt(stage.base, 'orderbooks', path);
  const old = file === undefined ? noBooks : decodeBooks(readPublished(archive, file));
  const { columns, changed } = mergeBooks(old, readBookBin(archive.state.db, bin, end));
  if (!changed) return;
  stageFile(archive, stage, encodedBooks(path, bin.day, columns, archive.groupRows));
}
