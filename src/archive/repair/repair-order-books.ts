import type { BookCoverage } from '../../core/book-coverage.ts';
import { type BookColumns, emptyBooks } from '../../core/merge-books.ts';
import { computePartNumber } from '../../core/partition.ts';
import { indexTickTimes } from '../../core/tick-search.ts';
import { dayMs, subtract, type Window } from '../../core/window.ts';
import { encodeBookFile } from '../generation/encode-partition.ts';
import { type Stage, stageFile, stageRemoval } from '../generation/staging.ts';
import { toDayPath } from '../layout.ts';
import type { Archive } from '../open-archive.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { computeRangeWindow } from './data-loss.ts';
import type { LostRange } from './salvage-row-groups.ts';
import { computeKeyRange, type DamagedFile, type RepairLosses } from './types.ts';

/**
 * Stages what is intact of a part's order books, and takes back the coverage of the rest: no upstream gives a book of the
 * past. A snapshot of which some levels are lost goes whole, since half a book is a wrong one.
 * @param coverage of the day, by symbol
 */
export function repairOrderBooks(
  archive: Archive,
  stage: Stage,
  day: number,
  { file, salvage }: DamagedFile,
  coverage: Map<string, readonly BookCoverage[]>,
  losses: RepairLosses,
): void {
  const { readableFile, intactGroups, lostRanges } = salvage();
  const left =
    readableFile === null ? emptyBooks : dropCutSnapshots(decodeBooks(readableFile, intactGroups), lostRanges);
  if (left.t.length > 0) stageFile(archive, stage, encodeBookFile(file.path, day, left, archive.groupRows));
  else stageRemoval(stage, file.path);
  const rows = file.rows - left.t.length;
  losses.rowsLost.set(file.path, rows);
  losses.unrecoverable.push({ dataset: 'orderbooks', path: file.path, rows, ...computeKeyRange(lostRanges) });
  const timesOf = indexTickTimes({ ...left, p: left.price });
  for (const [symbol, covered] of coverage) {
    if (toDayPath('orderbooks', day, computePartNumber(symbol, archive.state.identity.parts)) !== file.path) continue;
    const holes = lostRanges.flatMap((range) => listLostBookWindows(range, symbol, day, timesOf(symbol)));
    const rest = covered.flatMap((one) =>
      subtract([one], holes).map((piece) => ({ ...one, ...piece, ticks: Math.min(one.ticks, piece.to - piece.from) })),
    );
    if (rest.length > 0) coverage.set(symbol, rest);
    else coverage.delete(symbol);
  }
}

/** When answers came that brought a lost snapshot: from its moment on, before the next one that is there. */
function listLostBookWindows(range: LostRange, symbol: string, day: number, t: Float64Array): Window[] {
  const span = computeRangeWindow(range, symbol, day);
  if (span === undefined) return [];
  const next = t.find((moment) => moment >= span.to) ?? day + dayMs;
  return [{ from: span.from, to: next }];
}

/** Without the snapshots that reach into what is lost: it begins or ends with a level of theirs. */
function dropCutSnapshots(books: BookColumns, lost: readonly LostRange[]): BookColumns {
  const cut = new Set(
    lost.flatMap(({ keys }) => (keys === null ? [] : [keys.first, keys.last].map(([symbol, t]) => `${t} ${symbol}`))),
  );
  const rows: number[] = [];
  const symbols: string[] = [];
  const starts: number[] = [];
  books.symbols.forEach((symbol, i) => {
    const before = rows.length;
    for (let row = books.offsets[i]!; row < books.offsets[i + 1]!; row++)
      if (!cut.has(`${books.t[row]} ${symbol}`)) rows.push(row);
    if (rows.length === before) return;
    symbols.push(symbol);
    starts.push(before);
  });
  const pick = (values: Float64Array): Float64Array => Float64Array.from(rows, (row) => values[row]!);
  return {
    symbols,
    offsets: Float64Array.from([...starts, rows.length]),
    t: pick(books.t),
    price: pick(books.price),
    quantity: pick(books.quantity),
    side: Uint8Array.from(rows, (row) => books.side[row]!),
    level: Int32Array.from(rows, (row) => books.level[row]!),
  };
}
