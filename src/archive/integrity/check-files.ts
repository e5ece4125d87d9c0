import { join } from 'node:path';
import { type Disk, sha256 } from '../disk/file-system.ts';
import { type PublishedFile, requireFileHash } from '../format/manifest.ts';
import { hashFile } from './hash-thread.ts';

// Imports little, because threads load this module.

/** Files that several threads check together. Each of them calls `checkNextFile` until there are no more. */
export type SharedCheck = ReturnType<typeof createSharedCheck>;

export const createSharedCheck = (root: string, files: readonly PublishedFile[]) => ({
  /** Folder of the files. */
  root,
  files,
  /** Shared; the number of files that a thread has taken. */
  taken: new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)),
});

/**
 * Checks the hash of the next file that no thread has taken. False if there is none.
 * @throws DamageError if it differs from the manifest; all threads then find no more files
 */
export function checkNextFile({ root, files, taken }: SharedCheck, disk: Pick<Disk, 'read'>): boolean {
  const file = files[Atomics.add(taken, 0, 1)];
  if (file === undefined) return false;
  try {
    const path = join(root, file.path);
    // Reading it whole would take more time than hashing it, but says why it cannot be read.
    requireFileHash(hashFile(path) ?? sha256(disk.read(path)), file);
    return true;
  } catch (error) {
    Atomics.store(taken, 0, files.length);
    throw error;
  }
}
