import { DamageError } from '../../base/errors.ts';
import { finishInOrder } from '../../base/for-each-concurrent.ts';
import { joinLists } from '../../base/push-to.ts';
import type { Archive } from '../archive.ts';
import type { PublishedCoverage } from '../format/coverage.ts';
import type { CandleInterval } from '../format/datasets.ts';
import { type DayPart, sortParts, toPartKey } from '../format/day-parts.ts';
import { toDayPath } from '../format/layout.ts';
import { findFileWithRows } from '../format/manifest.ts';
import type { SeriesConflict } from '../format/series.ts';
import {
  candleSeries,
  conflictDatasets,
  type SeriesDataset,
  seriesDatasets,
  toFactCells,
} from '../format/series-datasets.ts';
import { compareDropped } from '../format/series-rows.ts';
import type { Database } from '../journal/database.ts';
import { type JournalIndex, listSeriesParts } from '../journal/journal-check.ts';
import { readPartSeries } from '../journal/journal-series.ts';
import { readSeriesPrecedence } from '../journal/precedence-store.ts';
import type { CellValue } from '../parquet/rows.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { readPublishedFile } from '../read-published-file.ts';
import {
  type DayCoverage,
  numberConflicts,
  parseSeriesConflictRows,
  readPartConflicts,
  readPartCoverage,
  readTableRows,
  stageTable,
} from './day-tables.ts';
import type { SeriesInput, SeriesSource } from './import-buffer.ts';
import { type MergeWorkers, pickSymbols } from './merge-partition.ts';
import { listInputSymbols, type SeriesMergeResult, type SeriesMergeTask } from './merge-series-part.ts';
import { hasStagedSeries, stageCandles } from './stage-candles.ts';
import { readNextFile, type Stage, stageFile } from './staging.ts';
import { readOtherConflicts, type Union } from './union-files.ts';
import { readUnionPrecedence, selectNewConflicts } from './unite-parts.ts';

/** The coverage of a part of a day to publish, of the symbols whose rows or windows changed, by series. */
export type SeriesCoverage = ReadonlyMap<SeriesDataset, ReadonlyMap<string, readonly PublishedCoverage[]>>;

/** The rows of series that a publish merges. */
export interface StagedSeries {
  readonly parts: readonly DayPart[];
  /** Coverage to publish, by UTC day and part. Each part with merged rows is in it. */
  readonly coverage: ReadonlyMap<number, ReadonlyMap<number, SeriesCoverage>>;
  readonly outcomes: readonly Pick<SeriesMergeResult, 'dataset' | 'precedence' | 'tallies'>[];
  /** One message per part that was skipped because a published file is damaged. Its input stays journaled. */
  readonly refused: readonly string[];
}

/** A part whose series are merged. */
interface MergedPart {
  readonly results: readonly SeriesMergeResult[];
  readonly tables: SeriesTables;
  /** The ticks that candles are computed from; undefined if there are none. */
  readonly ticks: Uint8Array | undefined;
}

/**
 * Merges series into the published files and stages the changed ones: those of the journal and, of an import, those of
 * `intake`, with the candles that are computed from them. Results are in the order of the parts. Holds the files of at most
 * `workers.concurrency` parts in memory. The coverage is staged with that of the ticks (`publish-day.ts`), because one file
 * holds both.
 */
export async function stageSeries(
  archive: Archive,
  stage: Stage,
  index: JournalIndex,
  intake: SeriesSource | undefined,
  { intervals, tickParts, union }: CandleUpdate,
  workers: MergeWorkers,
  signal: AbortSignal | undefined,
): Promise<StagedSeries> {
  const mergedLater = new Set(tickParts.map(toPartKey));
  const parts: DayPart[] = [];
  const coverage = new Map<number, Map<number, SeriesCoverage>>();
  const outcomes: SeriesMergeResult[] = [];
  const refused: string[] = [];
  let isOver = false;

  /** Stages a merged file at once, so that it need not stay in memory until earlier parts are done. */
  async function merge(task: SeriesMergeTask): Promise<SeriesMergeResult> {
    const result = await workers.mergeSeries(task);
    // An aborted publish may have released the lock, so it must not write any more.
    if (result.file !== null && !isOver) stageFile(archive, stage, result.file);
    return { ...result, file: null };
  }

  function startPart(part: DayPart): Promise<MergedPart> | undefined {
    signal?.throwIfAborted();
    try {
      // All files are read before the first one is merged: a part is published whole or not at all.
      const tables = openSeriesTables(archive, stage, part, union);
      const inputs = readInputs(archive.state.db, part, index, intake);
      const tasks = inputs.map((input) => createMergeTask(archive, stage, tables, part, input, union));
      const ticks = intervals.length === 0 ? undefined : readCandleTicks(archive, stage, part, inputs);
      return Promise.all(tasks.map(merge)).then((results) => ({ results, tables, ticks }));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
      return undefined;
    }
  }

  async function finishPart(part: DayPart, settled: PromiseSettledResult<MergedPart>): Promise<void> {
    // Yield to signals and other work between parts.
    await new Promise((resolve) => setImmediate(resolve));
    signal?.throwIfAborted();
    if (settled.status === 'rejected') throw settled.reason;
    const { results, tables, ticks } = settled.value;
    const { published, conflicts } = tables;
    for (const result of results) {
      outcomes.push(result);
      const { dataset } = result;
      const known = conflicts.get(dataset)!;
      const fresh =
        union === undefined
          ? result.conflicts
          : selectNewConflicts(union, part, dataset, result.conflicts, known, published);
      for (const conflict of fresh) known.push(conflict);
    }
    if (ticks !== undefined && !mergedLater.has(toPartKey(part)) && hasStagedSeries(stage, part))
      stageCandles(archive, stage, intervals, part, decodeTicks(ticks), published.ticks);
    for (const [dataset, ofDataset] of conflicts)
      stageTable(archive, stage, conflictDatasets[dataset], part, toSeriesConflictRows(dataset, ofDataset));
    parts.push(part);
    const ofDay = coverage.get(part.day) ?? new Map<number, SeriesCoverage>();
    coverage.set(part.day, ofDay.set(part.part, collectCoverage(results)));
  }

  try {
    const wanted = sortParts([...listSeriesParts(index), ...(intake?.listParts() ?? [])]);
    await finishInOrder(workers.concurrency, wanted, startPart, finishPart);
  } finally {
    isOver = true;
  }
  return { parts, coverage, outcomes, refused };
}

const collectCoverage = (results: readonly SeriesMergeResult[]): SeriesCoverage => {
  const byDataset = new Map(results.map((result) => [result.dataset, result.coverage]));
  return new Map(seriesDatasets.map((dataset) => [dataset, byDataset.get(dataset) ?? new Map()]));
};

/** How the candles of parts with changed series are kept up to date. */
interface CandleUpdate {
  readonly intervals: readonly CandleInterval[];
  /** The parts whose ticks are merged after the series. Their candles are staged then. */
  readonly tickParts: readonly DayPart[];
  /** Set if the input is another archive. */
  readonly union?: Union | undefined;
}

/**
 * Reads the ticks of a part whose series are about to be merged, and checks the other files of its candles: if one is
 * damaged, the candles could not follow the series. Undefined if there are no ticks.
 * @throws DamageError
 */
function readCandleTicks(
  archive: Archive,
  stage: Stage,
  { day, part }: DayPart,
  inputs: readonly SeriesInput[],
): Uint8Array | undefined {
  const ticks = readNextFile(archive, stage, 'ticks', toDayPath('ticks', day, part));
  for (const dataset of candleSeries)
    if (inputs.every((input) => input.dataset !== dataset))
      readNextFile(archive, stage, dataset, toDayPath(dataset, day, part));
  return ticks;
}

/** @throws JournalDamageError */
function readInputs(db: Database, part: DayPart, index: JournalIndex, intake: SeriesSource | undefined): SeriesInput[] {
  const inputs: SeriesInput[] = [];
  for (const taken of [...readPartSeries(db, part, index), ...(intake?.readPart(part) ?? [])]) {
    const at = inputs.findIndex(({ dataset }) => dataset === taken.dataset);
    if (at < 0) inputs.push(taken);
    else inputs[at] = joinInputs(inputs[at]!, taken);
  }
  return inputs;
}

function joinInputs(a: SeriesInput, b: SeriesInput): SeriesInput {
  return { dataset: a.dataset, chunks: [...a.chunks, ...b.chunks], covered: joinLists([a.covered, b.covered]) };
}

/** The coverage and the conflicts of a part of a day while its series are merged. */
interface SeriesTables {
  readonly published: DayCoverage;
  readonly conflicts: ReadonlyMap<SeriesDataset, SeriesConflict[]>;
}

/** @throws DamageError if a file is damaged: without its coverage, no row of the part is published */
function openSeriesTables(archive: Archive, stage: Stage, part: DayPart, union: Union | undefined): SeriesTables {
  const published = readPartCoverage(archive, stage.base, part);
  // Of ticks: the coverage of the part can only be staged if they can be read.
  readPartConflicts(archive, stage.base, part);
  const conflicts = new Map(
    seriesDatasets.map((dataset) => [
      dataset,
      [
        ...readSeriesConflicts(archive, stage, dataset, part),
        ...(union === undefined ? [] : readOtherConflicts(union, part, dataset)),
      ],
    ]),
  );
  return { published, conflicts };
}

/** The task of merging the input into a series of a part. @throws DamageError if the published file is damaged */
function createMergeTask(
  archive: Archive,
  stage: Stage,
  tables: SeriesTables,
  of: DayPart,
  { dataset, chunks, covered }: SeriesInput,
  union: Union | undefined,
): SeriesMergeTask {
  const { day, part } = of;
  const file = findFileWithRows(stage.base, dataset, toDayPath(dataset, day, part));
  const symbols = listInputSymbols({ chunks, covered });
  return {
    dataset,
    day,
    part,
    old: file === undefined ? null : readPublishedFile(archive, file),
    chunks,
    covered,
    published: pickSymbols(tables.published[dataset], [...symbols]),
    precedence: readSeriesPrecedence(archive.state.db, dataset, day, symbols),
    publishedPrecedence: union && readUnionPrecedence(union, of, dataset, tables.published, symbols),
    unites: union !== undefined,
    groupRows: archive.groupRows,
  };
}

/** Reads the published conflicts of a UTC day and part. @throws DamageError if the file is damaged */
function readSeriesConflicts(archive: Archive, stage: Stage, dataset: SeriesDataset, part: DayPart): SeriesConflict[] {
  return parseSeriesConflictRows(dataset, readTableRows(archive, stage.base, conflictDatasets[dataset], part));
}

const toSeriesConflictRows = (dataset: SeriesDataset, conflicts: readonly SeriesConflict[]): CellValue[][] =>
  numberConflicts(conflicts, compareDropped, (conflict, seq) => {
    const { symbol, t, seenAt } = conflict;
    return [symbol, t, seenAt, seq, ...toFactCells(dataset, conflict.dropped, conflict.droppedTexts)];
  });
