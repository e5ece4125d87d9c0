import { formatDay } from '../../base/time.ts';
import { dayMs, type Window } from '../../base/window.ts';
import { sha256 } from '../disk/file-system.ts';
import type { CandleSeries } from '../format/candle-series.ts';
import {
  type CandleColumns,
  candleIntervals,
  computeAllCandles,
  computeCandles,
  concatCandles,
} from '../format/candles.ts';
import { type CandleInterval, candleDatasets, type DatasetName } from '../format/datasets.ts';
import { toDayPath } from '../format/layout.ts';
import { askSide, type BookColumns } from '../format/order-book.ts';
import type { SeriesColumns } from '../format/series.ts';
import { hasRowIds, type SeriesDataset } from '../format/series-datasets.ts';
import { assertPartOrder, type PartColumns, type TimedColumns } from '../format/tick-columns.ts';
import { encodeBooks } from '../parquet/books-file.ts';
import type { FileRecord, SortKey } from '../parquet/row-group-index.ts';
import { createFileRecord, createSymbolKeyReader, type KeyReader } from '../parquet/row-group-index.ts';
import { countRepeats, decodeSeries, openSeriesFileWriter } from '../parquet/series-file.ts';
import { encodeCandles, encodeTicks, openTickFileWriter } from '../parquet/ticks-file.ts';
import type { KeptRowGroups } from '../parquet/writer.ts';

// Encodes the part files of a day from columns with at least one row. `day` is a UTC midnight in epoch ms, `groupRows`
// the maximum rows per row group. Pure, so that worker threads can run it.

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

/** The files of the series that candles are computed from, of the same day and part. */
export type CandleSeriesFiles = ReadonlyMap<SeriesDataset, Uint8Array>;

/** @throws Error if a file cannot be decoded */
export const decodeCandleSeries = (files: CandleSeriesFiles): CandleSeries =>
  Object.fromEntries([...files].map(([dataset, bytes]) => [dataset, decodeSeries(dataset, bytes)]));

/** Encodes the candles of a part's ticks, one file per interval; none if there are no ticks. */
export function encodeCandleFiles(
  bin: { readonly day: number; readonly part: number },
  columns: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
  series: CandleSeries,
  intervals: readonly CandleInterval[],
  groupRows: number,
): EncodedFile[] {
  if (columns.t.length === 0) return [];
  return intervals.map((interval) =>
    encodeCandleFile(interval, bin, computeCandles(columns, coverage, candleIntervals[interval], series), groupRows),
  );
}

function encodeCandleFile(
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

/**
 * Encodes the files of a part some symbols at a time, so that the part need not fit in memory.
 * @param bin `day` is a UTC midnight in epoch ms
 * @param series the rows of the part that candles are computed from, besides ticks
 * @param kept row groups of the published ticks with the first rows of the new file, which need not be encoded
 */
export function openPartitionWriter(
  bin: { readonly day: number; readonly part: number },
  intervals: readonly CandleInterval[],
  series: CandleSeries,
  groupRows: number,
  kept?: KeptRowGroups,
) {
  const file = openTickFileWriter(groupRows, kept);
  const lengths = intervals.map((interval) => candleIntervals[interval]);
  const candleSlices: CandleColumns[][] = [];
  const rows = createAddedRows(bin.day, groupRows);
  return {
    /**
     * Adds the rows of the next symbols in sort order, and the coverage of these symbols.
     * @param ticks whether the ticks may be written; if false, only their candles are written
     * @throws Error if a row is outside the day or keys do not ascend; nothing is added then
     */
    add(columns: PartColumns, coverage: ReadonlyMap<string, readonly Window[]>, ticks: boolean) {
      if (columns.t.length === 0) return;
      rows.add(columns);
      if (ticks) file.add(columns);
      candleSlices.push(computeAllCandles(columns, coverage, lengths, series));
    },
    /** Returns the ticks file, if `ticks` is set, and the candle files; none if there are no rows. */
    finish(ticks: boolean): EncodedFile[] {
      if (candleSlices.length === 0) return [];
      const path = toDayPath('ticks', bin.day, bin.part);
      return [
        ...(ticks ? [rows.encode('ticks', path, file.end())] : []),
        ...intervals.map((interval, i) =>
          encodeCandleFile(interval, bin, concatCandles(candleSlices.map((slice) => slice[i]!)), groupRows),
        ),
      ];
    },
  };
}

/** The same for a series. @param bin `day` is a UTC midnight in epoch ms */
export function openSeriesPartitionWriter(
  dataset: SeriesDataset,
  bin: { readonly day: number; readonly part: number },
  groupRows: number,
) {
  const file = openSeriesFileWriter(dataset, groupRows);
  const rows = createAddedRows(bin.day, groupRows, hasRowIds(dataset));
  let isEmpty = true;
  return {
    /**
     * Adds the rows of the next symbols in sort order.
     * @throws Error if a row is outside the day or keys do not ascend; nothing is added then
     */
    add(columns: SeriesColumns) {
      if (columns.t.length === 0) return;
      rows.add(columns);
      file.add(columns);
      isEmpty = false;
    },
    /** Returns the file; undefined if there are no rows. */
    finish: (): EncodedFile | undefined =>
      isEmpty ? undefined : rows.encode(dataset, toDayPath(dataset, bin.day, bin.part), file.end()),
  };
}

/** The statistics of the rows that were added to a file, and the keys of those at which a row group may start or end. */
function createAddedRows(day: number, groupRows: number, hasIds = false) {
  const keys = new Map<number, SortKey>();
  let statistics: FileStatistics | undefined;
  let last: string | undefined;
  return {
    /** @throws Error if a row is outside the day or keys do not ascend */
    add(columns: TimedColumns): void {
      const { symbols, offsets, t } = columns;
      assertPartOrder(columns, { from: day, to: day + dayMs }, last, hasIds);
      last = symbols.at(-1);
      const before = statistics?.rows ?? 0;
      const setKey = (symbol: string, row: number): void => {
        keys.set(before + row, [symbol, t[row]!, ...(hasIds ? [countRepeats(columns, row)] : [])]);
      };
      symbols.forEach((symbol, s) => {
        const [from, to] = [offsets[s]! + before, offsets[s + 1]! + before];
        for (let row = Math.ceil(from / groupRows) * groupRows; row <= to; row += groupRows)
          for (const edge of [row - 1, row]) if (edge >= from && edge < to) setKey(symbol, edge - before);
      });
      setKey(last!, t.length - 1);
      statistics = joinFileStatistics(statistics, computeFileStatistics(day, columns));
    },
    /** At least one row was added. */
    encode: (dataset: DatasetName, path: string, bytes: Uint8Array): EncodedFile =>
      createEncodedFile(dataset, path, bytes, statistics!, (row) => keys.get(row)!),
  };
}

function joinFileStatistics(a: FileStatistics | undefined, b: FileStatistics): FileStatistics {
  if (a === undefined) return b;
  return {
    date: b.date,
    rows: a.rows + b.rows,
    t_min: Math.min(a.t_min!, b.t_min!),
    t_max: Math.max(a.t_max!, b.t_max!),
    symbols: a.symbols + b.symbols,
    symbol_from: a.symbol_from,
    symbol_to: b.symbol_to,
  };
}

/** A file to publish, with its statistics for the manifest and the record of its row groups. */
export interface EncodedFile {
  readonly dataset: DatasetName;
  readonly bytes: Uint8Array;
  readonly statistics: FileStatistics;
  /** Row groups, path and sha256 of the bytes. */
  readonly record: FileRecord;
}

export interface FileStatistics {
  readonly date: string | null;
  readonly rows: number;
  readonly t_min: number | null;
  readonly t_max: number | null;
  readonly symbols: number;
  readonly symbol_from: string | null;
  readonly symbol_to: string | null;
}

/** Computes the statistics of a part with at least one row; `day` is its UTC midnight in epoch ms. */
export function computeFileStatistics(day: number, { symbols, offsets, t }: TimedColumns): FileStatistics {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  // Times ascend within a symbol.
  for (let s = 0; s < symbols.length; s++) {
    if (offsets[s] === offsets[s + 1]) continue;
    min = Math.min(min, t[offsets[s]!]!);
    max = Math.max(max, t[offsets[s + 1]! - 1]!);
  }
  return {
    date: formatDay(day),
    rows: t.length,
    t_min: min,
    t_max: max,
    symbols: symbols.length,
    symbol_from: symbols[0]!,
    symbol_to: symbols.at(-1)!,
  };
}

/** @param keyAt returns the sort key of a row */
export const createEncodedFile = (
  dataset: DatasetName,
  path: string,
  bytes: Uint8Array,
  statistics: FileStatistics,
  keyAt: KeyReader,
): EncodedFile => ({
  dataset,
  bytes,
  statistics,
  record: createFileRecord(path, bytes, sha256(bytes), keyAt),
});
