import { compareLost } from '../../core/data-loss.ts';
import { dayStart } from '../../core/time.ts';
import { subtract } from '../../core/window.ts';
import { allSegments, retractSegments } from '../../state/coverage.ts';
import { lostWindows, noteLost } from '../../state/data-loss.ts';
import { dropRowGroups } from '../../state/file-metadata.ts';
import { allSymbols, setTickCounts } from '../../state/symbols.ts';
import { commit } from '../generation/commit.ts';
import { type JudgedBy, movesOf, nextManifest, stageSymbols } from '../generation/next-manifest.ts';
import { recordFiles, type Stage, stageRemoval } from '../generation/staging.ts';
import { symbolsPath } from '../layout.ts';
import { type Manifest, totalsOf } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { countTicks, recounted } from './recount.ts';
import { mendDay } from './repair-day.ts';
import { mendRows } from './repair-rows.ts';
import type { Examined } from './triage.ts';
import type { Losses } from './types.ts';

export interface MendOptions extends JudgedBy {
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

/**
 * Commits the generation that lacks what is lost, and with it that its coverage is taken back. Holder of the write lock
 * only; all that is not `broken` is intact.
 */
export async function mendBroken(
  archive: Archive,
  stage: Stage,
  { broken }: Examined,
  losses: Losses,
  options: MendOptions,
): Promise<Manifest> {
  const { db, identity } = archive.state;
  const dated = broken.filter(({ file }) => file.date !== null);
  const days = [...Map.groupBy(dated, ({ file }) => dayStart(file.date!))].sort(([a], [b]) => a - b);
  for (const [done, [day, ofDay]] of days.entries()) {
    options.signal?.throwIfAborted();
    for (const one of ofDay)
      if (one.dataset === 'conflicts' || one.dataset === 'markets') mendRows(archive, stage, one.dataset, one, losses);
    mendDay(archive, stage, day, new Map(ofDay.map((one) => [one.file.path, one])), losses, options.rules.settleMs);
    options.onProgress?.(done + 1, days.length);
    // Signals and the progress bar get their turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  losses.windows.sort(compareLost);
  const known = allSymbols(db);
  const parts = partsToCount(stage, broken, known, identity.parts);
  const counts = countTicks(archive, stage, parts);
  const nowMs = options.clock.nowMs();
  const { symbols, changed } = recounted(known, counts, parts, identity.parts, nowMs);
  stageSymbols(archive, stage, symbols);
  if (symbols.length === 0 && broken.some(({ dataset }) => dataset === 'symbols')) stageRemoval(stage, symbolsPath);
  const coverage = allSegments(db);
  const lost = Map.groupBy(losses.windows, ({ symbol }) => symbol);
  for (const [symbol, windows] of lost) {
    const left = (coverage.get(symbol) ?? []).flatMap((one) => subtract([one], windows).map((w) => ({ ...one, ...w })));
    coverage.set(symbol, left);
  }
  const after = { symbols, coverage, lost: [...lostWindows(db), ...losses.windows].sort(compareLost) };
  // All that is published was looked at, and what was wrong of it is mended by this.
  const manifest = nextManifest(archive, stage, after, options, []);
  commit(archive, stage, manifest, movesOf(stage), () => {
    recordFiles(archive, stage, nowMs);
    dropRowGroups(db, stage.gone);
    for (const [symbol, windows] of lost) retractSegments(db, symbol, windows);
    noteLost(db, losses.windows, nowMs);
    setTickCounts(db, changed, nowMs);
  });
  return manifest;
}

/** Parts whose symbols' ticks are to be counted: those that lost some; all where the state does not add up. */
function partsToCount(
  { base }: Stage,
  broken: Examined['broken'],
  known: readonly { readonly ticks: number }[],
  parts: number,
): Set<number> {
  const published = totalsOf(base.datasets.ticks.files).rows;
  const all = known.reduce((sum, { ticks }) => sum + ticks, 0) !== published;
  const paths = broken.filter(({ dataset }) => dataset === 'ticks').map(({ file }) => file.path);
  const lost = (part: number): boolean =>
    paths.some((path) => path.endsWith(`/part-${String(part).padStart(2, '0')}.parquet`));
  return new Set(Array.from({ length: parts }, (_, part) => part).filter((part) => all || lost(part)));
}
