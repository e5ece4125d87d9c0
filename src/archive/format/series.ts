import { compareUtf8 } from '../../base/symbol-name.ts';
import { type MergedPart, mergePart } from './merge.ts';
import type { KnownPrecedence, Precedence, PrecedenceWindow } from './precedence.ts';
import { emptyPart, type PartColumns, type RunTally, type SymbolOffsets } from './tick-columns.ts';

/*
 * Series: rows of a symbol, a time and several numbers, one row for each symbol and time, such as quotes. A missing number
 * is NaN in memory and null in files.
 */

/** Rows of one symbol as columns of equal length. `t` is in integer epoch milliseconds. */
export interface SeriesRows {
  readonly t: Float64Array;
  /** In the order of the dataset's columns. */
  readonly values: readonly Float64Array[];
}

/** Rows of one symbol from one response or file, in any order, possibly with repeated times. */
export interface SeriesChunk extends SeriesRows, Precedence {
  readonly symbol: string;
  /** The run that counts these rows. */
  readonly runId: string;
}

/** Rows of many symbols, each sorted by t. Symbols are in UTF-8 order. */
export interface SeriesColumns extends SeriesRows, SymbolOffsets {}

/** A row that was dropped because another one of the same symbol and time has precedence. */
export interface SeriesConflict {
  readonly symbol: string;
  readonly t: number;
  readonly seenAt: number;
  readonly dropped: readonly number[];
}

export interface MergedSeries {
  readonly columns: SeriesColumns;
  /** False if the columns equal the old ones, row for row. */
  readonly isChanged: boolean;
  /** Each dropped row once for each time at which it was seen. */
  readonly conflicts: readonly SeriesConflict[];
  /** See `MergedPart.precedence`. */
  readonly precedence: readonly PrecedenceWindow[];
  readonly tallies: ReadonlyMap<string, RunTally>;
  /** Rows added, by symbol. */
  readonly added: ReadonlyMap<string, number>;
}

/** An empty series with this number of value columns. */
export const createEmptySeries = (width: number): SeriesColumns => ({
  symbols: [],
  offsets: new Float64Array(1),
  t: new Float64Array(0),
  values: Array.from({ length: width }, () => new Float64Array(0)),
});

/** Orders rows by their numbers, in the order of the columns. A missing number is less than every other one. */
export function compareSeriesValues(a: readonly number[], b: readonly number[]): number {
  for (let c = 0; c < a.length; c++) {
    const order = compareNumbers(a[c]!, b[c]!);
    if (order !== 0) return order;
  }
  return 0;
}

const compareNumbers = (a: number, b: number): number =>
  a < b ? -1 : a > b ? 1 : Number(Number.isNaN(b)) - Number(Number.isNaN(a));

/**
 * Merges new chunks into a series by the rule for ticks (`merge.ts`): of the rows of one key, the one with the greatest
 * (rank, time of observation, numbers) is kept. Pure: the result does not depend on the order and grouping of the
 * observations.
 *
 * The merge runs on ticks whose value is the index of the row, so that there is one merge rule.
 */
export function mergeSeries(old: SeriesColumns, chunks: readonly SeriesChunk[], known: KnownPrecedence): MergedSeries {
  const rows = chunks.reduce((sum, { t }) => sum + t.length, old.t.length);
  const values = old.values.map((column, c) => {
    const all = new Float64Array(rows);
    all.set(column);
    let at = column.length;
    for (const chunk of chunks) {
      all.set(chunk.values[c]!, at);
      at += chunk.t.length;
    }
    // -0 becomes 0, as in ticks.
    for (let i = column.length; i < rows; i++) all[i] = all[i]! + 0;
    return all;
  });
  const compareRows = (a: number, b: number): number => {
    for (const column of values) {
      const order = compareNumbers(column[a]!, column[b]!);
      if (order !== 0) return order;
    }
    return 0;
  };
  let next = old.t.length;
  const indexed = chunks.map(({ symbol, runId, rank, observedAt, t }) => {
    const p = createRowIndexes(next, t.length);
    next += t.length;
    return { symbol, runId, rank, observedAt, t, p };
  });
  const { columns, conflicts, ...merged }: MergedPart = mergePart(
    { symbols: old.symbols, offsets: old.offsets, t: old.t, p: createRowIndexes(0, old.t.length) },
    indexed,
    known,
    { t: emptyPart.t, p: emptyPart.p },
    { isSame: (a, b) => compareRows(a, b) === 0, isGreater: (a, b) => compareRows(a, b) > 0 },
  );
  const { symbols, offsets, t, p: kept } = columns;
  return {
    ...merged,
    columns: { symbols, offsets, t, values: values.map((column) => pickRows(column, kept)) },
    conflicts: dropRepeatedConflicts(
      conflicts.map(({ symbol, t: time, seenAt, dropped }) => ({
        symbol,
        t: time,
        seenAt,
        dropped: values.map((column) => column[dropped]!),
      })),
    ),
  };
}

/** The merge tells rows apart by their index, so it lists equal ones of several chunks. Those of a key are adjacent. */
function dropRepeatedConflicts(conflicts: readonly SeriesConflict[]): SeriesConflict[] {
  const seen = new Set<string>();
  let previous: SeriesConflict | undefined;
  return conflicts.filter((conflict) => {
    if (conflict.symbol !== previous?.symbol || conflict.t !== previous.t) seen.clear();
    previous = conflict;
    const name = `${conflict.seenAt} ${conflict.dropped.join(' ')}`;
    const isNew = !seen.has(name);
    seen.add(name);
    return isNew;
  });
}

function createRowIndexes(first: number, length: number): Float64Array {
  const indexes = new Float64Array(length);
  for (let i = 0; i < length; i++) indexes[i] = first + i;
  return indexes;
}

function pickRows(column: Float64Array, rows: Float64Array): Float64Array {
  const out = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; i++) out[i] = column[rows[i]!]!;
  return out;
}

/** Returns the columns of the symbols from index `first` to `end` (exclusive). */
export function sliceSeries({ symbols, offsets, t, values }: SeriesColumns, first: number, end: number): SeriesColumns {
  const [from, to] = [offsets[first]!, offsets[end]!];
  return {
    symbols: symbols.slice(first, end),
    offsets: offsets.slice(first, end + 1).map((offset) => offset - from),
    t: t.subarray(from, to),
    values: values.map((column) => column.subarray(from, to)),
  };
}

/** Symbols that are merged together, with their published rows and new chunks. */
interface SeriesSlice<C> {
  readonly old: SeriesColumns;
  readonly chunks: readonly C[];
}

export const countChunkRows = ({ t }: SeriesRows): number => t.length;

/**
 * Splits a part into slices of at most `rowsMax` rows, old and new together, or of a single symbol, so that merging needs
 * little memory. Slices are in the order of their symbols. Returns none if there are no rows.
 * @param countNewRows the number of rows of a chunk, which need not be in memory
 */
export function* splitSeries<C extends { readonly symbol: string }>(
  old: SeriesColumns,
  chunks: readonly C[],
  rowsMax: number,
  countNewRows: (chunk: C) => number,
): Generator<SeriesSlice<C>> {
  const bySymbol = Map.groupBy(chunks, ({ symbol }) => symbol);
  const oldIndex = new Map(old.symbols.map((symbol, i) => [symbol, i]));
  const symbols = [...new Set([...old.symbols, ...bySymbol.keys()])].sort(compareUtf8);
  const countRows = (symbol: string): number => {
    const i = oldIndex.get(symbol);
    const held = i === undefined ? 0 : old.offsets[i + 1]! - old.offsets[i]!;
    return (bySymbol.get(symbol) ?? []).reduce((sum, chunk) => sum + countNewRows(chunk), held);
  };
  let first = 0;
  let end = 0;
  let rows = 0;
  let slice: C[] = [];
  for (const symbol of symbols) {
    const added = countRows(symbol);
    if (rows > 0 && rows + added > rowsMax) {
      yield { old: sliceSeries(old, first, end), chunks: slice };
      [first, rows, slice] = [end, 0, []];
    }
    if (oldIndex.has(symbol)) end++;
    for (const chunk of bySymbol.get(symbol) ?? []) slice.push(chunk);
    rows += added;
  }
  if (rows > 0) yield { old: sliceSeries(old, first, end), chunks: slice };
}

/** The part of a series that `PartColumns` has, for code that needs only symbols and times. */
export const toTimes = ({ symbols, offsets, t }: SeriesColumns): PartColumns => ({ symbols, offsets, t, p: t });
