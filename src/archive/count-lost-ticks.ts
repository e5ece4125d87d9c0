import type { LostWindow } from '../core/data-loss.ts';
import { partOf } from '../core/partition.ts';
import { countIn, timesIn } from '../core/tick-search.ts';
import { dayFloor } from '../core/window.ts';
import { dayPath } from './layout.ts';
import { fileAt } from './manifest.ts';
import { type Archive, readPublished } from './open-archive.ts';
import { decodeTicks } from './parquet/ticks-file.ts';

/**
 * How many ticks are published in each of these lost windows, in their order. Reads one part after the other.
 * @throws DamageError where one is damaged
 */
export function heldTicks(archive: Archive, lost: readonly LostWindow[]): number[] {
  const manifest = archive.manifest();
  const held = new Map<LostWindow, number>();
  const pathOf = ({ symbol, from }: LostWindow): string =>
    dayPath('ticks', dayFloor(from), partOf(symbol, manifest.parts));
  for (const [path, windows] of Map.groupBy(lost, pathOf)) {
    const file = fileAt(manifest, 'ticks', path);
    if (file === undefined) continue;
    const timesOf = timesIn(decodeTicks(readPublished(archive, file)));
    for (const window of windows) held.set(window, countIn(timesOf(window.symbol), window));
  }
  return lost.map((window) => held.get(window) ?? 0);
}
