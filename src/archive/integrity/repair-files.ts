import { join } from 'node:path';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { isInRange, overlapsRange, type SymbolRange } from '../../base/symbol-range.ts';
import { parseDayStart } from '../../base/time.ts';
import type { Archive } from '../archive.ts';
import { compareLostWindows, withdrawCoverage } from '../format/coverage.ts';
import { type DatasetName, type DatasetsWith, datasets } from '../format/datasets.ts';
import { getFileRange } from '../format/day-parts.ts';
import { parsePartNumber, symbolsPath } from '../format/layout.ts';
import { hasRows, listFilesWithRows, type Manifest, sumFileSizes } from '../format/manifest.ts';
import { createUnknownSymbol, type SymbolFacts } from '../format/market.ts';
import { readAllPublishedCoverage, retractCoverage } from '../journal/coverage-store.ts';
import { readLostWindows, recordLost } from '../journal/gap-records.ts';
import { dropRowGroups } from '../journal/published-files.ts';
import { readAllSymbols } from '../journal/symbol-store.ts';
import { setTickCounts, type TickCount } from '../journal/tick-counts.ts';
import { decodeRows } from '../parquet/rows.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { commitStage } from '../publish/commit.ts';
import { isTable, stageTable, type TableName } from '../publish/day-tables.ts';
import { encodeEmptyFile, stageMissingEmptyFiles } from '../publish/stage-empty-files.ts';
import { stageSymbols } from '../publish/stage-symbols.ts';
import {
  createNextManifest,
  type JudgeContext,
  listNextFiles,
  recordStagedFiles,
  type Stage,
  sortMoves,
  stageFile,
  stageRemoval,
} from '../publish/staging.ts';
import { readPublishedFile } from '../read-published-file.ts';
import { repairDay } from './repair-day.ts';
import { computeKeyRange, type DamagedFile, type RepairLosses } from './salvage-row-groups.ts';
import type { RepairTriage } from './triage.ts';

export interface RepairFilesOptions extends JudgeContext {
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

/**
 * Commits a generation without the lost rows, and withdraws their coverage. Requires the write lock. All files outside
 * `damaged` must be intact.
 */
export async function repairDamagedFiles(
  archive: Archive,
  stage: Stage,
  { damaged }: RepairTriage,
  losses: RepairLosses,
  options: RepairFilesOptions,
): Promise<Manifest> {
  const { db } = archive.state;
  const dated = damaged.filter(({ file }) => file.date !== null && hasRows(file));
  const days = [...Map.groupBy(dated, ({ file }) => parseDayStart(file.date!))].sort(([a], [b]) => a - b);
  for (const [done, [day, dayFiles]] of days.entries()) {
    options.signal?.throwIfAborted();
    for (const one of dayFiles) if (isCollectedTable(one.dataset)) repairRows(archive, stage, one.dataset, one, losses);
    repairDay(archive, stage, day, new Map(dayFiles.map((one) => [one.file.path, one])), losses);
    options.onProgress?.(done + 1, days.length);
    // Yield to signals and the progress bar.
    await new Promise((resolve) => setImmediate(resolve));
  }
  losses.windows.sort(compareLostWindows);
  const known = readAllSymbols(db);
  const ranges = listRangesToCount(stage, damaged, known);
  const counts = countStagedTicks(archive, stage, ranges);
  const nowMs = options.clock.nowMs();
  const { symbols, changed } = recountSymbols(known, counts, ranges, nowMs);
  stageSymbols(archive, stage, symbols);
  if (symbols.length === 0 && damaged.some(({ dataset, file }) => dataset === 'symbols' && hasRows(file)))
    stageRemoval(stage, symbolsPath);
  const coverage = readAllPublishedCoverage(db);
  const lostBySymbol = Map.groupBy(losses.windows, ({ symbol }) => symbol);
  for (const [symbol, windows] of lostBySymbol)
    coverage.set(symbol, withdrawCoverage(coverage.get(symbol) ?? [], windows));
  const after = { symbols, coverage, lost: [...readLostWindows(db), ...losses.windows].sort(compareLostWindows) };
  stageDamagedEmptyFiles(archive, stage, damaged);
  stageMissingEmptyFiles(archive, stage);
  // Every published file was checked, and this commit repairs all damage: none is left to record.
  const manifest = createNextManifest(archive, stage, after, options, []);
  commitStage(archive, stage, manifest, sortMoves(stage), () => {
    recordStagedFiles(archive, stage, nowMs);
    dropRowGroups(db, stage.removedPaths);
    for (const [symbol, windows] of lostBySymbol) retractCoverage(db, symbol, windows);
    recordLost(db, losses.windows, nowMs);
    setTickCounts(db, changed, nowMs);
  });
  return manifest;
}

/** Stages damaged files without rows again. Nothing is lost with them. */
function stageDamagedEmptyFiles(archive: Archive, stage: Stage, damaged: RepairTriage['damaged']): void {
  for (const { dataset, file } of damaged)
    if (!hasRows(file) && !stage.stagedFiles.has(file.path))
      stageFile(archive, stage, encodeEmptyFile({ dataset, path: file.path, date: file.date }));
}

/** The symbols to recount: those of damaged ticks, or all (null) if the tick counts in the state do not add up. */
function listRangesToCount(
  { base }: Stage,
  damaged: RepairTriage['damaged'],
  known: readonly { readonly ticks: number }[],
): readonly SymbolRange[] | null {
  const published = sumFileSizes(base.datasets.ticks.files).rows;
  const all = known.reduce((sum, { ticks }) => sum + ticks, 0) !== published;
  if (all) return null;
  return damaged.flatMap(({ dataset, file }) => (dataset === 'ticks' ? (getFileRange(file) ?? []) : []));
}

const hasSymbol = (ranges: readonly SymbolRange[] | null, symbol: string): boolean =>
  ranges === null || ranges.some((range) => isInRange(range, symbol));

/** Counts the ticks of some symbols over all days, as of the staged generation; one entry per symbol. */
function countStagedTicks(archive: Archive, stage: Stage, ranges: readonly SymbolRange[] | null): TickCount[] {
  const counts = new Map<string, TickCount>();
  for (const file of listFilesWithRows({ datasets: listNextFiles(stage) }, 'ticks')) {
    if (ranges?.some((range) => overlapsRange(range, getFileRange(file)!)) === false) continue;
    const staged = stage.moves.find((move) => move.to === file.path);
    const bytes =
      staged === undefined
        ? readPublishedFile(archive, file)
        : archive.disk.read(join(archive.layout.root, staged.from!));
    const { symbols, offsets, t } = decodeTicks(bytes);
    symbols.forEach((symbol, i) => {
      if (!hasSymbol(ranges, symbol)) return;
      const before = counts.get(symbol);
      // Days are in order.
      counts.set(symbol, {
        symbol,
        ticks: (before?.ticks ?? 0) + offsets[i + 1]! - offsets[i]!,
        firstTick: before?.firstTick ?? t[offsets[i]!]!,
        lastTick: t[offsets[i + 1]! - 1]!,
      });
    });
  }
  return [...counts.values()];
}

/** Updates the tick counts of the symbols of these ranges; null: of all. A symbol without ticks has no first or last tick. */
export function recountSymbols(
  symbols: readonly SymbolFacts[],
  counts: readonly TickCount[],
  ranges: readonly SymbolRange[] | null,
  nowMs: number,
): { readonly symbols: SymbolFacts[]; readonly changed: TickCount[] } {
  const bySymbol = new Map(counts.map((count) => [count.symbol, count]));
  const changed: TickCount[] = [];
  const known = new Set(symbols.map((facts) => facts.symbol));
  const all = [
    ...symbols,
    ...counts.filter((c) => !known.has(c.symbol)).map((c) => createUnknownSymbol(c.symbol, nowMs)),
  ];
  const out = all.map((facts) => {
    const { symbol } = facts;
    if (!hasSymbol(ranges, symbol)) return facts;
    const count = bySymbol.get(symbol) ?? { symbol, ticks: 0, firstTick: null, lastTick: null };
    if (facts.ticks === count.ticks && facts.firstTick === count.firstTick && facts.lastTick === count.lastTick)
      return facts;
    changed.push(count);
    return { ...facts, ...count };
  });
  return { symbols: out.sort((a, b) => compareUtf8(a.symbol, b.symbol)), changed };
}

/** A dataset of rows that exist nowhere else. */
type CollectedTable = TableName & DatasetsWith<'source', 'collected'>;

const isCollectedTable = (dataset: DatasetName): dataset is CollectedTable =>
  isTable(dataset) && datasets[dataset].source === 'collected';

/** Stages the intact rows of a file. */
function repairRows(
  archive: Archive,
  stage: Stage,
  dataset: CollectedTable,
  { file, salvage }: DamagedFile,
  losses: RepairLosses,
): void {
  const { readableFile, intactGroups, lostRanges } = salvage();
  const rows = readableFile === null ? [] : decodeRows(datasets[dataset].columns, readableFile, intactGroups);
  const bin = { day: parseDayStart(file.date!), part: parsePartNumber(file.path) };
  if (rows.length > 0) stageTable(archive, stage, dataset, bin, rows);
  else stageRemoval(stage, file.path);
  losses.rowsLost.set(file.path, file.rows - rows.length);
  for (const range of lostRanges)
    losses.unrecoverable.push({ dataset, path: file.path, rows: range.rows, ...computeKeyRange([range]) });
}
