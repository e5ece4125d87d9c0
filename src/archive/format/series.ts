import { seek } from '../../base/binary-search.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import type { Precedence } from './precedence.ts';
import { listTextColumns, listValueColumns, type SeriesDataset } from './series-datasets.ts';
import { compareTexts, createNullTexts, pickTexts, sliceTexts, type TextColumn } from './text-columns.ts';
import type { SymbolOffsets } from './tick-columns.ts';

/*
 * Series: rows of a symbol, a time, numbers and texts: one row for each symbol and time, such as quotes, or for each symbol
 * and identifier, such as trades. A missing number is NaN in memory and null in files.
 */

/** Rows of one symbol as columns of equal length. `t` is in integer epoch milliseconds. */
export interface SeriesRows {
  readonly t: Float64Array;
  /** In the order of `listValueColumns`. */
  readonly values: readonly Float64Array[];
  /** In the order of `listTextColumns`. */
  readonly texts: readonly TextColumn[];
  /** In the order of `timeNames`: epoch microseconds, NaN where unknown; undefined if all are. They are not compared. */
  readonly times?: readonly Float64Array[] | undefined;
}

/** Rows of one symbol from one response or file, in any order, possibly with repeated times. */
export interface SeriesChunk extends SeriesRows, Precedence {
  readonly symbol: string;
  /** The run that counts these rows. */
  readonly runId: string;
}

/** Rows of many symbols, each sorted by t and, where times repeat, by `compareRowIds`. Symbols are in UTF-8 order. */
export interface SeriesColumns extends SeriesRows, SymbolOffsets {}

/** A row that was dropped because another one with the same key has precedence. */
export interface SeriesConflict {
  readonly symbol: string;
  readonly t: number;
  readonly seenAt: number;
  /** Its numbers. */
  readonly dropped: readonly number[];
  readonly droppedTexts: readonly (string | null)[];
}

/** Numbers or times that are all missing. */
export const createUnknown = (rows: number): Float64Array => new Float64Array(rows).fill(Number.NaN);

/** A series without rows. */
export const createEmptySeries = (dataset: SeriesDataset): SeriesColumns => ({
  symbols: [],
  offsets: new Float64Array(1),
  t: new Float64Array(0),
  values: listValueColumns(dataset).map(() => new Float64Array(0)),
  texts: listTextColumns(dataset).map(() => createNullTexts(0)),
});

/**
 * Orders the identifiers of rows with equal times: shorter ones first, then by their UTF-8 bytes, so that ascending numbers
 * stay in their order.
 */
export const compareRowIds = (ids: TextColumn, a: number, b: number): number =>
  ids.lengths[a]! - ids.lengths[b]! || compareTexts(ids, a, b);

/** Splits rows sorted by time by UTC day; `day` is its midnight, epoch ms. */
export function* splitSeriesByDay(rows: SeriesRows): Generator<SeriesRows & { readonly day: number }> {
  const { t } = rows;
  for (let from = 0; from < t.length; ) {
    const day = floorToDay(t[from]!);
    const to = seek(t, from + 1, t.length, day + dayMs);
    yield { day, ...sliceRows(rows, from, to) };
    from = to;
  }
}

/** Rows `from` to `to`, as views. */
export const sliceRows = ({ t, values, texts, times }: SeriesRows, from: number, to: number): SeriesRows => ({
  t: t.subarray(from, to),
  values: values.map((column) => column.subarray(from, to)),
  texts: texts.map((column) => sliceTexts(column, from, to)),
  times: times?.map((column) => column.subarray(from, to)),
});

/** The rows with these indexes, in this order. The same arrays if all rows keep their place. */
export function pickSeriesRows({ t, values, texts, times }: SeriesRows, rows: ArrayLike<number>): SeriesRows {
  let kept = 0;
  while (kept < rows.length && rows[kept] === kept) kept++;
  if (kept === t.length && kept === rows.length) return { t, values, texts, times };
  return {
    t: pickNumbers(t, rows),
    values: values.map((column) => pickNumbers(column, rows)),
    texts: texts.map((column) => pickTexts(column, rows)),
    times: times?.map((column) => pickNumbers(column, rows)),
  };
}

function pickNumbers(column: Float64Array, rows: ArrayLike<number>): Float64Array {
  const out = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; i++) out[i] = column[rows[i]!]!;
  return out;
}

/** Returns the columns of the symbols from index `first` to `end` (exclusive). */
export function sliceSeries(columns: SeriesColumns, first: number, end: number): SeriesColumns {
  const { symbols, offsets } = columns;
  const [from, to] = [offsets[first]!, offsets[end]!];
  return {
    symbols: symbols.slice(first, end),
    offsets: offsets.slice(first, end + 1).map((offset) => offset - from),
    ...sliceRows(columns, from, to),
  };
}
