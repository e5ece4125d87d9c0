import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import {
  assessLostWindows,
  type CoveredWindow,
  countCoverageTicks,
  joinForPublishing,
  type LostWindow,
  overlayCoverage,
  type PublishedCoverage,
  withdrawCoverage,
} from '../format/coverage.ts';
import { type CandleInterval, datasets } from '../format/datasets.ts';
import { toDayPath } from '../format/layout.ts';
import { type MergeBuffers, type MergedPart, mergePart } from '../format/merge.ts';
import type { KnownPrecedence, PrecedenceWindow } from '../format/precedence.ts';
import {
  addTallies,
  type Conflict,
  countTicksInWindow,
  emptyPart,
  indexTickTimes,
  noTicks,
  type PartColumns,
  type PartSlice,
  type RunTally,
  splitPart,
  type TickChunk,
} from '../format/tick-columns.ts';
import type { DatedWindow } from '../format/withdrawals.ts';
import type { SymbolsPrecedence } from '../journal/precedence-store.ts';
import type { TickDelta } from '../journal/tick-counts.ts';
import { findKeptRowGroups } from '../parquet/kept-row-groups.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { decodePublished } from '../read-published-file.ts';
import {
  type CandleSeriesFiles,
  decodeCandleSeries,
  type EncodedFile,
  openPartitionWriter,
} from './encode-partition.ts';
import { type LateTickTask, measureLateness } from './late-ticks.ts';
import { mergeSeriesPart, type SeriesMergeResult, type SeriesMergeTask } from './merge-series-part.ts';
import { countChunkRows, loadSpilled, openSpillReader, type SpilledChunk } from './spill-file.ts';

/**
 * The published part file of one UTC day and the input to merge into it; `day` is its midnight. Plain values, for
 * worker threads.
 */
export interface MergeTask {
  readonly day: number;
  readonly part: number;
  /** The published file, hash checked; null if there is none. */
  readonly old: Uint8Array | null;
  readonly chunks: readonly (TickChunk | SpilledChunk)[];
  /** Published coverage of the part's symbols. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** Windows of the part's symbols whose published coverage is withdrawn before the new coverage is applied. */
  readonly withdrawn: ReadonlyMap<string, readonly DatedWindow[]>;
  /** The withdrawals of the part's symbols that the next manifest lists. */
  readonly listed: ReadonlyMap<string, readonly Window[]>;
  /** Coverage of the chunks. */
  readonly answers: ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Lost windows of the day. */
  readonly lost: ReadonlyMap<string, readonly LostWindow[]>;
  /** One for each of `PublishOptions.late`. */
  readonly late: readonly LateTickTask[];
  /** Intervals to compute candles for. */
  readonly intervals: readonly CandleInterval[];
  /** The series files that candles are computed from, as of the next generation; none without intervals. */
  readonly series: CandleSeriesFiles;
  readonly groupRows: number;
  /** Set if the coverage of the chunks is the published coverage of another archive. */
  readonly unites?: boolean;
}

/** Reused from slice to slice; the rows of a slice are encoded or copied before the next slice is merged. */
const mergeBuffers: MergeBuffers = { t: emptyPart.t, p: emptyPart.p };

/** Maximum ticks per slice, old and new together. A single symbol may have more. */
const sliceTicksMax = 300_000;

/**
 * Merges new ticks and coverage into a part, one slice of symbols at a time, to bound memory. The result does not
 * depend on how the part is sliced.
 * @throws DamageError if the published file cannot be decoded
 */
export function mergePartition(task: MergeTask, known: KnownPrecedence, ticksMax = sliceTicksMax): MergeResult {
  const old =
    task.old === null
      ? emptyPart
      : decodePublished(toDayPath('ticks', task.day, task.part), () => decodeTicks(task.old!));
  const others = new Set([...task.answers.keys(), ...task.coverage.keys(), ...task.withdrawn.keys()]);
  const slices = splitPart(old, task.chunks, others, ticksMax, countChunkRows);
  const kept =
    task.old === null
      ? undefined
      : findKeptRowGroups(task.old, datasets.ticks.columns, countRowsBefore(old, task.chunks), task.groupRows);
  const files = openPartitionWriter(task, task.intervals, decodeCandleSeries(task.series), task.groupRows, kept);
  using spills = openSpillReader();
  const result = createMergeResult(task.late.length);
  for (const slice of slices) {
    const chunks = loadSpilled(
      slice.chunks,
      spills,
      (head, { t, values }): TickChunk => ({ ...head, t, p: values[0]! }),
    );
    const held = sliceColumns(old, slice);
    const { columns, ...merged } = mergePart(held, chunks, known, mergeBuffers);
    const assessed = judgeLostWindows(pickSymbols(task.answers, slice.symbols), task.lost, columns);
    const published = pickSymbols(task.coverage, slice.symbols);
    const withdrawn = pickSymbols(task.withdrawn, slice.symbols);
    const changed = computeChangedCoverage(task, published, withdrawn, assessed.covered, merged.added, columns);
    // With a single slice it is already known whether the ticks have to be written.
    files.add(columns, new Map([...published, ...changed]), slices.length > 1 || merged.isChanged);
    const late = task.late.map(({ claimed, latenessMsMax }) =>
      measureLateness(pickSymbols(claimed, slice.symbols), merged.added, { old: held, columns }, latenessMsMax),
    );
    addSliceResult(result, {
      merged,
      deltas: computeTickDeltas(merged.added, columns),
      ...assessed,
      withdrawn,
      coverage: changed,
      late,
    });
  }
  return { ...result, files: files.finish(result.merged.isChanged) };
}

function sliceColumns({ symbols, offsets, t, p }: PartColumns, { first, end }: PartSlice<unknown>): PartColumns {
  const [from, to] = [offsets[first]!, offsets[end]!];
  return {
    symbols: symbols.slice(first, end),
    offsets: offsets.slice(first, end + 1).map((offset) => offset - from),
    t: t.subarray(from, to),
    p: p.subarray(from, to),
  };
}

/** The number of published rows before the first symbol with new ticks: a merge does not change these. */
function countRowsBefore(old: PartColumns, chunks: MergeTask['chunks']): number {
  if (chunks.length === 0) return 0;
  const first = chunks.reduce(
    (least, { symbol }) => (compareUtf8(symbol, least) < 0 ? symbol : least),
    chunks[0]!.symbol,
  );
  const next = old.symbols.findIndex((symbol) => compareUtf8(symbol, first) >= 0);
  return next < 0 ? old.t.length : old.offsets[next]!;
}

/** Returns the entries of these symbols. */
export function pickSymbols<T>(bySymbol: ReadonlyMap<string, T>, symbols: readonly string[]): ReadonlyMap<string, T> {
  return new Map(symbols.flatMap((symbol) => (bySymbol.has(symbol) ? [[symbol, bySymbol.get(symbol)!] as const] : [])));
}

/** Determines from the merged ticks which lost windows are restored and what the responses cover. */
function judgeLostWindows(
  newCoverage: ReadonlyMap<string, readonly CoveredWindow[]>,
  lostBySymbol: ReadonlyMap<string, readonly LostWindow[]>,
  columns: PartColumns,
): { covered: ReadonlyMap<string, readonly CoveredWindow[]>; restored: LostWindow[]; lacking: LostWindow[] } {
  const covered = new Map<string, readonly CoveredWindow[]>(newCoverage);
  const restored: LostWindow[] = [];
  const lacking: LostWindow[] = [];
  const getTimes = indexTickTimes(columns);
  for (const [symbol, ofSymbol] of newCoverage) {
    const lost = lostBySymbol.get(symbol);
    if (lost === undefined) continue;
    const assessed = assessLostWindows(ofSymbol, lost, (window) => countTicksInWindow(getTimes(symbol), window));
    covered.set(symbol, assessed.covered);
    restored.push(...assessed.restored);
    lacking.push(...assessed.stillLost);
  }
  return { covered, restored, lacking };
}

/**
 * Removes withdrawn windows from the coverage, applies the new coverage, and recounts the ticks of each symbol with
 * new rows or coverage. A symbol that lost all its coverage gets an empty list.
 */
function computeChangedCoverage(
  { listed, unites }: MergeTask,
  coverage: ReadonlyMap<string, readonly PublishedCoverage[]>,
  withdrawn: ReadonlyMap<string, readonly Window[]>,
  covered: ReadonlyMap<string, readonly CoveredWindow[]>,
  added: MergedPart['added'],
  columns: PartColumns,
): Map<string, PublishedCoverage[]> {
  const out = new Map<string, PublishedCoverage[]>();
  const getTimes = indexTickTimes(columns);
  for (const symbol of new Set([...covered.keys(), ...withdrawn.keys(), ...added.keys()])) {
    const published = coverage.get(symbol) ?? [];
    const remaining = withdrawCoverage(published, withdrawn.get(symbol) ?? []);
    const overlaid = overlayCoverage([...remaining, ...(covered.get(symbol) ?? [])]);
    const windows = joinForPublishing(overlaid, listed.get(symbol), unites);
    if (windows.length === 0 && published.length === 0) continue;
    out.set(symbol, countCoverageTicks(windows, getTimes(symbol)));
  }
  return out;
}

function computeTickDeltas(added: ReadonlyMap<string, number>, columns: PartColumns): TickDelta[] {
  const out: TickDelta[] = [];
  columns.symbols.forEach((symbol, i) => {
    const count = added.get(symbol) ?? 0;
    if (count === 0) return;
    out.push({
      symbol,
      added: count,
      first: columns.t[columns.offsets[i]!]!,
      last: columns.t[columns.offsets[i + 1]! - 1]!,
    });
  });
  return out.sort((a, b) => compareUtf8(a.symbol, b.symbol));
}

/** The result of merging a part. */
export interface MergeResult {
  readonly merged: Omit<MergedPart, 'columns'>;
  readonly deltas: readonly TickDelta[];
  /** New coverage to record. */
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Windows whose coverage is withdrawn before the new coverage is applied. */
  readonly withdrawn: ReadonlyMap<string, readonly DatedWindow[]>;
  /** Lost windows whose ticks are all restored. */
  readonly restored: readonly LostWindow[];
  /** Lost windows that were fetched again with fewer ticks than were once published. */
  readonly lacking: readonly LostWindow[];
  /** The coverage to publish of symbols whose coverage changed. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** How late ticks in windows that were covered before are, in ms, by each of the rules. */
  readonly late: readonly number[];
  /** The ticks file, if the ticks changed, and the candle files. */
  readonly files: readonly EncodedFile[];
}

/** The result of merging one slice, without files. */
export type MergeSliceResult = Omit<MergeResult, 'files'>;

/** The accumulated results of the slices. */
type MergeResultBuilder = ReturnType<typeof createMergeResult>;

const createMergeResult = (lateCount: number) => ({
  merged: {
    isChanged: false,
    conflicts: [] as Conflict[],
    precedence: [] as PrecedenceWindow[],
    tallies: new Map<string, RunTally>(),
    added: new Map<string, number>(),
  },
  deltas: [] as TickDelta[],
  covered: new Map<string, readonly CoveredWindow[]>(),
  withdrawn: new Map<string, readonly DatedWindow[]>(),
  restored: [] as LostWindow[],
  lacking: [] as LostWindow[],
  coverage: new Map<string, readonly PublishedCoverage[]>(),
  late: Array.from({ length: lateCount }, () => 0),
});

function addSliceResult(result: MergeResultBuilder, slice: MergeSliceResult): void {
  const total = result.merged;
  const { merged } = slice;
  total.isChanged ||= merged.isChanged;
  for (const conflict of merged.conflicts) total.conflicts.push(conflict);
  for (const window of merged.precedence) total.precedence.push(window);
  for (const [symbol, count] of merged.added) total.added.set(symbol, count);
  for (const [runId, tally] of merged.tallies) {
    total.tallies.set(runId, addTallies(total.tallies.get(runId) ?? noTicks, tally));
  }
  for (const delta of slice.deltas) result.deltas.push(delta);
  for (const [symbol, covered] of slice.covered) result.covered.set(symbol, covered);
  for (const [symbol, windows] of slice.withdrawn) result.withdrawn.set(symbol, windows);
  result.late = result.late.map((late, i) => Math.max(late, slice.late[i]!));
  result.restored.push(...slice.restored);
  result.lacking.push(...slice.lacking);
  for (const [symbol, coveredWindows] of slice.coverage) result.coverage.set(symbol, coveredWindows);
}

/** Precedence of a part's published ticks: as a lookup in the database, or as plain values for a worker thread. */
interface PartitionPrecedence {
  readonly lookup: KnownPrecedence;
  readAll(): SymbolsPrecedence;
}

/** Merges parts on this thread or on worker threads, with the same results. */
export interface MergeWorkers {
  /** Maximum concurrent tasks. */
  readonly concurrency: number;
  merge(task: MergeTask, precedence: PartitionPrecedence): Promise<MergeResult>;
  mergeSeries(task: SeriesMergeTask): Promise<SeriesMergeResult>;
}

/** Merges on the calling thread, one part at a time. */
export const inlineWorker: MergeWorkers = {
  concurrency: 1,
  merge: async (task, { lookup }) => mergePartition(task, lookup),
  mergeSeries: async (task) => mergeSeriesPart(task),
};
