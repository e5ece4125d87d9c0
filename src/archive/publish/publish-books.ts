import { DamageError } from '../../core/errors.ts';
import { mergeBooks, noBooks, type ObservedBook } from '../../core/merge-books.ts';
import { dayFloor } from '../../core/window.ts';
import { bookObserved } from '../../state/book-observed.ts';
import type { Bin } from '../../state/journal.ts';
import { type BookAnswer, readBookAnswers, readBookBin } from '../../state/journal-books.ts';
import { type JournalIndex, requireRows } from '../../state/journal-check.ts';
import { encodedBooks } from '../generation/encode-partition.ts';
import { type Stage, stageFile } from '../generation/staging.ts';
import { dayPath } from '../layout.ts';
import { fileAt } from '../manifest.ts';
import { type Archive, readPublished } from '../open-archive.ts';
import { decodeBooks } from '../parquet/books-file.ts';

/** What a publish takes in of order books. */
export interface BooksOutcome {
  readonly bins: readonly Bin[];
  /** When the snapshots that are in the parts now were observed. */
  readonly observed: readonly ObservedBook[];
  /** Answers whose snapshots are all taken in, by the UTC day of the answer: their coverage is to be published. */
  readonly answers: ReadonlyMap<number, readonly BookAnswer[]>;
  /** Why parts were refused: what is published there is damaged. Their journal is kept. */
  readonly refused: readonly string[];
}

/** Merges the journal's order books with what is published and stages what changed. Holds one part in memory. */
export async function stageBooks(
  archive: Archive,
  stage: Stage,
  index: JournalIndex,
  signal: AbortSignal | undefined,
): Promise<BooksOutcome> {
  const { db } = archive.state;
  const bins: Bin[] = [];
  const observed: ObservedBook[] = [];
  const refused: string[] = [];
  for (const { day, part } of index.bins.get('journal_books')!) {
    const bin = { day, part };
    signal?.throwIfAborted();
    try {
      for (const one of stageBin(archive, stage, bin, index)) observed.push(one);
      bins.push(bin);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
    // Signals and other work get their turn between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const answers = Map.groupBy(readBookAnswers(db, bins, index.end), (answer) => dayFloor(answer.at));
  return { bins, observed, answers, refused };
}

function stageBin(archive: Archive, stage: Stage, bin: Bin, index: JournalIndex): readonly ObservedBook[] {
  const path = dayPath('orderbooks', bin.day, bin.part);
  const file = fileAt(stage.base, 'orderbooks', path);
  const old = file === undefined ? noBooks : decodeBooks(readPublished(archive, file));
  const fresh = readBookBin(archive.state.db, bin, index.end);
  requireRows(index, 'journal_books', bin, fresh.length);
  const { columns, changed, observed } = mergeBooks(old, fresh, bookObserved(archive.state.db));
  if (changed) stageFile(archive, stage, encodedBooks(path, bin.day, columns, archive.groupRows));
  return observed;
}
