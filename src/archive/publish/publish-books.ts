import { DamageError } from '../../core/errors.ts';
import { type BookObservation, emptyBooks, mergeBooks } from '../../core/merge-books.ts';
import { floorToDay } from '../../core/window.ts';
import { createBookObservedAtLookup } from '../../state/book-observed.ts';
import type { JournalBin } from '../../state/journal.ts';
import { type BookResponse, readBookBin, readBookResponses } from '../../state/journal-books.ts';
import { assertRowCount, type JournalIndex } from '../../state/journal-check.ts';
import { encodeBookFile } from '../generation/encode-partition.ts';
import { type Stage, stageFile } from '../generation/staging.ts';
import { toDayPath } from '../layout.ts';
import { findManifestFile } from '../manifest.ts';
import { type Archive, readPublishedFile } from '../open-archive.ts';
import { decodeBooks } from '../parquet/books-file.ts';

/** What a publish takes in of order books. */
export interface StagedBooks {
  readonly bins: readonly JournalBin[];
  /** When the snapshots that are in the parts now were observed. */
  readonly observed: readonly BookObservation[];
  /** Answers whose snapshots are all taken in, by the UTC day of the answer: their coverage is to be published. */
  readonly answers: ReadonlyMap<number, readonly BookResponse[]>;
  /** Why parts were refused: what is published there is damaged. Their journal is kept. */
  readonly refused: readonly string[];
}

/** Merges the journal's order books with what is published and stages what changed. Holds one part in memory. */
export async function stageBooks(
  archive: Archive,
  stage: Stage,
  index: JournalIndex,
  signal: AbortSignal | undefined,
): Promise<StagedBooks> {
  const { db } = archive.state;
  const bins: JournalBin[] = [];
  const observed: BookObservation[] = [];
  const refused: string[] = [];
  for (const { day, part } of index.bins.get('journal_books')!) {
    const bin = { day, part };
    signal?.throwIfAborted();
    try {
      for (const one of stageBookBin(archive, stage, bin, index)) observed.push(one);
      bins.push(bin);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
    // Signals and other work get their turn between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const answers = Map.groupBy(readBookResponses(db, bins, index.end), (answer) => floorToDay(answer.at));
  return { bins, observed, answers, refused };
}

function stageBookBin(
  archive: Archive,
  stage: Stage,
  bin: JournalBin,
  index: JournalIndex,
): readonly BookObservation[] {
  const path = toDayPath('orderbooks', bin.day, bin.part);
  const file = findManifestFile(stage.base, 'orderbooks', path);
  const old = file === undefined ? emptyBooks : decodeBooks(readPublishedFile(archive, file));
  const fresh = readBookBin(archive.state.db, bin, index.end);
  assertRowCount(index, 'journal_books', bin, fresh.length);
  const { columns, isChanged, observed } = mergeBooks(old, fresh, createBookObservedAtLookup(archive.state.db));
  if (isChanged) stageFile(archive, stage, encodeBookFile(path, bin.day, columns, archive.groupRows));
  return observed;
}
