import { DamageError } from '../../base/errors.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import { parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay, type Window } from '../../base/window.ts';
import { type CandleInterval, candleIntervals } from '../format/candles.ts';
import type { LostWindow } from '../format/coverage.ts';
import { candleDatasets } from '../format/datasets.ts';
import { toDayPath } from '../format/layout.ts';
import { findManifestFile, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { type BookObservation, emptyBooks, mergeBooks } from '../format/order-book.ts';
import type { Conflict, PartColumns } from '../format/tick-columns.ts';
import { readSegmentsIn } from '../journal/coverage.ts';
import type { Database } from '../journal/database.ts';
import { readLostTicksIn } from '../journal/gap-records.ts';
import type { JournalBin } from '../journal/journal.ts';
import { type BookResponse, readBookBin, readBookResponses } from '../journal/journal-books.ts';
import { assertRowCount, type JournalIndex } from '../journal/journal-check.ts';
import { createBookObservedAtLookup, openDayPrecedence, readPrecedence } from '../journal/precedence.ts';
import { type Archive, readPublishedFile } from '../open-archive.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import {
  applyBookCoverage,
  type DayCoverage,
  type PublishedCoverage,
  readDayConflicts,
  readDayCoverage,
  stageDayTable,
  toConflictRows,
  toCoverageRows,
} from './day-tables.ts';
import { encodeBookFile, encodeCandleFiles } from './encode-partition.ts';
import type { TickSource } from './import-buffer.ts';
import type { FetchedWindow, LateTickRules } from './late-ticks.ts';
import type { MergeResult, MergeSliceResult, MergeTask, MergeWorkers, PartitionPrecedence } from './merge-partition.ts';
import { type Stage, stageFile, stageRemoval } from './staging.ts';

/** What one part of one day took in. */
export interface BinResult extends Omit<MergeResult, 'coverage' | 'files'> {
  readonly bin: JournalBin;
}

/** What is to be taken in of one UTC day. */
export interface DayInput {
  readonly day: number;
  readonly bins: readonly JournalBin[];
  /** Answers of the order-book route that are to be covered. */
  readonly answers: readonly BookResponse[];
}

export interface StageDaysInput {
  readonly days: readonly DayInput[];
  readonly source: TickSource;
  /** The last record of the journal that counts. */
  readonly end: number;
  readonly intervals: readonly CandleInterval[];
  /** See PublishOptions. */
  readonly late: LateTickRules | undefined;
  readonly workers: MergeWorkers;
  readonly signal: AbortSignal | undefined;
  /** Told of each part that is done. */
  onPart(): void;
}

export interface StagedDays {
  readonly bins: readonly BinResult[];
  /** The answers of the order-book route that are covered now. */
  readonly answers: readonly BookResponse[];
  /** Why parts were refused: what is published there is damaged. What was for them is kept. */
  readonly refused: readonly string[];
}

/** What is published of a day beside its parts, as it will be. */
interface OpenDay {
  readonly input: DayInput;
  readonly coverage: DayCoverage;
  readonly conflicts: Conflict[];
  /** The coverage that was published, by part. */
  readonly coverageByPart: ReadonlyMap<number, readonly (readonly [string, readonly PublishedCoverage[]])[]>;
  /** What had been covered before the run, by symbol, where late ticks are to be counted. */
  readonly coveredBefore: ReadonlyMap<string, readonly FetchedWindow[]>;
  readonly lost: ReadonlyMap<string, readonly LostWindow[]>;
  mergedBins: number;
}

/** A part under way, or the end of a day, in the order in which they are staged. */
type PendingStep =
  | { readonly day: OpenDay; readonly bin: JournalBin; readonly done: Promise<MergeSettlement> }
  | { readonly day: OpenDay };
type MergeSettlement = { readonly done: MergeSliceResult } | { readonly error: unknown };

/**
 * Merges what comes to each day with what is published, part by part, and stages what changed; outcomes are in the order
 * of parts.
 * Holds as many parts as the workers take at once.
 */
export async function stageDays(archive: Archive, stage: Stage, input: StageDaysInput): Promise<StagedDays> {
  const { workers, signal } = input;
  const outcome = { bins: [] as BinResult[], answers: [] as BookResponse[], refused: [] as string[] };
  const pending: PendingStep[] = [];
  let under = 0;
  let over = false;

  async function next(): Promise<void> {
    const first = pending.shift()!;
    if (!('bin' in first)) {
      stageDayTables(archive, stage, first.day);
      for (const answer of first.day.input.answers) outcome.answers.push(answer);
      await turn();
      return;
    }
    const { day, bin } = first;
    const settled = await first.done;
    under--;
    if ('done' in settled) {
      day.mergedBins++;
      outcome.bins.push(addBinResult(day, bin, settled.done));
    } else if (settled.error instanceof DamageError) outcome.refused.push(settled.error.message);
    else throw settled.error;
    input.onPart();
    await turn();
  }

  /** Signals and other work get theirs. */
  async function turn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    signal?.throwIfAborted();
  }

  /** Whoever is done is staged at once: his files would wait in memory else until the parts before them are done. */
  function stageNow({ files, ...rest }: MergeResult): MergeSliceResult {
    // A publish that was given up may have released the lock: nothing is written any more.
    if (!over) for (const file of files) stageFile(archive, stage, file);
    return rest;
  }

  async function all(): Promise<void> {
    for (const ofDay of input.days) {
      signal?.throwIfAborted();
      const day = openDay(archive, stage, ofDay, input.late);
      if (day instanceof DamageError) {
        outcome.refused.push(day.message);
        continue;
      }
      for (const bin of ofDay.bins) {
        while (under >= workers.concurrency) await next();
        const done = startMerge(archive, stage, day, bin, input)
          .then(stageNow)
          .then(
            (result) => ({ done: result }),
            (error: unknown) => ({ error }),
          );
        pending.push({ day, bin, done });
        under++;
      }
      pending.push({ day });
      // Days of order books alone wait for nothing.
      while (pending.length > 0 && !('bin' in pending[0]!)) await next();
    }
    while (pending.length > 0) await next();
  }

  try {
    await all();
  } finally {
    over = true;
  }
  return outcome;
}

/** What is published of a day; the error where that is damaged. */
function openDay(
  archive: Archive,
  stage: Stage,
  input: DayInput,
  late: LateTickRules | undefined,
): OpenDay | DamageError {
  const { day } = input;
  try {
    const coverage = readDayCoverage(archive, stage.base, day);
    const conflicts = readDayConflicts(archive, stage.base, day);
    const { db, identity } = archive.state;
    const claimed =
      late === undefined ? new Map() : readCoveredBefore(db, { from: day, to: day + dayMs }, late.fetchedBeforeMs);
    const byPart = Map.groupBy(coverage.ticks, ([symbol]) => computePartNumber(symbol, identity.parts));
    const lost = readLostTicksIn(db, { from: day, to: day + dayMs });
    return { input, coverage, conflicts, coverageByPart: byPart, coveredBefore: claimed, lost, mergedBins: 0 };
  } catch (error) {
    if (error instanceof DamageError) return error;
    throw error;
  }
}

async function startMerge(
  archive: Archive,
  stage: Stage,
  of: OpenDay,
  bin: JournalBin,
  input: StageDaysInput,
): Promise<MergeResult> {
  const { db } = archive.state;
  const { day, part } = bin;
  const file = findManifestFile(stage.base, 'ticks', toDayPath('ticks', day, part));
  const old = file === undefined ? null : readPublishedFile(archive, file);
  const chunks = input.source.readChunks(bin);
  const coverage = new Map<string, readonly PublishedCoverage[]>(of.coverageByPart.get(part) ?? []);
  const task: MergeTask = {
    day,
    part,
    old,
    chunks,
    coverage,
    answers: input.source.readCoverage(bin),
    withdrawn: input.source.readWithdrawn(bin),
    lost: of.lost,
    intervals: input.intervals,
    groupRows: archive.groupRows,
    claimed: pickChunkSymbols(chunks, of.coveredBefore),
    latenessMsMax: input.late?.latenessMsMax ?? 0,
  };
  const standings: PartitionPrecedence = {
    lookup: openDayPrecedence(db, day),
    readAll: () => readPrecedence(db, day, new Set(chunks.map(({ symbol }) => symbol))),
  };
  return input.workers.merge(task, standings);
}

/** The same of the symbols that something comes for. */
const pickChunkSymbols = (
  chunks: readonly { readonly symbol: string }[],
  claimed: OpenDay['coveredBefore'],
): ReadonlyMap<string, readonly FetchedWindow[]> =>
  new Map(chunks.flatMap(({ symbol }) => (claimed.has(symbol) ? [[symbol, claimed.get(symbol)!] as const] : [])));

/** What is published as covered of a window and was fetched before a moment, by symbol. */
const readCoveredBefore = (
  db: Database,
  window: Window,
  beforeMs: number,
): ReadonlyMap<string, readonly FetchedWindow[]> =>
  new Map(
    [...readSegmentsIn(db, window)].map(([symbol, covered]) => [
      symbol,
      covered
        .filter(({ fetchedAt }) => fetchedAt < beforeMs)
        .map(({ from, to, fetchedAt }) => ({ from, to, fetchedAt })),
    ]),
  );

function addBinResult(of: OpenDay, bin: JournalBin, done: MergeSliceResult): BinResult {
  const { coverage, ...rest } = done;
  for (const conflict of rest.merged.conflicts) of.conflicts.push(conflict);
  for (const [symbol, stretches] of coverage) of.coverage.ticks.set(symbol, [...stretches]);
  // They are the day's now: of all days together there may be more than memory holds.
  const merged = { ...rest.merged, conflicts: [] };
  return { bin, ...rest, merged };
}

/** Stages what a day has one file of. */
function stageDayTables(archive: Archive, stage: Stage, { input, coverage, conflicts, mergedBins }: OpenDay): void {
  applyBookCoverage(coverage, input.answers);
  if (mergedBins + input.answers.length === 0) return;
  const rows = toCoverageRows(coverage);
  const path = toDayPath('coverage', input.day, 0);
  // All that was covered of the day may have been withdrawn.
  if (rows.length === 0 && findManifestFile(stage.base, 'coverage', path) !== undefined) stageRemoval(stage, path);
  stageDayTable(archive, stage, 'coverage', input.day, rows);
  stageDayTable(archive, stage, 'conflicts', input.day, toConflictRows(conflicts));
}

/** What a publish takes in of order books. */
export interface StagedBooks {
  readonly bins: readonly JournalBin[];
  /** When the snapshots that are in the parts now were observed. */
  readonly observed: readonly BookObservation[];
  /** Answers whose snapshots are all taken in, by the UTC day of the answer: their coverage is to be published. */
  readonly answers: ReadonlyMap<number, readonly BookResponse[]>;
  /** Why parts were refused: what is published there is damaged. Their journal is kept. */
  readonly refused: readonly string[];
}

/** Merges the journal's order books with what is published and stages what changed. Holds one part in memory. */
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
      for (const one of stageBookBin(archive, stage, bin, index)) observed.push(one);
      bins.push(bin);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
    // Signals and other work get their turn between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const answers = Map.groupBy(readBookResponses(db, bins, index.end), (answer) => floorToDay(answer.at));
  return { bins, observed, answers, refused };
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

/**
 * The intervals that a publish keeps candles of: those asked for, and those that the archive has files of already, so
 * that no candles ever stand beside newer ticks.
 */
export const listCandleIntervals = (base: Manifest, asked: readonly CandleInterval[]): CandleInterval[] =>
  (Object.keys(candleIntervals) as CandleInterval[]).filter(
    (interval) => asked.includes(interval) || base.datasets[candleDatasets[interval]].files.length > 0,
  );

/** Stages the candles of one part's ticks; a file whose bytes are published already is left as it is. */
export function stageCandles(
  archive: Archive,
  stage: Stage,
  intervals: readonly CandleInterval[],
  bin: { readonly day: number; readonly part: number },
  columns: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
): void {
  for (const file of encodeCandleFiles(bin, columns, coverage, intervals, archive.groupRows))
    stageFile(archive, stage, file);
}

export interface StageCandlesOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/**
 * Stages the candles that published ticks lack: of an archive from before there were candles, or of an interval that
 * is asked for since. Parts that the stage holds ticks or candles of are its own business. Holds one part in memory.
 * Returns why parts were left out: what is published there is damaged.
 */
export async function stageMissingCandles(
  archive: Archive,
  stage: Stage,
  intervals: readonly CandleInterval[],
  { signal, onProgress }: StageCandlesOptions = {},
): Promise<string[]> {
  const lacking = findMissingCandles(stage, intervals);
  const refused = new Set<string>();
  let done = 0;
  let of: { readonly day: number; readonly coverage: DayCoverage['ticks'] } | undefined;
  for (const { file, missing } of lacking) {
    signal?.throwIfAborted();
    try {
      const day = parseDayStart(file.date!);
      if (of?.day !== day) of = { day, coverage: readDayCoverage(archive, stage.base, day).ticks };
      const columns = decodeTicks(readPublishedFile(archive, file));
      stageCandles(archive, stage, missing, { day, part: parsePartNumber(file.path) }, columns, of.coverage);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.add(error.message);
    }
    onProgress?.(++done, lacking.length);
    // Signals and other work get their turn between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return [...refused];
}

interface MissingCandleFiles {
  readonly file: PublishedFile;
  readonly missing: readonly CandleInterval[];
}

function findMissingCandles({ base, stagedFiles }: Stage, intervals: readonly CandleInterval[]): MissingCandleFiles[] {
  const there = new Set(intervals.flatMap((i) => base.datasets[candleDatasets[i]].files.map((file) => file.path)));
  return base.datasets.ticks.files.flatMap((file) => {
    const missing = intervals.filter((interval) => {
      const path = `${candleDatasets[interval]}${file.path.slice('ticks'.length)}`;
      return !there.has(path) && !stagedFiles.has(path);
    });
    return missing.length === 0 ? [] : [{ file, missing }];
  });
}

const parsePartNumber = (path: string): number => Number(/part-(\d+)\.parquet$/.exec(path)![1]);
