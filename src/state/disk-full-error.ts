import { type StatsFs, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { DiskFullError } from '../core/errors.ts';

/** What SQLite takes at a time for the index of its log, in bytes: with less, a write fails that finds some room left. */
const databaseBytesMin = 32 * 1024;

type FileSystemCounts = Pick<StatsFs, 'blocks' | 'bavail' | 'bsize' | 'files' | 'ffree'>;

/** Whether a file system has no room for a database, in bytes or in files. Some count neither: these are never full. */
export const isFull = ({ blocks, bavail, bsize, files, ffree }: FileSystemCounts): boolean =>
  (blocks > 0 && bavail * bsize < databaseBytesMin) || (files > 0 && ffree === 0);

/** Whether the disk of a database is full at this moment: SQLite may call that an I/O error, or fail to open a file. */
export function isOnFullDisk(path: string): boolean {
  try {
    return isFull(statfsSync(dirname(path)));
  } catch {
    return false;
  }
}

export const createDiskFullError = (path: string, cause: unknown): DiskFullError =>
  new DiskFullError(
    `The disk is full: ${path} could not grow. Free some space and run again; what was accepted before is kept.`,
    { cause },
  );
