import { compareUtf8, computePartNumber } from '../../base/symbol-name.ts';
import { dayMs, intersectTwo, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import type { CandleInterval } from '../format/candles.ts';
import type { LostWindow } from '../format/coverage.ts';
import { candleDatasets, datasets } from '../format/datasets.ts';
import { toDayPath } from '../format/layout.ts';
import { findManifestFile, type PublishedFile } from '../format/manifest.ts';
import { type BookColumns, type BookCoverage, emptyBooks } from '../format/order-book.ts';
import { countTicksInWindow, emptyPart, indexTickTimes, type PartColumns } from '../format/tick-columns.ts';
import { readLostTicksIn } from '../journal/gap-records.ts';
import { type Archive, readPublishedFile } from '../open-archive.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { decodeRows } from '../parquet/rows.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import {
  type DayCoverage,
  type PublishedCoverage,
  readDayCoverage,
  stageDayTable,
  toCoverageRows,
} from '../publish/day-tables.ts';
import { encodeBookFile, encodeTickFile } from '../publish/encode-partition.ts';
import { listCandleIntervals, stageCandles } from '../publish/publish-day.ts';
import { type Stage, stageFile, stageRemoval } from '../publish/staging.ts';
import { countCoverageTicks, type RestoredCoverage, restoreCoverage } from './restore-coverage.ts';
import { computeKeyRange, type DamagedFile, type LostRange, type RepairLosses } from './salvage-row-groups.ts';

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

/** What a part of a day lost, as far as coverage can tell. */
export interface PartitionLosses {
  /** Windows whose coverage has to go, each with the ticks that were published in it. */
  readonly windows: readonly LostWindow[];
  /** Lost ticks that no answer covered, as those of rows of a file: nothing knows where to ask for them. */
  readonly uncovered: number;
}

/**
 * Which windows of a day's part are lost: where rows are gone and coverage claims some. Coverage without ticks stays, and
 * so does what lies before and behind the lost rows of a stretch.
 * @param day its UTC midnight, epoch ms
 * @param coverage of the part's symbols, as it was published
 * @param left the rows that are there still
 */
export function computeLostWindows(
  day: number,
  ranges: readonly LostRange[],
  coverage: ReadonlyMap<string, readonly PublishedCoverage[]>,
  left: PartColumns,
): PartitionLosses {
  const windows: LostWindow[] = [];
  const timesOf = indexTickTimes(left);
  let missing = 0;
  for (const [symbol, stretches] of coverage) {
    const spans = ranges.flatMap((range) => computeRangeWindow(range, symbol, day) ?? []);
    const t = timesOf(symbol);
    for (const stretch of stretches) {
      const gone = stretch.ticks - countTicksInWindow(t, stretch);
      const touched = spans.map((span) => intersectTwo(span, stretch)).filter((w) => !isEmpty(w));
      if (gone <= 0 || touched.length === 0) continue;
      missing += gone;
      // Coverage counts its stretch as a whole: what lies between two lost pieces of it goes with them.
      const window = {
        from: touched.reduce((least, w) => Math.min(least, w.from), Number.POSITIVE_INFINITY),
        to: touched.reduce((most, w) => Math.max(most, w.to), 0),
      };
      windows.push({ dataset: 'ticks', symbol, ...window, ticks: gone + countTicksInWindow(t, window) });
    }
  }
  const rows = ranges.reduce((sum, range) => sum + range.rows, 0);
  return { windows, uncovered: Math.max(0, rows - missing) };
}

/**
 * The lost windows of a symbol whose coverage was taken from the state, which knows how many ticks it lost and not where:
 * in each run of stretches that adjoin, from the first lost rows to the last. The one that lost rows reach into most is
 * said to have had the ticks; the others are asked for again as well, as nothing proves that they were quiet.
 * @param t the times that are there still, sorted
 * @param spans where rows of it are gone
 * @param missing how many, of all of it
 * @param elsewhere how many at least in each other window; 0 where `missing` is all that there were
 */
export function computeLostWindowsOfRestored(
  symbol: string,
  stretches: readonly Window[],
  t: Float64Array,
  spans: readonly Window[],
  missing: number,
  elsewhere: 0 | 1,
): LostWindow[] {
  if (missing <= 0) return [];
  const touched = union(stretches).flatMap((run) => {
    const pieces = spans.map((span) => intersectTwo(span, run)).filter((w) => !isEmpty(w));
    const reachMs = pieces.reduce((ms, w) => ms + w.to - w.from, 0);
    const from = Math.min(...pieces.map((w) => w.from));
    const to = Math.max(...pieces.map((w) => w.to));
    return pieces.length === 0 ? [] : [{ from, to, reachMs }];
  });
  const most = touched.reduce((best, { reachMs }, i) => (reachMs > touched[best]!.reachMs ? i : best), 0);
  return touched.map(({ from, to }, i) => {
    const ticks = countTicksInWindow(t, { from, to }) + (i === most ? missing : elsewhere);
    return { dataset: 'ticks', symbol, from, to, ticks };
  });
}

/** The span of time of which a range may hold rows of a symbol, within a day; undefined where it can hold none. */
export function computeRangeWindow({ keys }: LostRange, symbol: string, day: number): Window | undefined {
  const whole = { from: day, to: day + dayMs };
  if (keys === null) return whole;
  const [firstSymbol, firstTime] = keys.first as [string, number];
  const [lastSymbol, lastTime] = keys.last as [string, number];
  if (compareUtf8(symbol, firstSymbol) < 0 || compareUtf8(symbol, lastSymbol) > 0) return undefined;
  return {
    from: symbol === firstSymbol ? firstTime : whole.from,
    to: symbol === lastSymbol ? lastTime + 1 : whole.to,
  };
}

/** Coverage without the lost windows, what is left of a stretch with the ticks that are in it. */
export function subtractFromCoverage(
  stretches: readonly PublishedCoverage[],
  lost: readonly Window[],
  t: Float64Array,
): PublishedCoverage[] {
  return stretches.flatMap((stretch) => {
    const pieces = subtract([stretch], lost);
    if (pieces[0]?.from === stretch.from && pieces[0].to === stretch.to) return [stretch];
    return pieces.map((piece) => ({ ...stretch, ...piece, ticks: countTicksInWindow(t, piece) }));
  });
}

/**
 * Stages what is intact of a part's order books, and takes back the coverage of the rest: no upstream gives a book of the
 * past. A snapshot of which some levels are lost goes whole, since half a book is a wrong one.
 * @param coverage of the day, by symbol
 */
export function repairOrderBooks(
  archive: Archive,
  stage: Stage,
  day: number,
  { file, salvage }: DamagedFile,
  coverage: Map<string, readonly BookCoverage[]>,
  losses: RepairLosses,
): void {
  const { readableFile, intactGroups, lostRanges } = salvage();
  const left =
    readableFile === null ? emptyBooks : dropCutSnapshots(decodeBooks(readableFile, intactGroups), lostRanges);
  if (left.t.length > 0) stageFile(archive, stage, encodeBookFile(file.path, day, left, archive.groupRows));
  else stageRemoval(stage, file.path);
  const rows = file.rows - left.t.length;
  losses.rowsLost.set(file.path, rows);
  losses.unrecoverable.push({ dataset: 'orderbooks', path: file.path, rows, ...computeKeyRange(lostRanges) });
  const timesOf = indexTickTimes({ ...left, p: left.price });
  for (const [symbol, covered] of coverage) {
    if (toDayPath('orderbooks', day, computePartNumber(symbol, archive.state.identity.parts)) !== file.path) continue;
    const holes = lostRanges.flatMap((range) => listLostBookWindows(range, symbol, day, timesOf(symbol)));
    const rest = covered.flatMap((one) =>
      subtract([one], holes).map((piece) => ({ ...one, ...piece, ticks: Math.min(one.ticks, piece.to - piece.from) })),
    );
    if (rest.length > 0) coverage.set(symbol, rest);
    else coverage.delete(symbol);
  }
}

/** When answers came that brought a lost snapshot: from its moment on, before the next one that is there. */
function listLostBookWindows(range: LostRange, symbol: string, day: number, t: Float64Array): Window[] {
  const span = computeRangeWindow(range, symbol, day);
  if (span === undefined) return [];
  const next = t.find((moment) => moment >= span.to) ?? day + dayMs;
  return [{ from: span.from, to: next }];
}

/** Without the snapshots that reach into what is lost: it begins or ends with a level of theirs. */
function dropCutSnapshots(books: BookColumns, lost: readonly LostRange[]): BookColumns {
  const cut = new Set(
    lost.flatMap(({ keys }) => (keys === null ? [] : [keys.first, keys.last].map(([symbol, t]) => `${t} ${symbol}`))),
  );
  const rows: number[] = [];
  const symbols: string[] = [];
  const starts: number[] = [];
  books.symbols.forEach((symbol, i) => {
    const before = rows.length;
    for (let row = books.offsets[i]!; row < books.offsets[i + 1]!; row++)
      if (!cut.has(`${books.t[row]} ${symbol}`)) rows.push(row);
    if (rows.length === before) return;
    symbols.push(symbol);
    starts.push(before);
  });
  const pick = (values: Float64Array): Float64Array => Float64Array.from(rows, (row) => values[row]!);
  return {
    symbols,
    offsets: Float64Array.from([...starts, rows.length]),
    t: pick(books.t),
    price: pick(books.price),
    quantity: pick(books.quantity),
    side: Uint8Array.from(rows, (row) => books.side[row]!),
    level: Int32Array.from(rows, (row) => books.level[row]!),
  };
}
