import { type MergedPart, mergePart } from './merge.ts';
import { mergeRowsById } from './merge-by-id.ts';
import type { KnownPrecedence } from './precedence.ts';
import { type MergedSeries, pickSeriesRows, type SeriesChunk, type SeriesColumns } from './series.ts';
import { hasRowIds, type SeriesDataset } from './series-datasets.ts';
import { compareRows, dropRepeatedConflicts, joinRows, toSeriesConflict } from './series-rows.ts';
import { emptyPart } from './tick-columns.ts';

/**
 * Merges new chunks into a series by the rule for ticks (`merge.ts`): of the rows of one key, the one with the greatest
 * (rank, time of observation, numbers and texts) is kept. Pure: the result does not depend on the order and grouping of the
 * observations.
 */
export const mergeSeries = (
  dataset: SeriesDataset,
  old: SeriesColumns,
  chunks: readonly SeriesChunk[],
  known: KnownPrecedence,
): MergedSeries => (hasRowIds(dataset) ? mergeRowsById : mergeRowsByTime)(old, chunks, known);

/** Merges rows of which one is kept for each symbol and time, as ticks whose value is the index of the row. */
function mergeRowsByTime(old: SeriesColumns, chunks: readonly SeriesChunk[], known: KnownPrecedence): MergedSeries {
  const all = joinRows(old, chunks);
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
    { isSame: (a, b) => compareRows(all, a, b) === 0, isGreater: (a, b) => compareRows(all, a, b) > 0 },
  );
  const { symbols, offsets, p: kept } = columns;
  return {
    ...merged,
    columns: { symbols, offsets, ...pickSeriesRows(all, kept) },
    conflicts: dropRepeatedConflicts(
      conflicts.map(({ symbol, seenAt, dropped }) => toSeriesConflict(all, dropped, symbol, seenAt)),
    ),
  };
}

function createRowIndexes(first: number, length: number): Float64Array {
  const indexes = new Float64Array(length);
  for (let i = 0; i < length; i++) indexes[i] = first + i;
  return indexes;
}
