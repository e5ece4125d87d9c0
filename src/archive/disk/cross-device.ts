import { basename, dirname, join } from 'node:path';
import type { Disk } from './file-system.ts';

// A folder of the archive may be a link to where there is room. Where that is another file system, nothing of the archive
// can be renamed or linked to it: what was committed has to get there all the same, or no run could ever finish it.

/** Where a file that comes from another file system is made: beside its place, under a name that no reader's glob finds. */
export const toDraftPath = (path: string): string => join(dirname(path), `.${basename(path)}.next`);

/**
 * Puts a file into the place of `to` at once; durable only after `syncFolder` of that folder. Where it has to be copied,
 * `from` stays, for whoever reads it there: it may be done again, any number of times.
 */
export function moveFile(disk: Disk, from: string, to: string): void {
  try {
    disk.rename(from, to);
  } catch (error) {
    if (!isCrossDeviceError(error)) throw error;
    const draft = toDraftPath(to);
    try {
      disk.write(draft, disk.read(from));
      disk.rename(draft, to);
    } catch (failed) {
      disk.remove(draft);
      throw failed;
    }
  }
}

/** Links a file, or copies it where that cannot be: false then. The copy is synced, its folder is not. */
export function linkOrCopy(disk: Disk, from: string, to: string): boolean {
  if (tryLink(disk, from, to)) return true;
  disk.write(to, disk.read(from));
  return false;
}

/** False where the two places share no file system, it knows no hard links, or the file has as many as it may. */
export function tryLink(disk: Disk, from: string, to: string): boolean {
  try {
    disk.link(from, to);
    return true;
  } catch (error) {
    if (linkFallbackCodes.has(toErrorCode(error))) return false;
    throw error;
  }
}

/** Whether a rename or a link failed because it leads from one file system to another. */
export const isCrossDeviceError = (error: unknown): boolean => toErrorCode(error) === 'EXDEV';

const linkFallbackCodes = new Set(['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK']);

const toErrorCode = (error: unknown): string =>
  (((error as Error).cause ?? error) as NodeJS.ErrnoException | undefined)?.code ?? '';
