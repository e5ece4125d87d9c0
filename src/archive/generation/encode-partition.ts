import { type CandleColumns, type CandleInterval, candleIntervals, candlesOf } from '../../core/candles.ts';
import type { PartColumns } from '../../core/merge.ts';
import { askSide, type BookColumns } from '../../core/merge-books.ts';
import { requirePartOrder } from '../../core/part-order.ts';
import { dayMs, type Window } from '../../core/window.ts';
import { dayPath } from '../layout.ts';
import { encodeBooks } from '../parquet/books-file.ts';
import { encodeCandles } from '../parquet/candles-file.ts';
import { keysBySymbol } from '../parquet/row-group-index.ts';
import { candleDatasets } from '../parquet/schema.ts';
import { encodeTicks } from '../parquet/ticks-file.ts';
import { type EncodedFile, encodedFile, factsOfPart } from './file-entry.ts';

// Parts of a day, from their columns; each has at least one row. `day` is a UTC midnight in epoch ms, `groupRows` the rows
// that a row group holds at most. Pure, so that a thread may do it.

export function encodedTicks(path: string, day: number, columns: PartColumns, groupRows: number): EncodedFile {
  requirePartOrder(columns, { from: day, to: day + dayMs });
  const bytes = encodeTicks(columns, groupRows);
  const keyAt = keysBySymbol(columns, (row) => [columns.t[row]!]);
  return encodedFile('ticks', path, bytes, factsOfPart(day, columns), keyAt);
}

export function encodedBooks(path: string, day: number, columns: BookColumns, groupRows: number): EncodedFile {
  const { t, side, level } = columns;
  const bytes = encodeBooks(columns, groupRows);
  const keyAt = keysBySymbol(columns, (row) => [t[row]!, side[row] === askSide ? 'ask' : 'bid', level[row]!]);
  return encodedFile('orderbooks', path, bytes, factsOfPart(day, columns), keyAt);
}

/** The candles of one part's ticks, a file for each interval; none where there are no ticks. */
export function encodedCandles(
  bin: { readonly day: number; readonly part: number },
  columns: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  intervals: readonly CandleInterval[],
  groupRows: number,
): EncodedFile[] {
  if (columns.t.length === 0) return [];
  return intervals.map((interval) =>
    encodedCandlePart(interval, bin, candlesOf(columns, coverage, candleIntervals[interval]), groupRows),
  );
}

export function encodedCandlePart(
  interval: CandleInterval,
  { day, part }: { readonly day: number; readonly part: number },
  columns: CandleColumns,
  groupRows: number,
): EncodedFile {
  const dataset = candleDatasets[interval];
  const bytes = encodeCandles(columns, groupRows);
  const keyAt = keysBySymbol(columns, (row) => [columns.t[row]!]);
  return encodedFile(dataset, dayPath(dataset, day, part), bytes, factsOfPart(day, columns), keyAt);
}
