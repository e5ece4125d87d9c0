import { join } from 'node:path';
import { addDays, formatDay } from '../../core/time.ts';
import type { ArchiveLayout } from '../layout.ts';
import type { Archive } from '../open-archive.ts';

export interface RawRetention {
  /** Whole days for which answers are kept as they came, besides the present one; 0 keeps none. */
  readonly keepDays: number;
  /** Bytes of all of them together. */
  readonly bytesMax: number;
}

type ArchiveFiles = Pick<Archive, 'disk' | 'layout'>;

/** Where the answers of a UTC day are. */
export const toRawFolder = (layout: ArchiveLayout, day: string): string => join(layout.privateFolder, 'raw', day);

const isDayName = (name: string): boolean => /^\d{4}-\d\d-\d\d$/.test(name);

/** Every file of raw pages, the oldest day first. */
export const listRawFiles = ({ disk, layout }: ArchiveFiles): string[] =>
  disk
    .list(join(layout.privateFolder, 'raw'))
    .filter(isDayName)
    .flatMap((day) => disk.list(toRawFolder(layout, day)).map((name) => join(toRawFolder(layout, day), name)))
    .filter((path) => disk.isFile(path));

/**
 * Removes raw pages that are older than they are kept, and the oldest where there are too many of them. A file that is
 * being written may be among them: what is written into it from then on is gone with it.
 * @param nowMs null to look at the bytes only
 */
export function pruneRawFiles(
  { disk, layout }: ArchiveFiles,
  { keepDays, bytesMax }: RawRetention,
  nowMs: number | null,
): void {
  const root = join(layout.privateFolder, 'raw');
  if (keepDays === 0) disk.remove(root);
  const first = nowMs === null ? '' : addDays(formatDay(nowMs), -keepDays);
  for (const day of disk.list(root).filter(isDayName)) if (day < first) disk.remove(toRawFolder(layout, day));
  const files = listRawFiles({ disk, layout }).map((path) => ({ path, bytes: disk.size(path) ?? 0 }));
  let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of files) {
    if (total <= bytesMax) break;
    disk.remove(path);
    total -= bytes;
  }
}
