import { dayMs, subtract, type Window } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import type { PublishedCoverage } from '../format/coverage.ts';
import { findDayPart } from '../format/day-parts.ts';
import { parsePartNumber } from '../format/layout.ts';
import { type BookColumns, emptyBooks } from '../format/order-book.ts';
import { indexTickTimes } from '../format/tick-columns.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { encodeBookFile } from '../publish/encode-partition.ts';
import { type Stage, stageFile, stageRemoval } from '../publish/staging.ts';
import {
  computeKeyRange,
  computeRangeWindow,
  type DamagedFile,
  type LostRange,
  type RepairLosses,
} from './salvage-row-groups.ts';

/**
 * Stages the intact order books of a part, and withdraws the coverage of the lost ones, as no upstream serves past
 * books. Drops snapshots with missing levels, because a partial order book is wrong.
 * @param coverage coverage of the day by symbol; changed in place
 */
export function repairOrderBooks(
  archive: Archive,
  stage: Stage,
  day: number,
  { file, salvage }: DamagedFile,
  coverage: Map<string, readonly PublishedCoverage[]>,
  losses: RepairLosses,
): void {
  const { readableFile, intactGroups, lostRanges } = salvage();
  const intact =
    readableFile === null ? emptyBooks : dropCutSnapshots(decodeBooks(readableFile, intactGroups), lostRanges);
  if (intact.t.length > 0) stageFile(archive, stage, encodeBookFile(file.path, day, intact, archive.groupRows));
  else stageRemoval(stage, file.path);
  const rows = file.rows - intact.t.length;
  losses.rowsLost.set(file.path, rows);
  losses.unrecoverable.push({ dataset: 'orderbooks', path: file.path, rows, ...computeKeyRange(lostRanges) });
  const getTimes = indexTickTimes({ ...intact, p: intact.price });
  for (const [symbol, covered] of coverage) {
    if (findDayPart(stage.base, symbol, day) !== parsePartNumber(file.path)) continue;
    const lostWindows = lostRanges.flatMap((range) => listLostBookWindows(range, symbol, day, getTimes(symbol)));
    const remaining = covered.flatMap((one) =>
      subtract([one], lostWindows).map((piece) => ({
        ...one,
        ...piece,
        ticks: Math.min(one.ticks, piece.to - piece.from),
      })),
    );
    if (remaining.length > 0) coverage.set(symbol, remaining);
    else coverage.delete(symbol);
  }
}

/**
 * The window in which responses with a lost snapshot may have been generated: from its time up to the next intact
 * snapshot.
 */
function listLostBookWindows(range: LostRange, symbol: string, day: number, t: Float64Array): Window[] {
  const span = computeRangeWindow(range, symbol, day);
  if (span === undefined) return [];
  const next = t.find((moment) => moment >= span.to) ?? day + dayMs;
  return [{ from: span.from, to: next }];
}

/** Drops snapshots that share their time and symbol with the first or last row of a lost range. */
function dropCutSnapshots(books: BookColumns, lost: readonly LostRange[]): BookColumns {
  const cutSnapshots = new Set(
    lost.flatMap(({ keys }) => (keys === null ? [] : [keys.first, keys.last].map(([symbol, t]) => `${t} ${symbol}`))),
  );
  const rows: number[] = [];
  const symbols: string[] = [];
  const starts: number[] = [];
  books.symbols.forEach((symbol, i) => {
    const before = rows.length;
    for (let row = books.offsets[i]!; row < books.offsets[i + 1]!; row++)
      if (!cutSnapshots.has(`${books.t[row]} ${symbol}`)) rows.push(row);
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
