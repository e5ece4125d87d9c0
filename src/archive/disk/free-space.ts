import { statfsSync } from 'node:fs';

/** Bytes of a file system: those that we may still write, and all of them. */
export interface DiskSpace {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** The file system that a path is on; null where it does not tell, as some network ones. */
export function readDiskSpace(path: string): DiskSpace | null {
  try {
    const { bavail, blocks, bsize } = statfsSync(path);
    return blocks > 0 ? { freeBytes: bavail * bsize, totalBytes: blocks * bsize } : null;
  } catch {
    return null;
  }
}
