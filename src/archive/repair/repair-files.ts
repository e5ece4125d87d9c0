import { compareLostWindows } from '../../core/data-loss.ts';
import { parseDayStart } from '../../core/time.ts';
import { subtract } from '../../core/window.ts';
import { readAllSegments, retractSegments } from '../../state/coverage.ts';
import { readLostWindows, recordLost } from '../../state/data-loss.ts';
import { dropRowGroups } from '../../state/file-metadata.ts';
import { readAllSymbols, setTickCounts } from '../../state/symbols.ts';
import { commitStage } from '../generation/commit.ts';
import { createNextManifest, type JudgeContext, sortMoves, stageSymbols } from '../generation/next-manifest.ts';
import { recordStagedFiles, type Stage, stageRemoval } from '../generation/staging.ts';
import { symbolsPath } from '../layout.ts';
import { type Manifest, sumFileTotals } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { countStagedTicks, recountSymbols } from './recount.ts';
import { repairDay } from './repair-day.ts';
import { repairRows } from './repair-rows.ts';
import type { RepairTriage } from './triage.ts';
import type { RepairLosses } from './types.ts';

export interface RepairFilesOptions extends JudgeContext {
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

/**
 * Commits the generation that lacks what is lost, and with it that its coverage is taken back. Holder of the write lock
 * only; all that is not `broken` is intact.
 */
export async function repairDamagedFiles(
  archive: Archive,
  stage: Stage,
  { damaged }: RepairTriage,
  losses: RepairLosses,
  options: RepairFilesOptions,
): Promise<Manifest> {
  const { db, identity } = archive.state;
  const dated = damaged.filter(({ file }) => file.date !== null);
  const days = [...Map.groupBy(dated, ({ file }) => parseDayStart(file.date!))].sort(([a], [b]) => a - b);
  for (const [done, [day, ofDay]] of days.entries()) {
    options.signal?.throwIfAborted();
    for (const one of ofDay)
      if (one.dataset === 'conflicts' || one.dataset === 'markets')
        repairRows(archive, stage, one.dataset, one, losses);
    repairDay(
      archive,
      stage,
      day,
      new Map(ofDay.map((one) => [one.file.path, one])),
      losses,
      options.lifetimeRules.settleMs,
    );
    options.onProgress?.(done + 1, days.length);
    // Signals and the progress bar get their turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  losses.windows.sort(compareLostWindows);
  const known = readAllSymbols(db);
  const parts = listPartsToCount(stage, damaged, known, identity.parts);
  const counts = countStagedTicks(archive, stage, parts);
  const nowMs = options.clock.nowMs();
  const { symbols, changed } = recountSymbols(known, counts, parts, identity.parts, nowMs);
  stageSymbols(archive, stage, symbols);
  if (symbols.length === 0 && damaged.some(({ dataset }) => dataset === 'symbols')) stageRemoval(stage, symbolsPath);
  const coverage = readAllSegments(db);
  const lost = Map.groupBy(losses.windows, ({ symbol }) => symbol);
  for (const [symbol, windows] of lost) {
    const left = (coverage.get(symbol) ?? []).flatMap((one) => subtract([one], windows).map((w) => ({ ...one, ...w })));
    coverage.set(symbol, left);
  }
  const after = { symbols, coverage, lost: [...readLostWindows(db), ...losses.windows].sort(compareLostWindows) };
  // All that is published was looked at, and what was wrong of it is mended by this.
  const manifest = createNextManifest(archive, stage, after, options, []);
  commitStage(archive, stage, manifest, sortMoves(stage), () => {
    recordStagedFiles(archive, stage, nowMs);
    dropRowGroups(db, stage.removedPaths);
    for (const [symbol, windows] of lost) retractSegments(db, symbol, windows);
    recordLost(db, losses.windows, nowMs);
    setTickCounts(db, changed, nowMs);
  });
  return manifest;
}

/** Parts whose symbols' ticks are to be counted: those that lost some; all where the state does not add up. */
function listPartsToCount(
  { base }: Stage,
  broken: RepairTriage['damaged'],
  known: readonly { readonly ticks: number }[],
  parts: number,
): Set<number> {
  const published = sumFileTotals(base.datasets.ticks.files).rows;
  const all = known.reduce((sum, { ticks }) => sum + ticks, 0) !== published;
  const paths = broken.filter(({ dataset }) => dataset === 'ticks').map(({ file }) => file.path);
  const lost = (part: number): boolean =>
    paths.some((path) => path.endsWith(`/part-${String(part).padStart(2, '0')}.parquet`));
  return new Set(Array.from({ length: parts }, (_, part) => part).filter((part) => all || lost(part)));
}
