import { DamageError } from '../../base/errors.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import type { CandleInterval } from '../format/candles.ts';
import {
  type CoveredWindow,
  countCoverageTicks,
  joinForPublishing,
  overlayCoverage,
  type PublishedCoverage,
} from '../format/coverage.ts';
import { toDayPath } from '../format/layout.ts';
import { findFileWithRows } from '../format/manifest.ts';
import { mergeSeries } from '../format/merge-series.ts';
import type { KnownPrecedence, PrecedenceWindow } from '../format/precedence.ts';
import {
  createEmptySeries,
  type SeriesChunk,
  type SeriesColumns,
  type SeriesConflict,
  splitSeries,
} from '../format/series.ts';
import {
  candleSeries,
  conflictDatasets,
  listFactColumns,
  type SeriesDataset,
  seriesDatasets,
} from '../format/series-datasets.ts';
import { compareDropped } from '../format/series-rows.ts';
import { addTallies, noTicks, type RunTally } from '../format/tick-columns.ts';
import type { Database } from '../journal/database.ts';
import type { JournalBin } from '../journal/journal.ts';
import { type JournalIndex, listSeriesBins } from '../journal/journal-check.ts';
import { type JournaledSeries, readSeriesBin } from '../journal/journal-series.ts';
import { openSeriesPrecedence } from '../journal/precedence-store.ts';
import type { Archive } from '../open-archive.ts';
import type { CellValue } from '../parquet/rows.ts';
import { decodeSeries } from '../parquet/series-file.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { readPublishedFile } from '../read-published-file.ts';
import { getStagePartCounts, groupByDayPart } from './day-part-choice.ts';
import { type DayCoverage, readPartConflicts, readPartCoverage, readTableRows, stageTable } from './day-tables.ts';
import { type EncodedFile, openSeriesPartitionWriter } from './encode-partition.ts';
import { countSeriesRows, loadSpilledSeries, type SeriesIntake, type SpilledSeriesChunk } from './series-intake.ts';
import { openSpillReader } from './spill-file.ts';
import { hasStagedSeries, stageCandles } from './stage-candles.ts';
import { readNextFile, type Stage, stageFile } from './staging.ts';

/** The coverage of a part of a day to publish, of the symbols whose rows or windows changed, by series. */
export type SeriesCoverage = ReadonlyMap<SeriesDataset, ReadonlyMap<string, readonly PublishedCoverage[]>>;

/** What a publish changes in a series, besides its files. */
interface SeriesOutcome {
  readonly dataset: SeriesDataset;
  readonly precedence: readonly PrecedenceWindow[];
  readonly tallies: ReadonlyMap<string, RunTally>;
}

/** The rows of series that a publish merges. */
export interface StagedSeries {
  /** Bins of the journal and of the intake. */
  readonly bins: readonly JournalBin[];
  /** Coverage to publish, by UTC day and part. Each part with merged rows is in it. */
  readonly coverage: ReadonlyMap<number, ReadonlyMap<number, SeriesCoverage>>;
  readonly outcomes: readonly SeriesOutcome[];
  /** One message per part that was skipped because a published file is damaged. Its input stays journaled. */
  readonly refused: readonly string[];
}

/**
 * Merges series into the published files and stages the changed ones: those of the journal and, of an import, those of
 * `intake`, with the candles that are computed from them. Holds the published files of one part in memory. The coverage
 * is staged with that of the ticks (`publish-day.ts`), because one file holds both.
 */
export async function stageSeries(
  archive: Archive,
  stage: Stage,
  index: JournalIndex,
  intake: SeriesIntake | undefined,
  { intervals, tickBins }: CandleUpdate,
  signal: AbortSignal | undefined,
): Promise<StagedSeries> {
  const mergedLater = new Set(tickBins.map(toBinKey));
  const bins: JournalBin[] = [];
  const coverage = new Map<number, Map<number, SeriesCoverage>>();
  const outcomes: SeriesOutcome[] = [];
  const refused: string[] = [];
  for (const { bin, journalBins } of groupByDayPart(getStagePartCounts(stage), listInputBins(index, intake))) {
    signal?.throwIfAborted();
    try {
      // All files are read before the first one is merged: a bin is published whole or not at all.
      const opened = openSeriesTables(archive, stage, bin);
      const inputs = readInputs(archive.state.db, journalBins, index, intake).map((input) => ({
        ...input,
        old: readSeriesPart(archive, stage, input.dataset, bin),
      }));
      const ticks = intervals.length === 0 ? undefined : readCandleTicks(archive, stage, bin, inputs);
      for (const input of inputs) outcomes.push(stageSeriesBin(archive, stage, opened, bin, input));
      if (ticks !== undefined && !mergedLater.has(toBinKey(bin)) && hasStagedSeries(stage, bin))
        stageCandles(archive, stage, intervals, bin, decodeTicks(ticks), opened.published.ticks);
      for (const [dataset, conflicts] of opened.conflicts)
        stageTable(archive, stage, conflictDatasets[dataset], bin, toSeriesConflictRows(dataset, conflicts));
      for (const one of journalBins) bins.push(one);
      const ofDay = coverage.get(bin.day) ?? new Map<number, SeriesCoverage>();
      coverage.set(bin.day, ofDay.set(bin.part, opened.changed));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
    // Yield to signals and other work between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { bins, coverage, outcomes, refused };
}

/** How the candles of parts with changed series are kept up to date. */
interface CandleUpdate {
  readonly intervals: readonly CandleInterval[];
  /** The parts whose ticks are merged after the series. Their candles are staged then. */
  readonly tickBins: readonly JournalBin[];
}

const toBinKey = ({ day, part }: JournalBin): string => `${day} ${part}`;

/**
 * Reads the ticks of a part whose series are about to be merged, and checks the other files of its candles: if one is
 * damaged, the candles could not follow the series. Undefined if there are no ticks.
 * @throws DamageError
 */
function readCandleTicks(
  archive: Archive,
  stage: Stage,
  { day, part }: JournalBin,
  inputs: readonly SeriesInput[],
): Uint8Array | undefined {
  const ticks = readNextFile(archive, stage, 'ticks', toDayPath('ticks', day, part));
  for (const dataset of candleSeries)
    if (inputs.every((input) => input.dataset !== dataset))
      readNextFile(archive, stage, dataset, toDayPath(dataset, day, part));
  return ticks;
}

/** The (day, part) pairs of the journal and of the intake, sorted. */
function listInputBins(index: JournalIndex, intake: SeriesIntake | undefined): JournalBin[] {
  const bins = [...listSeriesBins(index), ...(intake?.listBins() ?? [])];
  const byKey = new Map(bins.map(({ day, part }) => [toBinKey({ day, part }), { day, part }]));
  return [...byKey.values()].sort((a, b) => a.day - b.day || a.part - b.part);
}

/** The rows and coverage to merge into one part of one series. */
interface SeriesInput extends Omit<JournaledSeries, 'chunks'> {
  readonly chunks: readonly (SeriesChunk | SpilledSeriesChunk)[];
}

/** @throws JournalDamageError */
function readInputs(
  db: Database,
  bins: readonly JournalBin[],
  index: JournalIndex,
  intake: SeriesIntake | undefined,
): SeriesInput[] {
  const inputs: SeriesInput[] = [];
  for (const bin of bins) {
    for (const taken of [...readSeriesBin(db, bin, index), ...(intake?.readBin(bin) ?? [])]) {
      const at = inputs.findIndex(({ dataset }) => dataset === taken.dataset);
      if (at < 0) inputs.push(taken);
      else inputs[at] = joinInputs(inputs[at]!, taken);
    }
  }
  return inputs;
}

function joinInputs(a: SeriesInput, b: SeriesInput): SeriesInput {
  const covered = new Map(a.covered);
  for (const [symbol, windows] of b.covered) covered.set(symbol, [...(covered.get(symbol) ?? []), ...windows]);
  return { dataset: a.dataset, chunks: [...a.chunks, ...b.chunks], covered };
}

/** The coverage and the conflicts of a part of a day while its series are merged. */
interface SeriesTables {
  readonly published: DayCoverage;
  readonly conflicts: ReadonlyMap<SeriesDataset, SeriesConflict[]>;
  readonly changed: ReadonlyMap<SeriesDataset, Map<string, readonly PublishedCoverage[]>>;
}

/** @throws DamageError if a file is damaged: without its coverage, no row of the part is published */
function openSeriesTables(archive: Archive, stage: Stage, bin: JournalBin): SeriesTables {
  const published = readPartCoverage(archive, stage.base, bin);
  // Of ticks: the coverage of the part can only be staged if they can be read.
  readPartConflicts(archive, stage.base, bin);
  const conflicts = new Map(
    seriesDatasets.map((dataset) => [dataset, readSeriesConflicts(archive, stage, dataset, bin)]),
  );
  return { published, conflicts, changed: new Map(seriesDatasets.map((dataset) => [dataset, new Map()])) };
}

/** Maximum rows per slice, old and new together. A single symbol may have more. */
const sliceRowsMax = 300_000;

/** Reads the published rows of a part. @throws DamageError if the file is damaged */
function readSeriesPart(archive: Archive, stage: Stage, dataset: SeriesDataset, bin: JournalBin): SeriesColumns {
  const file = findFileWithRows(stage.base, dataset, toDayPath(dataset, bin.day, bin.part));
  return file === undefined ? createEmptySeries(dataset) : decodeSeries(dataset, readPublishedFile(archive, file));
}

function stageSeriesBin(
  archive: Archive,
  stage: Stage,
  tables: SeriesTables,
  bin: JournalBin,
  { dataset, chunks, covered, old }: SeriesInput & { readonly old: SeriesColumns },
): SeriesOutcome {
  const published = tables.published[dataset];
  const known = openSeriesPrecedence(archive.state.db, dataset, bin.day, published);
  const isCovered = (symbol: string): boolean => published.has(symbol) || covered.has(symbol);
  const merged = mergeSeriesPart(dataset, bin, old, chunks, known, isCovered, archive.groupRows);
  if (merged.isChanged) stageFile(archive, stage, merged.file!);
  const changed = tables.changed.get(dataset)!;
  for (const symbol of new Set([...covered.keys(), ...chunks.map((chunk) => chunk.symbol)])) {
    const before = published.get(symbol) ?? [];
    const windows = joinForPublishing(overlayCoverage([...before.map(toCovered), ...(covered.get(symbol) ?? [])]));
    if (windows.length > 0) changed.set(symbol, countCoverageTicks(windows, merged.getTimes(symbol)));
  }
  for (const conflict of merged.conflicts) tables.conflicts.get(dataset)!.push(conflict);
  return { dataset, precedence: merged.precedence, tallies: merged.tallies };
}

const toCovered = ({ from, to, fetchedAt, origin, evidence }: PublishedCoverage): CoveredWindow => ({
  from,
  to,
  fetchedAt,
  origin,
  evidence,
});

interface MergedSeriesPart {
  readonly isChanged: boolean;
  /** Undefined if there are no rows. */
  readonly file: EncodedFile | undefined;
  readonly conflicts: readonly SeriesConflict[];
  readonly precedence: readonly PrecedenceWindow[];
  readonly tallies: ReadonlyMap<string, RunTally>;
  /** The times of a covered symbol's rows, sorted. */
  getTimes(symbol: string): Float64Array;
}

/** Merges a part one slice of symbols at a time, to bound memory. The result does not depend on how it is sliced. */
function mergeSeriesPart(
  dataset: SeriesDataset,
  bin: JournalBin,
  old: SeriesColumns,
  chunks: readonly (SeriesChunk | SpilledSeriesChunk)[],
  known: KnownPrecedence,
  isCovered: (symbol: string) => boolean,
  groupRows: number,
): MergedSeriesPart {
  const writer = openSeriesPartitionWriter(dataset, bin, groupRows);
  const conflicts: SeriesConflict[] = [];
  const precedence: PrecedenceWindow[] = [];
  const tallies = new Map<string, RunTally>();
  const times = new Map<string, Float64Array>();
  let isChanged = false;
  const spills = openSpillReader();
  try {
    for (const slice of splitSeries(old, chunks, sliceRowsMax, countSeriesRows)) {
      const merged = mergeSeries(dataset, slice.old, loadSpilledSeries(slice.chunks, spills), known);
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
  } finally {
    spills.close();
  }
  return {
    isChanged,
    file: isChanged ? writer.finish() : undefined,
    conflicts,
    precedence,
    tallies,
    getTimes: (symbol) => times.get(symbol) ?? new Float64Array(0),
  };
}

/** Reads the published conflicts of a UTC day and part. @throws DamageError if the file is damaged */
function readSeriesConflicts(
  archive: Archive,
  stage: Stage,
  dataset: SeriesDataset,
  bin: JournalBin,
): SeriesConflict[] {
  const columns = listFactColumns(dataset);
  return readTableRows(archive, stage.base, conflictDatasets[dataset], bin).map((row) => {
    const [symbol, t, seenAt] = row as [string, number, number];
    const cells = columns.map(({ type }, c) => ({ isText: type === 'string', cell: row[4 + c] ?? null }));
    return {
      symbol,
      t,
      seenAt,
      dropped: cells.filter(({ isText }) => !isText).map(({ cell }) => (cell === null ? Number.NaN : Number(cell))),
      droppedTexts: cells.filter(({ isText }) => isText).map(({ cell }) => cell as string | null),
    };
  });
}

/** Conflict rows sorted by key. Equal rows of one symbol, t and seen_at are one; they are numbered in their order. */
export function toSeriesConflictRows(dataset: SeriesDataset, conflicts: readonly SeriesConflict[]): CellValue[][] {
  const sorted = [...conflicts].sort((a, b) => compareConflictKeys(a, b) || compareDropped(a, b));
  const rows: CellValue[][] = [];
  let previous: SeriesConflict | undefined;
  let seq = 0;
  for (const conflict of sorted) {
    const isSameKey = previous !== undefined && compareConflictKeys(previous, conflict) === 0;
    if (isSameKey && compareDropped(previous!, conflict) === 0) continue;
    seq = isSameKey ? seq + 1 : 0;
    const { symbol, t, seenAt } = conflict;
    rows.push([symbol, t, seenAt, seq, ...toCells(dataset, conflict)]);
    previous = conflict;
  }
  return rows;
}

/** The numbers and texts of a dropped row, in file order. */
function toCells(dataset: SeriesDataset, { dropped, droppedTexts }: SeriesConflict): CellValue[] {
  let number = 0;
  let text = 0;
  return listFactColumns(dataset).map(({ type }) => {
    if (type === 'string') return droppedTexts[text++]!;
    const value = dropped[number++]!;
    if (Number.isNaN(value)) return null;
    return type === 'boolean' ? value !== 0 : value;
  });
}

const compareConflictKeys = (a: SeriesConflict, b: SeriesConflict): number =>
  compareUtf8(a.symbol, b.symbol) || a.t - b.t || a.seenAt - b.seenAt;
