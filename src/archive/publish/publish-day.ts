import { DamageError } from '../../base/errors.ts';
import { isSymbolOf } from '../../base/source-name.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import { dayMs, floorToDay, type Window } from '../../base/window.ts';
import type { CandleInterval } from '../format/candles.ts';
import type { LostWindow, PublishedCoverage } from '../format/coverage.ts';
import { toDayPath } from '../format/layout.ts';
import { findManifestFile } from '../format/manifest.ts';
import { type BookObservation, emptyBooks, mergeBooks } from '../format/order-book.ts';
import type { Conflict } from '../format/tick-columns.ts';
import { readSegmentsIn } from '../journal/coverage-store.ts';
import type { Database } from '../journal/database.ts';
import { readLostTicksIn } from '../journal/gap-records.ts';
import type { JournalBin } from '../journal/journal.ts';
import { type BookResponse, readBookBin, readBookResponses } from '../journal/journal-books.ts';
import { assertRowCount, type JournalIndex } from '../journal/journal-check.ts';
import { createBookObservedAtLookup, openDayPrecedence, readPrecedence } from '../journal/precedence-store.ts';
import type { Archive } from '../open-archive.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { readPublishedFile } from '../read-published-file.ts';
import {
  applyBookCoverage,
  type DayCoverage,
  readDayConflicts,
  readDayCoverage,
  stageDayTable,
  toConflictRows,
  toCoverageRows,
} from './day-tables.ts';
import { encodeBookFile } from './encode-partition.ts';
import type { TickSource } from './import-buffer.ts';
import type { FetchedWindow, LateTickRules } from './late-ticks.ts';
import {
  type MergeResult,
  type MergeSliceResult,
  type MergeTask,
  type MergeWorkers,
  type PartitionPrecedence,
  pickSymbols,
} from './merge-partition.ts';
import type { SeriesCoverage } from './publish-series.ts';
import { hasStagedSeries, readCandleSeries } from './stage-candles.ts';
import { type Stage, stageFile, stageRemoval } from './staging.ts';

/** The result of merging one part of one day. */
export interface BinResult extends Omit<MergeResult, 'coverage' | 'files'> {
  readonly bin: JournalBin;
}

/** The input for one UTC day. */
export interface DayInput {
  readonly day: number;
  readonly bins: readonly JournalBin[];
  /** Order-book responses whose coverage is to be published. */
  readonly answers: readonly BookResponse[];
  /** Coverage of series to publish; undefined if no series of the day was merged. */
  readonly series: SeriesCoverage | undefined;
}

interface StageDaysInput {
  readonly days: readonly DayInput[];
  readonly source: TickSource;
  /** Last journal record to publish. */
  readonly end: number;
  readonly intervals: readonly CandleInterval[];
  /** See `PublishOptions.late`. */
  readonly late: LateTickRules | undefined;
  readonly workers: MergeWorkers;
  readonly signal: AbortSignal | undefined;
  /** Called after each part. */
  onPart(): void;
}

interface StagedDays {
  readonly bins: readonly BinResult[];
  /** Order-book responses whose coverage is staged. */
  readonly answers: readonly BookResponse[];
  /** One message per part or day that was skipped because its published file is damaged. Its input stays journaled. */
  readonly refused: readonly string[];
}

/** The coverage and conflicts of a day while its parts are merged. */
interface OpenDay {
  readonly input: DayInput;
  readonly coverage: DayCoverage;
  readonly conflicts: Conflict[];
  /** Published coverage, by part. */
  readonly coverageByPart: ReadonlyMap<number, readonly (readonly [string, readonly PublishedCoverage[]])[]>;
  /** Coverage from before the run, by symbol; empty if late ticks are not counted. */
  readonly coveredBefore: ReadonlyMap<string, readonly FetchedWindow[]>;
  readonly lost: ReadonlyMap<string, readonly LostWindow[]>;
  mergedBins: number;
}

/** A running merge, or the end of a day, in the order of staging. */
type PendingStep =
  | { readonly day: OpenDay; readonly bin: JournalBin; readonly done: Promise<MergeSettlement> }
  | { readonly day: OpenDay };
type MergeSettlement = { readonly done: MergeSliceResult } | { readonly error: unknown };

/**
 * Merges the input of each day into the published files, part by part, and stages the changed files. Results are in the
 * order of the parts. Holds at most `workers.concurrency` parts in memory.
 */
export async function stageDays(archive: Archive, stage: Stage, input: StageDaysInput): Promise<StagedDays> {
  const { workers, signal } = input;
  const outcome = { bins: [] as BinResult[], answers: [] as BookResponse[], refused: [] as string[] };
  const pending: PendingStep[] = [];
  let running = 0;
  let isOver = false;

  async function finishNext(): Promise<void> {
    const first = pending.shift()!;
    if (!('bin' in first)) {
      stageDayTables(archive, stage, first.day);
      for (const response of first.day.input.answers) outcome.answers.push(response);
      await yieldToOthers();
      return;
    }
    const { day, bin } = first;
    const settled = await first.done;
    running--;
    if ('done' in settled) {
      day.mergedBins++;
      outcome.bins.push(addBinResult(day, bin, settled.done));
    } else if (!(settled.error instanceof DamageError) || isBoundToSeries(bin)) throw settled.error;
    else outcome.refused.push(settled.error.message);
    input.onPart();
    await yieldToOthers();
  }

  /** Whether series of the part are staged, whose candles cannot be: the files were intact a moment ago. */
  const isBoundToSeries = (bin: JournalBin): boolean => input.intervals.length > 0 && hasStagedSeries(stage, bin);

  /** Yields to other work, and throws if the signal is aborted. */
  async function yieldToOthers(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    signal?.throwIfAborted();
  }

  /** Stages a merged part at once, so that its files need not stay in memory until earlier parts are done. */
  function stageNow({ files, ...rest }: MergeResult): MergeSliceResult {
    // An aborted publish may have released the lock, so it must not write any more.
    if (!isOver) for (const file of files) stageFile(archive, stage, file);
    return rest;
  }

  async function all(): Promise<void> {
    for (const dayInput of input.days) {
      signal?.throwIfAborted();
      const day = openDay(archive, stage, dayInput, input.late);
      if (day instanceof DamageError) {
        // Its series are staged, and their coverage cannot be: the file was intact a moment ago.
        if (dayInput.series !== undefined) throw day;
        outcome.refused.push(day.message);
        continue;
      }
      for (const bin of dayInput.bins) {
        while (running >= workers.concurrency) await finishNext();
        const done = startMerge(archive, stage, day, bin, input)
          .then(stageNow)
          .then(
            (result) => ({ done: result }),
            (error: unknown) => ({ error }),
          );
        pending.push({ day, bin, done });
        running++;
      }
      pending.push({ day });
      // Finish days without pending merges.
      while (pending.length > 0 && !('bin' in pending[0]!)) await finishNext();
    }
    while (pending.length > 0) await finishNext();
  }

  try {
    await all();
  } finally {
    isOver = true;
  }
  return outcome;
}

/** Reads the published coverage and conflicts of a day. Returns the error if a file is damaged. */
function openDay(
  archive: Archive,
  stage: Stage,
  input: DayInput,
  lateRules: LateTickRules | undefined,
): OpenDay | DamageError {
  const { day } = input;
  try {
    const coverage = readDayCoverage(archive, stage.base, day);
    const conflicts = readDayConflicts(archive, stage.base, day);
    const { db, identity } = archive.state;
    const coveredBefore =
      lateRules === undefined ? new Map() : readCoveredBefore(db, { from: day, to: day + dayMs }, lateRules);
    const byPart = Map.groupBy(coverage.ticks, ([symbol]) => computePartNumber(symbol, identity.parts));
    const lost = readLostTicksIn(db, { from: day, to: day + dayMs });
    return { input, coverage, conflicts, coverageByPart: byPart, coveredBefore, lost, mergedBins: 0 };
  } catch (error) {
    if (error instanceof DamageError) return error;
    throw error;
  }
}

async function startMerge(
  archive: Archive,
  stage: Stage,
  openedDay: OpenDay,
  bin: JournalBin,
  input: StageDaysInput,
): Promise<MergeResult> {
  const { db } = archive.state;
  const { day, part } = bin;
  const file = findManifestFile(stage.base, 'ticks', toDayPath('ticks', day, part));
  const old = file === undefined ? null : readPublishedFile(archive, file);
  const chunks = input.source.readChunks(bin);
  const coverage = new Map<string, readonly PublishedCoverage[]>(openedDay.coverageByPart.get(part) ?? []);
  const task: MergeTask = {
    day,
    part,
    old,
    chunks,
    coverage,
    answers: input.source.readCoverage(bin),
    withdrawn: input.source.readWithdrawn(bin),
    lost: openedDay.lost,
    intervals: input.intervals,
    series: input.intervals.length === 0 ? new Map() : readCandleSeries(archive, stage, bin),
    groupRows: archive.groupRows,
    claimed: pickSymbols(
      openedDay.coveredBefore,
      chunks.map(({ symbol }) => symbol),
    ),
    latenessMsMax: input.late?.latenessMsMax ?? 0,
  };
  const standings: PartitionPrecedence = {
    lookup: openDayPrecedence(db, day),
    readAll: () => readPrecedence(db, day, new Set(chunks.map(({ symbol }) => symbol))),
  };
  return input.workers.merge(task, standings);
}

/** The published coverage of a window that was fetched before `beforeMs`, by symbol. */
const readCoveredBefore = (
  db: Database,
  window: Window,
  { fetchedBeforeMs, source = null }: LateTickRules,
): ReadonlyMap<string, readonly FetchedWindow[]> =>
  new Map(
    [...readSegmentsIn(db, window)]
      .filter(([symbol]) => isSymbolOf(source, symbol))
      .map(([symbol, covered]) => [
        symbol,
        covered
          .filter(({ fetchedAt }) => fetchedAt < fetchedBeforeMs)
          .map(({ from, to, fetchedAt }) => ({ from, to, fetchedAt })),
      ]),
  );

function addBinResult(openedDay: OpenDay, bin: JournalBin, done: MergeSliceResult): BinResult {
  const { coverage, ...rest } = done;
  for (const conflict of rest.merged.conflicts) openedDay.conflicts.push(conflict);
  for (const [symbol, windows] of coverage) openedDay.coverage.ticks.set(symbol, [...windows]);
  // The conflicts now belong to the day; keeping those of all days could exceed memory.
  const merged = { ...rest.merged, conflicts: [] };
  return { bin, ...rest, merged };
}

/** Stages the datasets with one file per day: coverage and conflicts. */
function stageDayTables(archive: Archive, stage: Stage, { input, coverage, conflicts, mergedBins }: OpenDay): void {
  applyBookCoverage(coverage, input.answers);
  for (const [dataset, bySymbol] of input.series ?? [])
    for (const [symbol, windows] of bySymbol) coverage[dataset].set(symbol, [...windows]);
  if (mergedBins + input.answers.length === 0 && input.series === undefined) return;
  const rows = toCoverageRows(coverage);
  const path = toDayPath('coverage', input.day, 0);
  // All coverage of the day may have been withdrawn.
  if (rows.length === 0 && findManifestFile(stage.base, 'coverage', path) !== undefined) stageRemoval(stage, path);
  stageDayTable(archive, stage, 'coverage', input.day, rows);
  stageDayTable(archive, stage, 'conflicts', input.day, toConflictRows(conflicts));
}

/** The order books that a publish merges. */
interface StagedBooks {
  readonly bins: readonly JournalBin[];
  /** Observation times of the snapshots that are now in the part files. */
  readonly observed: readonly BookObservation[];
  /** Responses with all of their snapshots merged, by UTC day of the response. Their coverage is to be published. */
  readonly answers: ReadonlyMap<number, readonly BookResponse[]>;
  /** One message per part that was skipped because its published file is damaged. Its input stays journaled. */
  readonly refused: readonly string[];
}

/** Merges the journal's order books into the published files and stages the changed ones. Holds one part in memory. */
export async function stageBooks(
  archive: Archive,
  stage: Stage,
  index: JournalIndex,
  signal: AbortSignal | undefined,
): Promise<StagedBooks> {
  const { db } = archive.state;
  const bins: JournalBin[] = [];
  const observed: BookObservation[] = [];
  const refused: string[] = [];
  for (const { day, part } of index.bins.get('journal_books')!) {
    const bin = { day, part };
    signal?.throwIfAborted();
    try {
      for (const observation of stageBookBin(archive, stage, bin, index)) observed.push(observation);
      bins.push(bin);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
    // Yield to signals and other work between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const responses = Map.groupBy(readBookResponses(db, bins, index.end), (response) => floorToDay(response.at));
  return { bins, observed, answers: responses, refused };
}

function stageBookBin(
  archive: Archive,
  stage: Stage,
  bin: JournalBin,
  index: JournalIndex,
): readonly BookObservation[] {
  const path = toDayPath('orderbooks', bin.day, bin.part);
  const file = findManifestFile(stage.base, 'orderbooks', path);
  const old = file === undefined ? emptyBooks : decodeBooks(readPublishedFile(archive, file));
  const fresh = readBookBin(archive.state.db, bin, index.end);
  assertRowCount(index, 'journal_books', bin, fresh.length);
  const { columns, isChanged, observed } = mergeBooks(old, fresh, createBookObservedAtLookup(archive.state.db));
  if (isChanged) stageFile(archive, stage, encodeBookFile(path, bin.day, columns, archive.groupRows));
  return observed;
}
