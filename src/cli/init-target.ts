import { basename, dirname, join } from 'node:path';
import type { Disk } from '../archive/disk/file-system.ts';
import { UsageError } from '../core/errors.ts';

export const createConfigExistsError = (file: string): UsageError =>
  new UsageError(`${file} is there already, and init never overwrites a file. Name another one, or edit that one.`);

/**
 * Puts a config in its place, whole, once the archive is there that it names: one that was broken off anywhere can be
 * repeated. Where the archive cannot be made, nothing is left of the config; the error is thrown on.
 * @throws UsageError where there is a file already, or none may be written; OddslakeError where the disk is full
 */
export function writeConfig<T>(disk: Disk, file: string, text: string, makeArchive: () => T): T {
  const draft = join(dirname(file), `.${basename(file)}.oddslake-new`);
  // First, so that a folder that takes no file gets no archive either.
  requireConfigWritable(file, () => writeDraft(disk, draft, text));
  try {
    const made = makeArchive();
    if (!tryLink(disk, draft, file)) requireConfigWritable(file, () => disk.rename(draft, file));
    return made;
  } finally {
    disk.remove(draft);
    disk.syncFolder(dirname(file));
  }
}

function writeDraft(disk: Disk, draft: string, text: string): void {
  try {
    disk.write(draft, Buffer.from(text));
  } catch (error) {
    if (isDiskError(error)) disk.remove(draft);
    throw error;
  }
}

function requireConfigWritable(file: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    if (isDiskError(error)) throw error;
    throw new UsageError(`${file} cannot be written: ${(error as Error).message}`, { cause: error });
  }
}

/** False where the file system knows no hard links. */
function tryLink(disk: Disk, from: string, to: string): boolean {
  try {
    disk.link(from, to);
    return true;
  } catch (error) {
    const code = getErrorCode(error);
    if (code === 'EEXIST' || disk.size(to) !== null) throw createConfigExistsError(to);
    if (['EPERM', 'ENOTSUP', 'ENOSYS', 'EMLINK'].includes(code ?? '')) return false;
    throw error;
  }
}

/** A disk that is full or fails is told as that. */
const isDiskError = (error: unknown): boolean => ['ENOSPC', 'EDQUOT', 'EIO'].includes(getErrorCode(error) ?? '');

const getErrorCode = (error: unknown): string | undefined =>
  (((error as Error).cause ?? error) as NodeJS.ErrnoException).code;
