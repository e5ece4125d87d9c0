import { compareUtf8 } from '../../base/symbol-name.ts';
import { isSorted } from './merge-order.ts';
import {
  createUnknown,
  pickSeriesRows,
  type SeriesChunk,
  type SeriesColumns,
  type SeriesConflict,
  type SeriesRows,
} from './series.ts';
import { timeNames } from './series-datasets.ts';
import { compareTexts, concatTexts, readText } from './text-columns.ts';

/*
 * The rows of a merge: those of the old columns, followed by those of each chunk. A row is an index into them.
 */

/** Joins the rows to merge. */
export function joinRows(old: SeriesColumns, chunks: readonly SeriesChunk[]): SeriesRows {
  const rows = chunks.reduce((sum, { t }) => sum + t.length, old.t.length);
  const joined = [old, ...chunks];
  const join = (pick: (of: SeriesRows) => Float64Array): Float64Array => {
    const all = new Float64Array(rows);
    let at = 0;
    for (const of of joined) {
      all.set(pick(of), at);
      at += pick(of).length;
    }
    // -0 becomes 0, as in ticks.
    for (let i = old.t.length; i < rows; i++) all[i] = all[i]! + 0;
    return all;
  };
  return {
    t: join(({ t }) => t),
    values: old.values.map((_, c) => join(({ values }) => values[c]!)),
    texts: old.texts.map((_, c) => concatTexts(joined.map(({ texts }) => texts[c]!))),
    times: joined.some(({ times }) => times)
      ? timeNames.map((_, c) => join(({ t, times }) => times?.[c] ?? createUnknown(t.length)))
      : undefined,
  };
}

/** Orders rows by their numbers and then their texts, in the order of the columns. What is missing is less than the rest. */
export function compareRows({ values, texts }: SeriesRows, a: number, b: number): number {
  for (const column of values) {
    const order = compareNumbers(column[a]!, column[b]!);
    if (order !== 0) return order;
  }
  for (const column of texts) {
    const order = compareTexts(column, a, b);
    if (order !== 0) return order;
  }
  return 0;
}

const compareNumbers = (a: number, b: number): number =>
  a < b ? -1 : a > b ? 1 : Number(Number.isNaN(b)) - Number(Number.isNaN(a));

const compareStrings = (a: string | null, b: string | null): number =>
  a === b ? 0 : a === null ? -1 : b === null ? 1 : compareUtf8(a, b);

/**
 * Sorts the rows of one symbol and file by time. Of equal times the last one counts, as of ticks (`sortTicksByTime`): rows that run
 * newest first are reversed; those in no order are sorted by `compareRows` within a time.
 */
export function sortSeriesByTime(rows: SeriesRows): SeriesRows {
  const { t } = rows;
  if (isSorted(t)) return rows;
  const order = Uint32Array.from(t, (_, i) => i);
  if (isSorted(t, -1)) order.reverse();
  else order.sort((a, b) => t[a]! - t[b]! || compareRows(rows, a, b) || a - b);
  return pickSeriesRows(rows, order);
}

/** Orders dropped rows by their numbers and texts, as `compareRows` does. */
export function compareDropped(a: SeriesConflict, b: SeriesConflict): number {
  for (let c = 0; c < a.dropped.length; c++) {
    const order = compareNumbers(a.dropped[c]!, b.dropped[c]!);
    if (order !== 0) return order;
  }
  for (let c = 0; c < a.droppedTexts.length; c++) {
    const order = compareStrings(a.droppedTexts[c]!, b.droppedTexts[c]!);
    if (order !== 0) return order;
  }
  return 0;
}

export const toSeriesConflict = (
  { t, values, texts }: SeriesRows,
  row: number,
  symbol: string,
  seenAt: number,
): SeriesConflict => ({
  symbol,
  t: t[row]!,
  seenAt,
  dropped: values.map((column) => column[row]!),
  droppedTexts: texts.map((column) => readText(column, row)),
});

/** A merge tells rows apart by their index, so it lists equal ones of several chunks. Those of a key are adjacent. */
export function dropRepeatedConflicts(conflicts: readonly SeriesConflict[]): SeriesConflict[] {
  const seen = new Set<string>();
  let previous: SeriesConflict | undefined;
  return conflicts.filter((conflict) => {
    if (conflict.symbol !== previous?.symbol || conflict.t !== previous.t) seen.clear();
    previous = conflict;
    const name = JSON.stringify([conflict.seenAt, conflict.dropped.map(String), conflict.droppedTexts]);
    const isNew = !seen.has(name);
    seen.add(name);
    return isNew;
  });
}
