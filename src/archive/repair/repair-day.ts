import type { CandleInterval } from '../../core/candles.ts';
import type { LostWindow } from '../../core/data-loss.ts';
import { noPart, type PartColumns } from '../../core/merge.ts';
import { partOf } from '../../core/partition.ts';
import { timesIn } from '../../core/tick-search.ts';
import { dayMs, intersection, isEmpty } from '../../core/window.ts';
import { lostTicksIn } from '../../state/data-loss.ts';
import { coverageRows, type DayCoverage, encodeDay, readCoverage } from '../generation/day-tables.ts';
import { encodedTicks } from '../generation/encode-partition.ts';
import { type Stage, stageFile, stageRemoval } from '../generation/staging.ts';
import { dayPath } from '../layout.ts';
import { fileAt, type PublishedFile } from '../manifest.ts';
import { type Archive, readPublished } from '../open-archive.ts';
import { decodeRows } from '../parquet/rows.ts';
import { candleDatasets, datasets } from '../parquet/schema.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { keptIntervals, stageCandles } from '../publish/publish-candles.ts';
import { coverageWithout, lossesOf, lossesOfRefilled, spanOf } from './data-loss.ts';
import { mendBooks } from './repair-order-books.ts';
import { countAnew, type Refilled, refill } from './restore-coverage.ts';
import type { LostRange } from './salvage-row-groups.ts';
import { type Broken, hullOf, type Losses } from './types.ts';

/** One UTC day under repair; `day` is its midnight, epoch ms. */
interface Day {
  readonly archive: Archive;
  readonly stage: Stage;
  readonly day: number;
  readonly broken: ReadonlyMap<string, Broken>;
  readonly losses: Losses;
  readonly coverage: DayCoverage;
  /** Symbols whose coverage was taken from the state: how many ticks it had is not written down. */
  readonly refilled: Refilled;
  readonly intervals: readonly CandleInterval[];
}

/**
 * Stages what takes the place of a day's damaged ticks, order books, candles and coverage. Everything else of the day is
 * intact. Holds one part in memory.
 */
export function mendDay(
  archive: Archive,
  stage: Stage,
  day: number,
  broken: ReadonlyMap<string, Broken>,
  losses: Losses,
  settleMs: number,
): void {
  const path = dayPath('coverage', day, 0);
  const coverageBroken = broken.get(path);
  const { coverage, refilled } =
    coverageBroken === undefined
      ? { coverage: readCoverage(archive, stage.base, day), refilled: new Map() as Refilled }
      : refill(archive, day, coverageBroken, settleMs);
  if (coverageBroken !== undefined) noteCoverageLost(coverageBroken, coverage, losses);
  const before = JSON.stringify(coverageRows(coverage));
  const of = { archive, stage, day, broken, losses, coverage, refilled, intervals: keptIntervals(stage.base, []) };
  for (let part = 0; part < archive.state.identity.parts; part++) mendPart(of, part, coverageBroken !== undefined);
  const rows = coverageRows(coverage);
  if (coverageBroken === undefined && JSON.stringify(rows) === before) return;
  if (rows.length > 0) encodeDay(archive, stage, 'coverage', day, rows);
  else stageRemoval(stage, path);
}

function noteCoverageLost({ file, salvaged }: Broken, coverage: DayCoverage, losses: Losses): void {
  const lost = Math.max(0, file.rows - coverageRows(coverage).length);
  losses.rowsLost.set(file.path, lost);
  if (lost > 0) losses.gone.push({ dataset: 'coverage', path: file.path, rows: lost, ...hullOf(salvaged().lost) });
}

function mendPart(of: Day, part: number, coverageBroken: boolean): void {
  const { archive, stage, day, broken, losses, coverage, intervals } = of;
  const books = broken.get(dayPath('orderbooks', day, part));
  if (books !== undefined) mendBooks(archive, stage, day, books, coverage.orderbooks, losses);
  const path = dayPath('ticks', day, part);
  const ticks = broken.get(path);
  const candlePaths = intervals.map((interval) => dayPath(candleDatasets[interval], day, part));
  if (ticks === undefined && !coverageBroken && !candlePaths.some((candles) => broken.has(candles))) return;
  const file = fileAt(stage.base, 'ticks', path);
  const columns = ticks === undefined ? publishedTicks(archive, file) : mendTicks(of, part, ticks);
  if (ticks === undefined) {
    const timesOf = timesIn(columns);
    for (const [symbol, stretches] of of.refilled)
      if (partOf(symbol, archive.state.identity.parts) === part)
        coverage.ticks.set(symbol, countAnew(stretches, timesOf(symbol)));
  }
  if (columns.t.length > 0) {
    stageCandles(archive, stage, intervals, { day, part }, columns, coverage.ticks);
    return;
  }
  for (const interval of intervals) {
    const candles = dayPath(candleDatasets[interval], day, part);
    if (fileAt(stage.base, candleDatasets[interval], candles) === undefined) continue;
    stageRemoval(stage, candles);
    const damaged = broken.get(candles);
    if (damaged !== undefined) losses.rowsLost.set(candles, damaged.file.rows);
  }
}

const publishedTicks = (archive: Archive, file: PublishedFile | undefined): PartColumns =>
  file === undefined ? noPart : decodeTicks(readPublished(archive, file));

/** Stages what is intact of a part's ticks, and takes back the coverage of the rest. */
function mendTicks(of: Day, part: number, broken: Broken): PartColumns {
  const { archive, stage, day, losses, coverage } = of;
  const { path } = broken.file;
  const { readable, kept, lost } = broken.salvaged();
  const left = readable === null ? noPart : decodeTicks(readable, kept);
  const timesOf = timesIn(left);
  const mine = new Map([...coverage.ticks].filter(([symbol]) => partOf(symbol, archive.state.identity.parts) === part));
  const published = publishedCounts(of, part);
  const ofRefilled: LostWindow[] = [];
  let missingOfRefilled = 0;
  for (const [symbol, stretches] of of.refilled) {
    if (!mine.has(symbol)) continue;
    const touched = lost.filter((range) => spanOf(range, symbol, day) !== undefined);
    const spans = touched.map((range) => spanOf(range, symbol, day)!);
    const t = timesOf(symbol);
    const missing =
      published === undefined
        ? touched.reduce((sum, range) => sum + leastOf(range), 0)
        : (published.get(symbol) ?? 0) - t.length;
    // Which of its stretches had them is written down nowhere: none of them is proven to have been quiet.
    const ofSymbol = lossesOfRefilled(symbol, stretches, t, spans, missing, published === undefined ? 1 : 0);
    ofRefilled.push(...ofSymbol);
    if (ofSymbol.length > 0) missingOfRefilled += missing;
    mine.delete(symbol);
    coverage.ticks.set(symbol, coverageWithout(countAnew(stretches, t), ofSymbol, t));
  }
  const { windows, uncovered: uncoveredOfOthers } = lossesOf(day, lost, mine, left);
  const uncovered = Math.max(0, uncoveredOfOthers - missingOfRefilled);
  for (const window of ofRefilled) losses.windows.push(window);
  for (const [symbol, ofSymbol] of Map.groupBy(windows, (window) => window.symbol))
    coverage.ticks.set(symbol, coverageWithout(mine.get(symbol)!, ofSymbol, timesOf(symbol)));
  for (const window of windows) losses.windows.push(window);
  const gone = uncovered - awaited(of, part, lost);
  if (gone > 0) losses.gone.push({ dataset: 'ticks', path, rows: gone, ...hullOf(lost) });
  losses.rowsLost.set(path, broken.file.rows - left.t.length);
  if (left.t.length > 0) stageFile(archive, stage, encodedTicks(path, day, left, archive.groupRows));
  else stageRemoval(stage, path);
  return left;
}

/**
 * How many of the lost rows may be ticks that had come back of windows that are lost already: those windows await them
 * still, and they are asked for with them.
 */
function awaited({ archive, day }: Day, part: number, ranges: readonly LostRange[]): number {
  const { parts } = archive.state.identity;
  return [...lostTicksIn(archive.state.db, { from: day, to: day + dayMs })]
    .filter(([symbol]) => partOf(symbol, parts) === part)
    .flatMap(([symbol, windows]) => {
      const spans = ranges.flatMap((range) => spanOf(range, symbol, day) ?? []);
      return windows.filter((window) => spans.some((span) => !isEmpty(intersection(span, window))));
    })
    .reduce((sum, { ticks }) => sum + ticks, 0);
}

/**
 * How many ticks a symbol lost at least with a range that may hold some of it. Of several symbols nothing tells which had
 * them: one each, as a quiet day is not proven.
 */
const leastOf = ({ keys, rows }: LostRange): number => (keys !== null && keys.first[0] === keys.last[0] ? rows : 1);

/** How many ticks of each symbol were published, by the day's candles; undefined where they tell nothing. */
function publishedCounts(of: Day, part: number): ReadonlyMap<string, number> | undefined {
  const path = dayPath('candles_1d', of.day, part);
  const file = fileAt(of.stage.base, 'candles_1d', path);
  if (of.refilled.size === 0 || file === undefined || of.broken.has(path)) return undefined;
  const rows = decodeRows(datasets.candles_1d, readPublished(of.archive, file));
  return new Map(rows.map((row) => [row[0] as string, row[6] as number]));
}
