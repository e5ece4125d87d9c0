import { isInRange } from '../../base/symbol-range.ts';
import { dayMs, intersect, intersectTwo, overlaps, subtract, union, type Window } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import {
  type CoveredWindow,
  countCoverageTicks,
  joinForPublishing,
  type LostWindow,
  overlayCoverage,
  type PublishedCoverage,
  subtractFromCoverage,
} from '../format/coverage.ts';
import { type CandleInterval, candleDatasets, type DatasetName, datasets } from '../format/datasets.ts';
import { type DayPart, listDayParts } from '../format/day-parts.ts';
import { toDayPath } from '../format/layout.ts';
import { findFileWithRows } from '../format/manifest.ts';
import { candleSeries, seriesDatasets } from '../format/series-datasets.ts';
import { countTicksInWindow, emptyPart, indexTickTimes, type PartColumns } from '../format/tick-columns.ts';
import { readPublishedCoverageIn } from '../journal/coverage-store.ts';
import { readLostTicksIn } from '../journal/gap-records.ts';
import { decodeRows } from '../parquet/rows.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { readPublishedTicks } from '../publish/count-ticks.ts';
import {
  addCoverage,
  type DayCoverage,
  parseCoverageRows,
  pickPartCoverage,
  readPartCoverage,
  stageTable,
  toCoverageRows,
} from '../publish/day-tables.ts';
import { encodeTickFile } from '../publish/encode-partition.ts';
import { listCandleIntervals, stageCandles } from '../publish/stage-candles.ts';
import { type Stage, stageFile, stageRemoval } from '../publish/staging.ts';
import { decodePublished, readPublishedFile } from '../read-published-file.ts';
import { repairRows } from './repair-rows.ts';
import {
  computeKeyRange,
  computeRangeWindow,
  type DamagedFile,
  type LostRange,
  type RepairLosses,
} from './salvage-row-groups.ts';

/** One UTC day under repair; `day` is its midnight, epoch ms. */
interface DayRepair {
  readonly archive: Archive;
  readonly stage: Stage;
  readonly day: number;
  readonly damagedFiles: ReadonlyMap<string, DamagedFile>;
  readonly losses: RepairLosses;
  readonly coverage: DayCoverage;
  /** Symbols whose coverage was restored from the state, which does not record tick counts. */
  readonly restoredCoverage: RestoredCoverage;
  readonly intervals: readonly CandleInterval[];
}

/**
 * Stages replacements for a day's damaged ticks, order books, candles and coverage. All other files of the day must be
 * intact. Holds one part in memory at a time.
 */
export function repairDay(
  archive: Archive,
  stage: Stage,
  day: number,
  damaged: ReadonlyMap<string, DamagedFile>,
  losses: RepairLosses,
): void {
  const parts = listDayParts(stage.base, day);
  const coverage = parseCoverageRows([]);
  const before = new Map<DayPart, string>();
  const damagedCoverage = new Map<DayPart, DamagedFile>();
  for (const part of parts) {
    const file = damaged.get(toDayPath('coverage', day, part.part));
    if (file !== undefined) damagedCoverage.set(part, file);
    else {
      const published = readPartCoverage(archive, stage.base, part);
      before.set(part, formatCoverage(published));
      addCoverage(coverage, published);
    }
  }
  const restoredCoverage: RestoredCoverage =
    damagedCoverage.size === 0 ? new Map() : restoreCoverage(archive, day, coverage, [...damagedCoverage.values()]);
  for (const [part, file] of damagedCoverage) recordCoverageLoss(file, pickPartCoverage(coverage, part), losses);
  const repair = {
    archive,
    stage,
    day,
    damagedFiles: damaged,
    losses,
    coverage,
    restoredCoverage,
    intervals: listCandleIntervals(stage.base, []),
  };
  for (const part of parts) {
    const isRestored = formatCoverage(pickPartCoverage(coverage, part)) !== before.get(part);
    repairPartition(repair, part, isRestored);
  }
  for (const part of parts) {
    const ofPart = pickPartCoverage(coverage, part);
    if (formatCoverage(ofPart) === before.get(part)) continue;
    const rows = toCoverageRows(ofPart);
    if (rows.length > 0) stageTable(archive, stage, 'coverage', part, rows);
    else stageRemoval(stage, toDayPath('coverage', day, part.part));
  }
}

const formatCoverage = (coverage: DayCoverage): string => JSON.stringify(toCoverageRows(coverage));

/** @param coverage the coverage of the part after the repair */
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

function repairPartition(repair: DayRepair, part: DayPart, isCoverageRestored: boolean): void {
  const { archive, stage, damagedFiles, losses, coverage, intervals } = repair;
  const toPath = (dataset: DatasetName): string => toDayPath(dataset, part.day, part.part);
  for (const dataset of ['orderbooks', ...seriesDatasets] as const) {
    const damaged = damagedFiles.get(toPath(dataset));
    if (damaged !== undefined) repairRows(archive, stage, part, dataset, damaged, coverage[dataset], losses);
  }
  const path = toPath('ticks');
  const ticks = damagedFiles.get(path);
  // Candles depend on the series too.
  const related = [...intervals.map((interval) => candleDatasets[interval]), ...candleSeries];
  const areCandlesAffected = related.some((dataset) => damagedFiles.has(toPath(dataset)));
  if (ticks === undefined && !isCoverageRestored && !areCandlesAffected) return;
  const file = findFileWithRows(stage.base, 'ticks', path);
  const columns = ticks === undefined ? readPublishedTicks(archive, file) : repairTicks(repair, part, ticks);
  if (ticks === undefined && isCoverageRestored) {
    const getTimes = indexTickTimes(columns);
    for (const [symbol, covered] of pickPartCoverage(coverage, part).ticks)
      coverage.ticks.set(symbol, countCoverageTicks(covered, getTimes(symbol)));
  }
  if (columns.t.length > 0) {
    stageCandles(archive, stage, intervals, part, columns, coverage.ticks);
    return;
  }
  for (const interval of intervals) {
    const candles = toPath(candleDatasets[interval]);
    if (findFileWithRows(stage.base, candleDatasets[interval], candles) === undefined) continue;
    stageRemoval(stage, candles);
    const damaged = damagedFiles.get(candles);
    if (damaged !== undefined) losses.rowsLost.set(candles, damaged.file.rows);
  }
}

/** Stages the intact ticks of a part, and withdraws the coverage of the lost ones. Returns the intact ticks. */
function repairTicks(repair: DayRepair, part: DayPart, damaged: DamagedFile): PartColumns {
  const { archive, stage, day, losses, coverage } = repair;
  const { path } = damaged.file;
  const { readableFile, intactGroups, lostRanges } = damaged.salvage();
  const intact = readableFile === null ? emptyPart : decodeTicks(readableFile, intactGroups);
  const getTimes = indexTickTimes(intact);
  const partCoverage = pickPartCoverage(coverage, part).ticks;
  const published = readPublishedCounts(repair, part);
  const restoredWindows: LostWindow[] = [];
  let restoredMissing = 0;
  for (const [symbol, covered] of repair.restoredCoverage) {
    if (!partCoverage.has(symbol)) continue;
    const affected = lostRanges.filter((range) => computeRangeWindow(range, symbol, day) !== undefined);
    const spans = affected.map((range) => computeRangeWindow(range, symbol, day)!);
    const t = getTimes(symbol);
    const missing =
      published === undefined
        ? affected.reduce((sum, range) => sum + estimateLostTicksMin(range), 0)
        : (published.get(symbol) ?? 0) - t.length;
    // Nothing records which of the windows had the missing ticks, so none of them is proven to be quiet.
    const ofSymbol = computeLostWindowsOfRestored(symbol, covered, t, spans, missing, published === undefined ? 1 : 0);
    restoredWindows.push(...ofSymbol);
    if (ofSymbol.length > 0) restoredMissing += missing;
    partCoverage.delete(symbol);
    coverage.ticks.set(symbol, subtractFromCoverage(countCoverageTicks(covered, t), ofSymbol, t));
  }
  const { windows, uncovered: otherUncovered } = computeLostWindows(day, lostRanges, partCoverage, intact);
  const uncovered = Math.max(0, otherUncovered - restoredMissing);
  for (const window of restoredWindows) losses.windows.push(window);
  for (const [symbol, ofSymbol] of Map.groupBy(windows, (window) => window.symbol))
    coverage.ticks.set(symbol, subtractFromCoverage(partCoverage.get(symbol)!, ofSymbol, getTimes(symbol)));
  for (const window of windows) losses.windows.push(window);
  const missingRows = uncovered - countAwaitedTicks(repair, part, lostRanges);
  if (missingRows > 0)
    losses.unrecoverable.push({ dataset: 'ticks', path, rows: missingRows, ...computeKeyRange(lostRanges) });
  losses.rowsLost.set(path, damaged.file.rows - intact.t.length);
  if (intact.t.length > 0) stageFile(archive, stage, encodeTickFile(path, day, intact, archive.groupRows));
  else stageRemoval(stage, path);
  return intact;
}

/**
 * How many of the lost rows may belong to windows that were already lost. Their ticks are still missing, and these
 * windows are fetched again in any case.
 */
function countAwaitedTicks({ archive, day }: DayRepair, part: DayPart, ranges: readonly LostRange[]): number {
  return [...readLostTicksIn(archive.state.db, { from: day, to: day + dayMs })]
    .filter(([symbol]) => isInRange(part, symbol))
    .flatMap(([symbol, windows]) => {
      const spans = ranges.flatMap((range) => computeRangeWindow(range, symbol, day) ?? []);
      return windows.filter((window) => spans.some((span) => overlaps(span, window)));
    })
    .reduce((sum, { ticks }) => sum + ticks, 0);
}

/**
 * A lower bound for the ticks that a symbol lost in a range. If the range spans several symbols, it is unknown to which
 * symbols the rows belonged. Assume one lost tick for each symbol.
 */
const estimateLostTicksMin = ({ keys, rows }: LostRange): number =>
  keys !== null && keys.first[0] === keys.last[0] ? rows : 1;

/** Published tick counts per symbol, from the daily candles; undefined if they are not needed or not available. */
function readPublishedCounts(repair: DayRepair, part: DayPart): ReadonlyMap<string, number> | undefined {
  const path = toDayPath('candles_1d', part.day, part.part);
  const file = findFileWithRows(repair.stage.base, 'candles_1d', path);
  if (repair.restoredCoverage.size === 0 || file === undefined || repair.damagedFiles.has(path)) return undefined;
  const columns = datasets.candles_1d.columns.filter(({ name }) => name === 'symbol' || name === 'ticks');
  const rows = decodePublished(file.path, () => decodeRows(columns, readPublishedFile(repair.archive, file)));
  return new Map(rows.map(([symbol, ticks]) => [symbol as string, ticks as number]));
}

/** Losses of a part of a day, according to coverage. */
interface PartitionLosses {
  /** Windows whose coverage is withdrawn, with the number of ticks published in each. */
  readonly windows: readonly LostWindow[];
  /** Number of lost ticks outside all coverage, such as imported rows. No request can restore them. */
  readonly uncovered: number;
}

/**
 * Finds the lost windows of a part: windows whose coverage counts ticks that are gone. Coverage without ticks stays,
 * and so does the coverage before and after the lost rows of a window.
 * @param day its UTC midnight, epoch ms
 * @param coverage published coverage of the part's symbols
 * @param intact the intact rows
 */
export function computeLostWindows(
  day: number,
  ranges: readonly LostRange[],
  coverage: ReadonlyMap<string, readonly PublishedCoverage[]>,
  intact: PartColumns,
): PartitionLosses {
  const windows: LostWindow[] = [];
  const getTimes = indexTickTimes(intact);
  let missing = 0;
  for (const [symbol, covered] of coverage) {
    const spans = ranges.flatMap((range) => computeRangeWindow(range, symbol, day) ?? []);
    const t = getTimes(symbol);
    for (const coveredWindow of covered) {
      const missingRows = coveredWindow.ticks - countTicksInWindow(t, coveredWindow);
      const affected = intersect(spans, [coveredWindow]);
      if (missingRows <= 0 || affected.length === 0) continue;
      missing += missingRows;
      // Coverage counts the ticks of a whole window, so the time between two lost pieces is lost too.
      const window = { from: affected[0]!.from, to: affected.at(-1)!.to };
      windows.push({ dataset: 'ticks', symbol, ...window, ticks: missingRows + countTicksInWindow(t, window) });
    }
  }
  const rows = ranges.reduce((sum, range) => sum + range.rows, 0);
  return { windows, uncovered: Math.max(0, rows - missing) };
}

/**
 * Finds the lost windows of a symbol whose coverage was restored from the state: the number of lost ticks is known, but
 * not their windows. Each run of adjacent windows loses the range from its first to its last lost rows. The run with
 * the longest lost time is assigned the missing ticks; the others are fetched again too, as they are not proven to be
 * quiet.
 * @param t times of the intact ticks, sorted
 * @param spans windows in which rows of the symbol are lost
 * @param missing number of lost ticks of the symbol
 * @param elsewhere minimum number of lost ticks to assume in each other run; 0 if `missing` is exact
 */
export function computeLostWindowsOfRestored(
  symbol: string,
  covered: readonly Window[],
  t: Float64Array,
  spans: readonly Window[],
  missing: number,
  elsewhere: 0 | 1,
): LostWindow[] {
  if (missing <= 0) return [];
  const affected = union(covered).flatMap((run) => {
    const pieces = intersect(spans, [run]);
    const reachMs = pieces.reduce((ms, w) => ms + w.to - w.from, 0);
    return pieces.length === 0 ? [] : [{ from: pieces[0]!.from, to: pieces.at(-1)!.to, reachMs }];
  });
  const longest = affected.reduce((best, { reachMs }, i) => (reachMs > affected[best]!.reachMs ? i : best), 0);
  return affected.map(({ from, to }, i) => {
    const ticks = countTicksInWindow(t, { from, to }) + (i === longest ? missing : elsewhere);
    return { dataset: 'ticks', symbol, from, to, ticks };
  });
}

/** Coverage that was restored from the state, by symbol. */
type RestoredCoverage = Map<string, readonly CoveredWindow[]>;

/**
 * Restores a day's coverage from its intact files, the intact rows of its damaged files and, for ticks, from the state. The
 * state has no other coverage.
 * @param day its UTC midnight, epoch ms
 * @param coverage the coverage of the intact files; changed in place
 */
function restoreCoverage(
  archive: Archive,
  day: number,
  coverage: DayCoverage,
  damaged: readonly DamagedFile[],
): RestoredCoverage {
  for (const file of damaged) addCoverage(coverage, readIntactCoverage(file));
  const restored: RestoredCoverage = new Map();
  const dayWindow = { from: day, to: day + dayMs };
  for (const [symbol, covered] of readPublishedCoverageIn(archive.state.db, dayWindow)) {
    const known = coverage.ticks.get(symbol) ?? [];
    const unknown = covered.flatMap((one) =>
      subtract([intersectTwo(one, dayWindow)], known).map((window) => ({ ...one, ...window })),
    );
    if (unknown.length === 0) continue;
    const windows = joinForPublishing(overlayCoverage([...known, ...unknown]));
    restored.set(symbol, windows);
    coverage.ticks.set(symbol, countCoverageTicks(windows, new Float64Array(0)));
  }
  return restored;
}

function readIntactCoverage({ salvage }: DamagedFile): DayCoverage {
  const { readableFile, intactGroups } = salvage();
  return parseCoverageRows(
    readableFile === null ? [] : decodeRows(datasets.coverage.columns, readableFile, intactGroups),
  );
}
