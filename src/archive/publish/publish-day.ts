import { DamageError } from '../../base/errors.ts';
import { finishInOrder } from '../../base/for-each-concurrent.ts';
import { isSymbolOf } from '../../base/source-name.ts';
import { formatDay } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import type { LostWindow } from '../format/coverage.ts';
import type { CandleInterval } from '../format/datasets.ts';
import { type DayPart, type DayPartLookup, sortParts } from '../format/day-parts.ts';
import { toDayPath } from '../format/layout.ts';
import { findFileWithRows } from '../format/manifest.ts';
import { type BookObservation, emptyBooks, mergeBooks } from '../format/order-book.ts';
import type { Conflict } from '../format/tick-columns.ts';
import {
  flattenWithdrawals,
  listPartWithdrawals,
  overlayWithdrawals,
  type PublishedWithdrawal,
} from '../format/withdrawals.ts';
import { readPublishedCoverageIn } from '../journal/coverage-store.ts';
import { readLostTicksIn } from '../journal/gap-records.ts';
import { type BookResponse, readBookResponses, readPartBooks } from '../journal/journal-books.ts';
import { assertRowCount, type JournalIndex } from '../journal/journal-check.ts';
import { createBookObservedAtLookup, openDayPrecedence, readPrecedence } from '../journal/precedence-store.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { decodePublished, readPublishedFile } from '../read-published-file.ts';
import {
  applyBookCoverage,
  type DayCoverage,
  readPartConflicts,
  readPartCoverage,
  stageTable,
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
  pickSymbols,
} from './merge-partition.ts';
import type { SeriesCoverage } from './publish-series.ts';
import { hasStagedSeries, readCandleSeries } from './stage-candles.ts';
import { encodeEmptyFile } from './stage-empty-files.ts';
import { type Stage, stageFile } from './staging.ts';
import type { Union } from './union-files.ts';
import { addOtherTables, readOtherLost, readUnionPrecedence, selectNewConflicts, uniteLost } from './unite-parts.ts';

/** The result of merging one part of one day. */
export interface PartResult extends Omit<MergeResult, 'coverage' | 'files'> {
  readonly part: DayPart;
}

export interface DayInput {
  readonly day: number;
  /** The parts with ticks or their coverage. */
  readonly parts: readonly DayPart[];
  /** Order-book responses whose coverage is to be published. */
  readonly answers: readonly BookResponse[];
  /** Coverage of series to publish, by part. Each part whose series were merged is in it. */
  readonly series: ReadonlyMap<number, SeriesCoverage>;
}

interface StageDaysInput {
  readonly days: readonly DayInput[];
  readonly source: TickSource;
  /** Last journal record to publish. */
  readonly end: number;
  readonly intervals: readonly CandleInterval[];
  /** See `PublishOptions.late`. */
  readonly late: readonly LateTickRules[];
  readonly workers: MergeWorkers;
  /** Set if the source is another archive. */
  readonly union?: Union | undefined;
  readonly signal: AbortSignal | undefined;
  onPart(): void;
  /** Called with the conflicts of each part. */
  onConflicts?(conflicts: readonly Conflict[]): void;
}

interface StagedDays {
  readonly results: readonly PartResult[];
  /** Order-book responses whose coverage is staged. */
  readonly answers: readonly BookResponse[];
  /** One message per part that was skipped because its published file is damaged. Its input stays journaled. */
  readonly refused: readonly string[];
}

/** What the state knows of a day before the merge. */
interface DayFacts {
  /** For each rule, the coverage from before the run, by symbol. */
  readonly coveredBefore: readonly ReadonlyMap<string, readonly FetchedWindow[]>[];
  readonly lost: ReadonlyMap<string, readonly LostWindow[]>;
}

interface PartInput {
  readonly part: DayPart;
  readonly hasTicks: boolean;
  /** Order-book responses of the symbols of the part. */
  readonly answers: readonly BookResponse[];
  /** Undefined if no series of the part was merged. */
  readonly series: SeriesCoverage | undefined;
}

/** The coverage and conflicts of one part of a day while its ticks are merged. */
interface OpenPart extends PartInput {
  readonly facts: DayFacts;
  readonly coverage: DayCoverage;
  readonly conflicts: Conflict[];
  /** The withdrawals of its symbols that the manifest lists. */
  readonly withdrawn: readonly PublishedWithdrawal[];
  isMerged: boolean;
}

/** Maximum number of staged files that are being synced when the next part begins. */
const openFilesMax = 64;

/**
 * Merges the input of each day into the published files, part by part, and stages the changed files. Results are in the
 * order of the parts. Holds at most `workers.concurrency` parts in memory.
 */
export async function stageDays(archive: Archive, stage: Stage, input: StageDaysInput): Promise<StagedDays> {
  const { workers, signal } = input;
  const outcome = { results: [] as PartResult[], answers: [] as BookResponse[], refused: [] as string[] };
  let isOver = false;

  /** The parts of all days, sorted, without the damaged ones. */
  function* openParts(): Generator<OpenPart> {
    for (const dayInput of input.days) {
      signal?.throwIfAborted();
      const facts = readDayFacts(archive, dayInput.day, input.late);
      for (const partInput of splitDayInput(dayInput, stage.parts)) {
        const part = openPart(archive, stage, partInput, facts, input.union);
        if (!(part instanceof DamageError)) {
          yield part;
          continue;
        }
        // Its series are staged, and their coverage cannot be: the file was intact a moment ago.
        if (partInput.series !== undefined) throw part;
        outcome.refused.push(part.message);
        if (partInput.hasTicks) input.onPart();
      }
    }
  }

  /** Stages a merged part at once, so that its files need not stay in memory until earlier parts are done. */
  async function mergeTicks(part: OpenPart): Promise<MergeSliceResult | undefined> {
    if (!part.hasTicks) return undefined;
    const { files, ...rest } = await startMerge(archive, stage, part, input);
    // An aborted publish may have released the lock, so it must not write any more.
    if (!isOver) for (const file of files) stageFile(archive, stage, file);
    return rest;
  }

  /** Whether series of the part are staged, whose candles cannot be: the files were intact a moment ago. */
  const isBoundToSeries = (part: DayPart): boolean => input.intervals.length > 0 && hasStagedSeries(stage, part);

  async function finishPart(
    part: OpenPart,
    settled: PromiseSettledResult<MergeSliceResult | undefined>,
  ): Promise<void> {
    if (settled.status === 'rejected') {
      if (!(settled.reason instanceof DamageError) || isBoundToSeries(part.part)) throw settled.reason;
      outcome.refused.push(settled.reason.message);
    } else if (settled.value !== undefined) {
      input.onConflicts?.(settled.value.merged.conflicts);
      outcome.results.push(addPartResult(part, settled.value, input.union));
    }
    if (part.hasTicks) input.onPart();
    stagePartTables(archive, stage, part);
    for (const response of part.answers) outcome.answers.push(response);
    // Yield to other work.
    await new Promise((resolve) => setImmediate(resolve));
    signal?.throwIfAborted();
    await stage.writes?.wait(openFilesMax);
  }

  try {
    await finishInOrder(workers.concurrency, openParts(), mergeTicks, finishPart);
  } finally {
    isOver = true;
  }
  return outcome;
}

/** Splits the input of a day by part, sorted. */
function splitDayInput({ day, parts, answers, series }: DayInput, lookup: DayPartLookup): PartInput[] {
  const byPart = Map.groupBy(answers, ({ symbol }) => lookup.find(day, symbol)!.part);
  const withTicks = new Set(parts.map(({ part }) => part));
  const all = lookup.list(day).filter(({ part }) => withTicks.has(part) || byPart.has(part) || series.has(part));
  return sortParts(all).map((part) => ({
    part,
    hasTicks: withTicks.has(part.part),
    answers: byPart.get(part.part) ?? [],
    series: series.get(part.part),
  }));
}

function readDayFacts(archive: Archive, day: number, lateRules: readonly LateTickRules[]): DayFacts {
  const { db } = archive.state;
  const window = { from: day, to: day + dayMs };
  const coverage = lateRules.length === 0 ? [] : [...readPublishedCoverageIn(db, window)];
  const coveredBefore = lateRules.map((rules) => selectCoveredBefore(coverage, rules));
  return { coveredBefore, lost: readLostTicksIn(db, window) };
}

/** Reads the published coverage and conflicts of a part. Returns the error if a file is damaged. */
function openPart(
  archive: Archive,
  stage: Stage,
  input: PartInput,
  facts: DayFacts,
  union: Union | undefined,
): OpenPart | DamageError {
  const { part } = input;
  try {
    const coverage = readPartCoverage(archive, stage.base, part);
    const conflicts = readPartConflicts(archive, stage.base, part);
    const withdrawn = listPartWithdrawals(union?.withdrawn ?? stage.base.datasets.coverage.withdrawn, part);
    if (union !== undefined) addOtherTables(union, part, { coverage, conflicts });
    return { ...input, facts, coverage, conflicts, withdrawn, isMerged: false };
  } catch (error) {
    if (error instanceof DamageError) return error;
    throw error;
  }
}

async function startMerge(
  archive: Archive,
  stage: Stage,
  { part, coverage, withdrawn: listedBefore, facts: { coveredBefore, lost } }: OpenPart,
  input: StageDaysInput,
): Promise<MergeResult> {
  const { db } = archive.state;
  const { union } = input;
  const { day } = part;
  const file = findFileWithRows(stage.base, 'ticks', toDayPath('ticks', day, part.part));
  const old = file === undefined ? null : readPublishedFile(archive, file);
  const chunks = input.source.readChunks(part);
  const symbols = chunks.map(({ symbol }) => symbol);
  const withdrawn = input.source.readWithdrawn(part);
  // Those of a union are listed by one of its archives.
  const added = union === undefined ? flattenWithdrawals(withdrawn) : [];
  const listed = overlayWithdrawals([...listedBefore, ...added]);
  const task: MergeTask = {
    day,
    part: part.part,
    old,
    chunks,
    coverage: coverage.ticks,
    answers: input.source.readCoverage(part),
    withdrawn,
    listed: Map.groupBy(listed, ({ symbol }) => symbol!),
    lost: union === undefined ? lost : uniteLost(lost, readOtherLost(union, part)),
    unites: union !== undefined,
    intervals: input.intervals,
    series: input.intervals.length === 0 ? new Map() : readCandleSeries(archive, stage, part),
    groupRows: archive.groupRows,
    late: input.late.map(({ latenessMsMax }, i) => ({
      claimed: pickSymbols(coveredBefore[i]!, symbols),
      latenessMsMax,
    })),
  };
  const published = union && readUnionPrecedence(union, part, 'ticks', coverage, new Set(symbols));
  return input.workers.merge(task, {
    lookup: openDayPrecedence(db, day, published),
    readAll: () => ({ ...readPrecedence(db, day, new Set(symbols)), published }),
  });
}

/** The coverage of a source that was fetched before its run, by symbol. */
const selectCoveredBefore = (
  coverage: readonly (readonly [symbol: string, covered: readonly FetchedWindow[]])[],
  { fetchedBeforeMs, source }: LateTickRules,
): ReadonlyMap<string, readonly FetchedWindow[]> =>
  new Map(
    coverage
      .filter(([symbol]) => isSymbolOf(source, symbol))
      .map(([symbol, covered]) => [
        symbol,
        covered
          .filter(({ fetchedAt }) => fetchedAt < fetchedBeforeMs)
          .map(({ from, to, fetchedAt }) => ({ from, to, fetchedAt })),
      ]),
  );

function addPartResult(part: OpenPart, done: MergeSliceResult, union: Union | undefined): PartResult {
  const { coverage, ...rest } = done;
  const { conflicts } = rest.merged;
  const fresh =
    union === undefined
      ? conflicts
      : selectNewConflicts(union, part.part, 'ticks', conflicts, part.conflicts, part.coverage);
  for (const conflict of fresh) part.conflicts.push(conflict);
  for (const [symbol, windows] of coverage) part.coverage.ticks.set(symbol, [...windows]);
  part.isMerged = true;
  // The conflicts now belong to the part; keeping those of all parts could exceed memory.
  const merged = { ...rest.merged, conflicts: [] };
  return { part: part.part, ...rest, merged };
}

function stagePartTables(
  archive: Archive,
  stage: Stage,
  { part, coverage, conflicts, answers, series, isMerged }: OpenPart,
): void {
  applyBookCoverage(coverage, answers);
  for (const [dataset, bySymbol] of series ?? [])
    for (const [symbol, windows] of bySymbol) coverage[dataset].set(symbol, [...windows]);
  if (!isMerged && answers.length === 0 && series === undefined) return;
  const rows = toCoverageRows(coverage);
  const path = toDayPath('coverage', part.day, part.part);
  // All coverage of the part may have been withdrawn. A reader that has listed the file can still open it.
  if (rows.length === 0 && findFileWithRows(stage.base, 'coverage', path) !== undefined)
    stageFile(archive, stage, encodeEmptyFile({ dataset: 'coverage', path, date: formatDay(part.day) }));
  stageTable(archive, stage, 'coverage', part, rows);
  stageTable(archive, stage, 'conflicts', part, toConflictRows(conflicts));
}

/** The order books that a publish merges. */
interface StagedBooks {
  readonly parts: readonly DayPart[];
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
  const parts: DayPart[] = [];
  const waiting: DayPart[] = [];
  const observed: BookObservation[] = [];
  const refused: string[] = [];
  for (const part of index.parts.get('journal_books')!) {
    signal?.throwIfAborted();
    try {
      for (const observation of stagePartBooks(archive, stage, part, index)) observed.push(observation);
      parts.push(part);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      waiting.push(part);
      refused.push(error.message);
    }
    // Yield to signals and other work between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const responses = Map.groupBy(readBookResponses(db, waiting, index.end), (response) => floorToDay(response.at));
  return { parts, observed, answers: responses, refused };
}

function stagePartBooks(
  archive: Archive,
  stage: Stage,
  part: DayPart,
  index: JournalIndex,
): readonly BookObservation[] {
  const path = toDayPath('orderbooks', part.day, part.part);
  const file = findFileWithRows(stage.base, 'orderbooks', path);
  const old =
    file === undefined ? emptyBooks : decodePublished(file.path, () => decodeBooks(readPublishedFile(archive, file)));
  const fresh = readPartBooks(archive.state.db, part, index.end);
  assertRowCount(index, 'journal_books', part, fresh.length);
  const { columns, isChanged, observed } = mergeBooks(old, fresh, createBookObservedAtLookup(archive.state.db));
  if (isChanged) stageFile(archive, stage, encodeBookFile(path, part.day, columns, archive.groupRows));
  return observed;
}
