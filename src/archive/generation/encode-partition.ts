import { type CandleColumns, type CandleInterval, candleIntervals, computeCandles } from '../../core/candles.ts';
import type { PartColumns } from '../../core/merge.ts';
import { askSide, type BookColumns } from '../../core/merge-books.ts';
import { assertPartOrder } from '../../core/part-order.ts';
import { dayMs, type Window } from '../../core/window.ts';
import { toDayPath } from '../layout.ts';
import { encodeBooks } from '../parquet/books-file.ts';
import { encodeCandles } from '../parquet/candles-file.ts';
import { createSymbolKeyReader } from '../parquet/row-group-index.ts';
import { candleDatasets } from '../parquet/schema.ts';
import { encodeTicks } from '../parquet/ticks-file.ts';
import { computeFileStatistics, createEncodedFile, type EncodedFile } from './file-entry.ts';

// Parts of a day, from their columns; each has at least one row. `day` is a UTC midnight in epoch ms, `groupRows` the rows
// that a row group holds at most. Pure, so that a thread may do it.

export function encodeTickFile(path: string, day: number, columns: PartColumns, groupRows: number): EncodedFile {
  assertPartOrder(columns, { from: day, to: day + dayMs });
  const bytes = encodeTicks(columns, groupRows);
  const keyAt = createSymbolKeyReader(columns, (row) => [columns.t[row]!]);
  return createEncodedFile('ticks', path, bytes, computeFileStatistics(day, columns), keyAt);
}

export function encodeBookFile(path: string, day: number, columns: BookColumns, groupRows: number): EncodedFile {
  const { t, side, level } = columns;
  const bytes = encodeBooks(columns, groupRows);
  const keyAt = createSymbolKeyReader(columns, (row) => [t[row]!, side[row] === askSide ? 'ask' : 'bid', level[row]!]);
  return createEncodedFile('orderbooks', path, bytes, computeFileStatistics(day, columns), keyAt);
}

/** The candles of one part's ticks, a file for each interval; none where there are no ticks. */
export function encodeCandleFiles(
  bin: { readonly day: number; readonly part: number },
  columns: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervals: readonly CandleInterval[],
  groupRows: number,
): EncodedFile[] {
  if (columns.t.length === 0) return [];
  return intervals.map((interval) =>
    encodeCandleFile(interval, bin, computeCandles(columns, coverage, candleIntervals[interval]), groupRows),
  );
}

export function encodeCandleFile(
  interval: CandleInterval,
  { day, part }: { readonly day: number; readonly part: number },
  columns: CandleColumns,
  groupRows: number,
): EncodedFile {
  const dataset = candleDatasets[interval];
  const bytes = encodeCandles(columns, groupRows);
  const keyAt = createSymbolKeyReader(columns, (row) => [columns.t[row]!]);
  return createEncodedFile(dataset, toDayPath(dataset, day, part), bytes, computeFileStatistics(day, columns), keyAt);
}
