import { DamageError } from '../../base/errors.ts';
import { parseDayStart } from '../../base/time.ts';
import type { Window } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { candleIntervals } from '../format/candles.ts';
import { type CandleInterval, candleDatasets } from '../format/datasets.ts';
import type { PartKey } from '../format/day-parts.ts';
import { parsePartNumber, toDayPath } from '../format/layout.ts';
import { listFilesWithRows, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { candleSeries, type SeriesDataset } from '../format/series-datasets.ts';
import type { PartColumns } from '../format/tick-columns.ts';
import { readPublishedTicks } from './count-ticks.ts';
import { readPartCoverage } from './day-tables.ts';
import { type CandleSeriesFiles, decodeCandleSeries, encodeCandleFiles } from './encode-partition.ts';
import { readNextFile, type Stage, stageFile } from './staging.ts';

// A file of candles always equals the result computed from the ticks, the coverage and the series of its day and part.
// Code that stages one of these stages the candles too.

/**
 * The candle intervals that a publish updates: those requested, and those for which the archive already has files, so
 * that candles are never older than their ticks.
 */
export const listCandleIntervals = (base: Manifest, requested: readonly CandleInterval[]): CandleInterval[] =>
  (Object.keys(candleIntervals) as CandleInterval[]).filter(
    (interval) => requested.includes(interval) || listFilesWithRows(base, candleDatasets[interval]).length > 0,
  );

/** Whether a publish has staged series of a part that its candles are computed from. */
export const hasStagedSeries = ({ stagedFiles }: Stage, { day, part }: PartKey): boolean =>
  candleSeries.some((dataset) => stagedFiles.has(toDayPath(dataset, day, part)));

/**
 * Reads the series that the candles of a part are computed from, as of the next generation. Reads nothing in an archive
 * without series.
 * @throws DamageError if a published file is missing or differs
 */
export function readCandleSeries(archive: Archive, stage: Stage, { day, part }: PartKey): CandleSeriesFiles {
  const files = new Map<SeriesDataset, Uint8Array>();
  for (const dataset of candleSeries) {
    const bytes = readNextFile(archive, stage, dataset, toDayPath(dataset, day, part));
    if (bytes !== undefined) files.set(dataset, bytes);
  }
  return files;
}

/**
 * Stages the candle files of one part, which has these ticks and this coverage in the next generation. A file that is
 * already published with the same bytes is not rewritten. Stages nothing without ticks.
 * @throws DamageError if a published series of the part is missing or differs
 */
export function stageCandles(
  archive: Archive,
  stage: Stage,
  intervals: readonly CandleInterval[],
  bin: PartKey,
  columns: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
): void {
  if (intervals.length === 0 || columns.t.length === 0) return;
  const series = decodeCandleSeries(readCandleSeries(archive, stage, bin));
  for (const file of encodeCandleFiles(bin, columns, coverage, series, intervals, archive.groupRows))
    stageFile(archive, stage, file);
}

interface StageCandlesOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/**
 * Stages missing candle files for published ticks: of an archive that predates candles, or of an interval that was
 * enabled later. Skips candle files that are already staged. Holds one part in memory.
 * @returns one message per part that was skipped because its published file is damaged
 */
export async function stageMissingCandles(
  archive: Archive,
  stage: Stage,
  intervals: readonly CandleInterval[],
  { signal, onProgress }: StageCandlesOptions = {},
): Promise<string[]> {
  const filesWithMissing = findMissingCandles(stage, intervals);
  const refused = new Set<string>();
  let done = 0;
  for (const { file, missing } of filesWithMissing) {
    signal?.throwIfAborted();
    try {
      const bin = { day: parseDayStart(file.date!), part: parsePartNumber(file.path) };
      const coverage = readPartCoverage(archive, stage.base, bin).ticks;
      stageCandles(archive, stage, missing, bin, readPublishedTicks(archive, file), coverage);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.add(error.message);
    }
    onProgress?.(++done, filesWithMissing.length);
    // Yield to signals and other work between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return [...refused];
}

interface MissingCandleFiles {
  readonly file: PublishedFile;
  readonly missing: readonly CandleInterval[];
}

function findMissingCandles({ base, stagedFiles }: Stage, intervals: readonly CandleInterval[]): MissingCandleFiles[] {
  const publishedPaths = new Set(
    intervals.flatMap((i) => listFilesWithRows(base, candleDatasets[i]).map((file) => file.path)),
  );
  return listFilesWithRows(base, 'ticks').flatMap((file) => {
    const missing = intervals.filter((interval) => {
      const path = `${candleDatasets[interval]}${file.path.slice('ticks'.length)}`;
      return !publishedPaths.has(path) && !stagedFiles.has(path);
    });
    return missing.length === 0 ? [] : [{ file, missing }];
  });
}
