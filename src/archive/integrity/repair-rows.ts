import { isInRange } from '../../base/symbol-range.ts';
import { dayMs, subtract, type Window } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { type PublishedCoverage, subtractFromCoverage } from '../format/coverage.ts';
import type { DayPart } from '../format/day-parts.ts';
import { type BookColumns, emptyBooks } from '../format/order-book.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import { countTicksInWindow, emptyPart, indexTickTimes, type TimedColumns } from '../format/tick-columns.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { decodeSeries } from '../parquet/series-file.ts';
import { type EncodedFile, encodeBookFile, openSeriesPartitionWriter } from '../publish/encode-partition.ts';
import { type Stage, stageFile, stageRemoval } from '../publish/staging.ts';
import {
  computeKeyRange,
  computeRangeWindow,
  type DamagedFile,
  type LostRange,
  type RepairLosses,
} from './salvage-row-groups.ts';

/**
 * Stages the intact order books or series of a part, and withdraws the coverage of the lost rows: no request restores
 * them, an import can bring those of series again, and no window must look quiet.
 * @param coverage coverage of the day by symbol; changed in place
 */
export function repairRows(
  archive: Archive,
  stage: Stage,
  part: DayPart,
  dataset: 'orderbooks' | SeriesDataset,
  { file: { path, rows }, salvage }: DamagedFile,
  coverage: Map<string, readonly PublishedCoverage[]>,
  losses: RepairLosses,
): void {
  const { day } = part;
  const { readableFile, intactGroups, lostRanges } = salvage();
  let intact: TimedColumns = emptyPart;
  let encoded: EncodedFile | undefined;
  if (dataset === 'orderbooks') {
    const books =
      readableFile === null ? emptyBooks : dropCutSnapshots(decodeBooks(readableFile, intactGroups), lostRanges);
    if (books.t.length > 0) encoded = encodeBookFile(path, day, books, archive.groupRows);
    intact = books;
  } else if (readableFile !== null) {
    const series = decodeSeries(dataset, readableFile, intactGroups);
    const writer = openSeriesPartitionWriter(dataset, part, archive.groupRows);
    writer.add(series);
    encoded = writer.finish();
    intact = series;
  }
  if (encoded === undefined) stageRemoval(stage, path);
  else stageFile(archive, stage, encoded);
  const lost = rows - intact.t.length;
  losses.rowsLost.set(path, lost);
  losses.unrecoverable.push({ dataset, path, rows: lost, ...computeKeyRange(lostRanges) });
  const getTimes = indexTickTimes(intact);
  const subtractLost = dataset === 'orderbooks' ? subtractLostBooks : subtractLostRows;
  for (const [symbol, covered] of coverage) {
    if (!isInRange(part, symbol)) continue;
    const spans = lostRanges.flatMap((range) => computeRangeWindow(range, symbol, day) ?? []);
    const remaining = subtractLost(covered, spans, getTimes(symbol), day + dayMs);
    if (remaining.length > 0) coverage.set(symbol, remaining);
    else coverage.delete(symbol);
  }
}

type Covered = readonly PublishedCoverage[];

/** Responses with a lost snapshot may have been generated from its time up to the next intact one. */
const subtractLostBooks = (covered: Covered, spans: readonly Window[], t: Float64Array, dayEnd: number): Covered => {
  const lost = spans.map(({ from, to }) => ({ from, to: t.find((moment) => moment >= to) ?? dayEnd }));
  return covered.flatMap((one) =>
    subtract([one], lost).map((piece) => ({ ...one, ...piece, ticks: Math.min(one.ticks, piece.to - piece.from) })),
  );
};

/** A window that has all of its rows keeps its coverage. */
const subtractLostRows = (covered: Covered, spans: readonly Window[], t: Float64Array): Covered =>
  covered.flatMap((window) =>
    window.ticks <= countTicksInWindow(t, window) ? [window] : subtractFromCoverage([window], spans, t),
  );

/**
 * Drops snapshots that share their time and symbol with the first or last row of a lost range, because a partial order
 * book is wrong.
 */
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
