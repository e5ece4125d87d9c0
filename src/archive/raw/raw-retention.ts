import { join } from 'node:path';
import { addDays, dayOf } from '../../core/time.ts';
import type { Layout } from '../layout.ts';
import type { Archive } from '../open-archive.ts';

export interface RawLimits {
  /** Whole days for which answers are kept as they came, besides the present one; 0 keeps none. */
  readonly keepDays: number;
  /** Bytes of all of them together. */
  readonly bytesMax: number;
}

type Place = Pick<Archive, 'disk' | 'layout'>;

/** Where the answers of a UTC day are. */
export const rawFolder = (layout: Layout, day: string): string => join(layout.private, 'raw', day);

const isDay = (name: string): boolean => /^\d{4}-\d\d-\d\d$/.test(name);

/** Every file of raw pages, the oldest day first. */
export const rawFiles = ({ disk, layout }: Place): string[] =>
  disk
    .list(join(layout.private, 'raw'))
    .filter(isDay)
    .flatMap((day) => disk.list(rawFolder(layout, day)).map((name) => join(rawFolder(layout, day), name)))
    .filter((path) => disk.isFile(path));

/**
 * Removes raw pages that are older than they are kept, and the oldest where there are too many of them. A file that is
 * being written may be among them: what is written into it from then on is gone with it.
 * @param nowMs null to look at the bytes only
 */
export function pruneRaw({ disk, layout }: Place, { keepDays, bytesMax }: RawLimits, nowMs: number | null): void {
  const root = join(layout.private, 'raw');
  if (keepDays === 0) disk.remove(root);
  const first = nowMs === null ? '' : addDays(dayOf(nowMs), -keepDays);
  for (const day of disk.list(root).filter(isDay)) if (day < first) disk.remove(rawFolder(layout, day));
  const files = rawFiles({ disk, layout }).map((path) => ({ path, bytes: disk.size(path) ?? 0 }));
  let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of files) {
    if (total <= bytesMax) break;
    disk.remove(path);
    total -= bytes;
  }
}
