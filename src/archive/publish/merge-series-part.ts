import {
  type CoveredWindow,
  countCoverageTicks,
  joinForPublishing,
  overlayCoverage,
  type PublishedCoverage,
} from '../format/coverage.ts';
import { toDayPath } from '../format/layout.ts';
import { mergeSeries } from '../format/merge-series.ts';
import type { PrecedenceWindow } from '../format/precedence.ts';
import { createEmptySeries, type SeriesChunk, type SeriesConflict, sliceSeries } from '../format/series.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import { addTallies, noTicks, type RunTally, splitPart } from '../format/tick-columns.ts';
import { type PublishedPrecedence, toSeriesPrecedence } from '../journal/precedence-store.ts';
import { decodeSeries } from '../parquet/series-file.ts';
import { decodePublished } from '../read-published-file.ts';
import { type EncodedFile, openSeriesPartitionWriter } from './encode-partition.ts';
import { countChunkRows, loadSpilled, openSpillReader, type SpilledChunk } from './spill-file.ts';

/**
 * The published file of a part of a series and the input to merge into it; `day` is the UTC midnight. Plain values, for worker
 * threads.
 */
export interface SeriesMergeTask {
  readonly dataset: SeriesDataset;
  readonly day: number;
  readonly part: number;
  /** The published file, hash checked; null if there is none. */
  readonly old: Uint8Array | null;
  readonly chunks: readonly (SeriesChunk | SpilledChunk)[];
  /** Coverage of the input. */
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Published coverage of the symbols of the input. */
  readonly published: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** Known precedence of the published rows of the symbols of the input. */
  readonly precedence: ReadonlyMap<string, readonly PrecedenceWindow[]>;
  /** See `KnownPrecedence.findPublished`. */
  readonly publishedPrecedence?: PublishedPrecedence | undefined;
  readonly groupRows: number;
  /** See `MergeTask.unites`. */
  readonly unites?: boolean;
}

/** The result of merging a part of a series. */
export interface SeriesMergeResult {
  readonly dataset: SeriesDataset;
  /** Null if the rows did not change. */
  readonly file: EncodedFile | null;
  readonly conflicts: readonly SeriesConflict[];
  readonly precedence: readonly PrecedenceWindow[];
  readonly tallies: ReadonlyMap<string, RunTally>;
  /** The coverage to publish of the symbols of the input that have any. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
}

/** The symbols that have rows or coverage in the input of a part. */
export const listInputSymbols = ({ chunks, covered }: Pick<SeriesMergeTask, 'chunks' | 'covered'>): Set<string> =>
  new Set([...covered.keys(), ...chunks.map(({ symbol }) => symbol)]);

/** Maximum rows per slice, old and new together. A single symbol may have more. */
const sliceRowsMax = 100_000;

/**
 * Merges new rows and coverage into a part one slice of symbols at a time, to bound memory. The result does not depend on how it
 * is sliced.
 * @throws DamageError if the published file cannot be decoded
 */
export function mergeSeriesPart(task: SeriesMergeTask, rowsMax = sliceRowsMax): SeriesMergeResult {
  const { dataset, covered, published } = task;
  const path = toDayPath(dataset, task.day, task.part);
  const old =
    task.old === null ? createEmptySeries(dataset) : decodePublished(path, () => decodeSeries(dataset, task.old!));
  const known = toSeriesPrecedence(task.precedence, published, task.publishedPrecedence);
  const writer = openSeriesPartitionWriter(dataset, task, task.groupRows);
  const conflicts: SeriesConflict[] = [];
  const precedence: PrecedenceWindow[] = [];
  const tallies = new Map<string, RunTally>();
  const times = new Map<string, Float64Array>();
  const isCovered = (symbol: string): boolean => published.has(symbol) || covered.has(symbol);
  let isChanged = false;
  using spills = openSpillReader();
  for (const { first, end, chunks } of splitPart(old, task.chunks, new Set(), rowsMax, countChunkRows)) {
    const loaded = loadSpilled(chunks, spills, (head, rows): SeriesChunk => ({ ...head, ...rows }));
    const merged = mergeSeries(dataset, sliceSeries(old, first, end), loaded, known);
    const { symbols, offsets, t } = merged.columns;
    writer.add(merged.columns);
    isChanged ||= merged.isChanged;
    for (const conflict of merged.conflicts) conflicts.push(conflict);
    for (const window of merged.precedence) precedence.push(window);
    for (const [runId, tally] of merged.tallies) tallies.set(runId, addTallies(tallies.get(runId) ?? noTicks, tally));
    symbols.forEach((symbol, i) => {
      if (isCovered(symbol)) times.set(symbol, t.slice(offsets[i]!, offsets[i + 1]!));
    });
  }
  const coverage = new Map<string, readonly PublishedCoverage[]>();
  for (const symbol of listInputSymbols(task)) {
    const overlaid = overlayCoverage([...(published.get(symbol) ?? []), ...(covered.get(symbol) ?? [])]);
    const windows = joinForPublishing(overlaid, [], task.unites);
    if (windows.length > 0) coverage.set(symbol, countCoverageTicks(windows, times.get(symbol) ?? new Float64Array(0)));
  }
  return { dataset, file: isChanged ? (writer.finish() ?? null) : null, conflicts, precedence, tallies, coverage };
}
