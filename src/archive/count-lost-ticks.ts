import { computePartNumber } from '../base/symbol-name.ts';
import { floorToDay } from '../base/window.ts';
import type { LostWindow } from './format/coverage.ts';
import { toDayPath } from './format/layout.ts';
import { findManifestFile } from './format/manifest.ts';
import { countTicksInWindow, indexTickTimes } from './format/tick-columns.ts';
import { type Archive, readPublishedFile } from './open-archive.ts';
import { decodeTicks } from './parquet/ticks-file.ts';

/**
 * How many ticks are published in each of these lost windows, in their order. Reads one part after the other.
 * @throws DamageError where one is damaged
 */
export function countPublishedTicks(archive: Archive, lost: readonly LostWindow[]): number[] {
  const manifest = archive.readManifest();
  const held = new Map<LostWindow, number>();
  const pathOf = ({ symbol, from }: LostWindow): string =>
    toDayPath('ticks', floorToDay(from), computePartNumber(symbol, manifest.parts));
  for (const [path, windows] of Map.groupBy(lost, pathOf)) {
    const file = findManifestFile(manifest, 'ticks', path);
    if (file === undefined) continue;
    const timesOf = indexTickTimes(decodeTicks(readPublishedFile(archive, file)));
    for (const window of windows) held.set(window, countTicksInWindow(timesOf(window.symbol), window));
  }
  return lost.map((window) => held.get(window) ?? 0);
}
