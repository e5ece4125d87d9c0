import type { CandleInterval } from '../../core/candles.ts';
import type { LostWindow } from '../../core/data-loss.ts';
import { emptyPart, type PartColumns } from '../../core/merge.ts';
import { computePartNumber } from '../../core/partition.ts';
import { indexTickTimes } from '../../core/tick-search.ts';
import { dayMs, intersectTwo, isEmpty } from '../../core/window.ts';
import { readLostTicksIn } from '../../state/data-loss.ts';
import { type DayCoverage, readDayCoverage, stageDayTable, toCoverageRows } from '../generation/day-tables.ts';
import { encodeTickFile } from '../generation/encode-partition.ts';
import { type Stage, stageFile, stageRemoval } from '../generation/staging.ts';
import { toDayPath } from '../layout.ts';
import { findManifestFile, type PublishedFile } from '../manifest.ts';
import { type Archive, readPublishedFile } from '../open-archive.ts';
import { decodeRows } from '../parquet/rows.ts';
import { candleDatasets, datasets } from '../parquet/schema.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { listCandleIntervals, stageCandles } from '../publish/publish-candles.ts';
import {
  computeLostWindows,
  computeLostWindowsOfRestored,
  computeRangeWindow,
  subtractFromCoverage,
} from './data-loss.ts';
import { repairOrderBooks } from './repair-order-books.ts';
import { countCoverageTicks, type RestoredCoverage, restoreCoverage } from './restore-coverage.ts';
import type { LostRange } from './salvage-row-groups.ts';
import { computeKeyRange, type DamagedFile, type RepairLosses } from './types.ts';

/** One UTC day under repair; `day` is its midnight, epoch ms. */
interface DayRepair {
  readonly archive: Archive;
  readonly stage: Stage;
  readonly day: number;
  readonly damagedFiles: ReadonlyMap<string, DamagedFile>;
  readonly losses: RepairLosses;
  readonly coverage: DayCoverage;
  /** Symbols whose coverage was taken from the state: how many ticks it had is not written down. */
  readonly restoredCoverage: RestoredCoverage;
  readonly intervals: readonly CandleInterval[];
}

/**
 * Stages what takes the place of a day's damaged ticks, order books, candles and coverage. Everything else of the day is
 * intact. Holds one part in memory.
 */
export function repairDay(
  archive: Archive,
  stage: Stage,
  day: number,
  broken: ReadonlyMap<string, DamagedFile>,
  losses: RepairLosses,
  settleMs: number,
): void {
  const path = toDayPath('coverage', day, 0);
  const coverageBroken = broken.get(path);
  const { coverage, refilled } =
    coverageBroken === undefined
      ? { coverage: readDayCoverage(archive, stage.base, day), refilled: new Map() as RestoredCoverage }
      : restoreCoverage(archive, day, coverageBroken, settleMs);
  if (coverageBroken !== undefined) recordCoverageLoss(coverageBroken, coverage, losses);
  const before = JSON.stringify(toCoverageRows(coverage));
  const of = {
    archive,
    stage,
    day,
    damagedFiles: broken,
    losses,
    coverage,
    restoredCoverage: refilled,
    intervals: listCandleIntervals(stage.base, []),
  };
  for (let part = 0; part < archive.state.identity.parts; part++)
    repairPartition(of, part, coverageBroken !== undefined);
  const rows = toCoverageRows(coverage);
  if (coverageBroken === undefined && JSON.stringify(rows) === before) return;
  if (rows.length > 0) stageDayTable(archive, stage, 'coverage', day, rows);
  else stageRemoval(stage, path);
}

function recordCoverageLoss({ file, salvage }: DamagedFile, coverage: DayCoverage, losses: RepairLosses): void {
  const lost = Math.max(0, file.rows - toCoverageRows(coverage).length);
  losses.rowsLost.set(file.path, lost);
  if (lost > 0)
    losses.unrecoverable.push({
      dataset: 'coverage',
      path: file.path,
      rows: lost,
      ...computeKeyRange(salvage().lostRanges),
    });
}

function repairPartition(of: DayRepair, part: number, coverageBroken: boolean): void {
  const { archive, stage, day, damagedFiles, losses, coverage, intervals } = of;
  const books = damagedFiles.get(toDayPath('orderbooks', day, part));
  if (books !== undefined) repairOrderBooks(archive, stage, day, books, coverage.orderbooks, losses);
  const path = toDayPath('ticks', day, part);
  const ticks = damagedFiles.get(path);
  const candlePaths = intervals.map((interval) => toDayPath(candleDatasets[interval], day, part));
  if (ticks === undefined && !coverageBroken && !candlePaths.some((candles) => damagedFiles.has(candles))) return;
  const file = findManifestFile(stage.base, 'ticks', path);
  const columns = ticks === undefined ? readPublishedTicks(archive, file) : repairTicks(of, part, ticks);
  if (ticks === undefined) {
    const timesOf = indexTickTimes(columns);
    for (const [symbol, stretches] of of.restoredCoverage)
      if (computePartNumber(symbol, archive.state.identity.parts) === part)
        coverage.ticks.set(symbol, countCoverageTicks(stretches, timesOf(symbol)));
  }
  if (columns.t.length > 0) {
    stageCandles(archive, stage, intervals, { day, part }, columns, coverage.ticks);
    return;
  }
  for (const interval of intervals) {
    const candles = toDayPath(candleDatasets[interval], day, part);
    if (findManifestFile(stage.base, candleDatasets[interval], candles) === undefined) continue;
    stageRemoval(stage, candles);
    const damaged = damagedFiles.get(candles);
    if (damaged !== undefined) losses.rowsLost.set(candles, damaged.file.rows);
  }
}

const readPublishedTicks = (archive: Archive, file: PublishedFile | undefined): PartColumns =>
  file === undefined ? emptyPart : decodeTicks(readPublishedFile(archive, file));

/** Stages what is intact of a part's ticks, and takes back the coverage of the rest. */
function repairTicks(of: DayRepair, part: number, broken: DamagedFile): PartColumns {
  const { archive, stage, day, losses, coverage } = of;
  const { path } = broken.file;
  const { readableFile, intactGroups, lostRanges } = broken.salvage();
  const left = readableFile === null ? emptyPart : decodeTicks(readableFile, intactGroups);
  const timesOf = indexTickTimes(left);
  const mine = new Map(
    [...coverage.ticks].filter(([symbol]) => computePartNumber(symbol, archive.state.identity.parts) === part),
  );
  const published = readPublishedCounts(of, part);
  const ofRefilled: LostWindow[] = [];
  let missingOfRefilled = 0;
  for (const [symbol, stretches] of of.restoredCoverage) {
    if (!mine.has(symbol)) continue;
    const touched = lostRanges.filter((range) => computeRangeWindow(range, symbol, day) !== undefined);
    const spans = touched.map((range) => computeRangeWindow(range, symbol, day)!);
    const t = timesOf(symbol);
    const missing =
      published === undefined
        ? touched.reduce((sum, range) => sum + estimateLostTicksMin(range), 0)
        : (published.get(symbol) ?? 0) - t.length;
    // Which of its stretches had them is written down nowhere: none of them is proven to have been quiet.
    const ofSymbol = computeLostWindowsOfRestored(
      symbol,
      stretches,
      t,
      spans,
      missing,
      published === undefined ? 1 : 0,
    );
    ofRefilled.push(...ofSymbol);
    if (ofSymbol.length > 0) missingOfRefilled += missing;
    mine.delete(symbol);
    coverage.ticks.set(symbol, subtractFromCoverage(countCoverageTicks(stretches, t), ofSymbol, t));
  }
  const { windows, uncovered: uncoveredOfOthers } = computeLostWindows(day, lostRanges, mine, left);
  const uncovered = Math.max(0, uncoveredOfOthers - missingOfRefilled);
  for (const window of ofRefilled) losses.windows.push(window);
  for (const [symbol, ofSymbol] of Map.groupBy(windows, (window) => window.symbol))
    coverage.ticks.set(symbol, subtractFromCoverage(mine.get(symbol)!, ofSymbol, timesOf(symbol)));
  for (const window of windows) losses.windows.push(window);
  const gone = uncovered - countAwaitedTicks(of, part, lostRanges);
  if (gone > 0) losses.unrecoverable.push({ dataset: 'ticks', path, rows: gone, ...computeKeyRange(lostRanges) });
  losses.rowsLost.set(path, broken.file.rows - left.t.length);
  if (left.t.length > 0) stageFile(archive, stage, encodeTickFile(path, day, left, archive.groupRows));
  else stageRemoval(stage, path);
  return left;
}

/**
 * How many of the lost rows may be ticks that had come back of windows that are lost already: those windows await them
 * still, and they are asked for with them.
 */
function countAwaitedTicks({ archive, day }: DayRepair, part: number, ranges: readonly LostRange[]): number {
  const { parts } = archive.state.identity;
  return [...readLostTicksIn(archive.state.db, { from: day, to: day + dayMs })]
    .filter(([symbol]) => computePartNumber(symbol, parts) === part)
    .flatMap(([symbol, windows]) => {
      const spans = ranges.flatMap((range) => computeRangeWindow(range, symbol, day) ?? []);
      return windows.filter((window) => spans.some((span) => !isEmpty(intersectTwo(span, window))));
    })
    .reduce((sum, { ticks }) => sum + ticks, 0);
}

/**
 * How many ticks a symbol lost at least with a range that may hold some of it. Of several symbols nothing tells which had
 * them: one each, as a quiet day is not proven.
 */
const estimateLostTicksMin = ({ keys, rows }: LostRange): number =>
  keys !== null && keys.first[0] === keys.last[0] ? rows : 1;

/** How many ticks of each symbol were published, by the day's candles; undefined where they tell nothing. */
function readPublishedCounts(of: DayRepair, part: number): ReadonlyMap<string, number> | undefined {
  const path = toDayPath('candles_1d', of.day, part);
  const file = findManifestFile(of.stage.base, 'candles_1d', path);
  if (of.restoredCoverage.size === 0 || file === undefined || of.damagedFiles.has(path)) return undefined;
  const rows = decodeRows(datasets.candles_1d, readPublishedFile(of.archive, file));
  return new Map(rows.map((row) => [row[0] as string, row[6] as number]));
}
