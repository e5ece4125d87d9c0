import { computePartNumber } from '../base/symbol-name.ts';
import { floorToDay } from '../base/window.ts';
import type { LostWindow } from './format/coverage.ts';
import { toDayPath } from './format/layout.ts';
import { findManifestFile } from './format/manifest.ts';
import { countTicksInWindow, indexTickTimes } from './format/tick-columns.ts';
import type { Archive } from './open-archive.ts';
import { decodeTicks } from './parquet/ticks-file.ts';
import { readPublishedFile } from './read-published-file.ts';

/**
 * Counts the published ticks in each lost window; the counts are in the order of `lost`. Reads one part file at a time.
 * @throws DamageError if a part file is damaged
 */
export function countPublishedTicks(archive: Archive, lost: readonly LostWindow[]): number[] {
  const manifest = archive.readManifest();
  const counts = new Map<LostWindow, number>();
  const toPath = ({ symbol, from }: LostWindow): string =>
    toDayPath('ticks', floorToDay(from), computePartNumber(symbol, manifest.parts));
  for (const [path, windows] of Map.groupBy(lost, toPath)) {
    const file = findManifestFile(manifest, 'ticks', path);
    if (file === undefined) continue;
    const getTimes = indexTickTimes(decodeTicks(readPublishedFile(archive, file)));
    for (const window of windows) counts.set(window, countTicksInWindow(getTimes(window.symbol), window));
  }
  return lost.map((window) => counts.get(window) ?? 0);
}
