import { join } from 'node:path';
import type { Disk } from '../disk/file-system.ts';
import { LockRefusedError, tryLock, type WriteLock } from '../journal/lock.ts';

/** A folder that a lock protects from other processes. The system releases the lock when the process ends. */
export interface LockedFolder {
  /** Absolute path; the folder exists. */
  readonly folder: string;
  /** Removes the folder and its contents. */
  release(): void;
}

/** Next to each folder is the lock file that its process holds. */
const lockSuffix = '.held';

/** Maximum number of attempts. Another process may remove the folder before its lock is held. */
const lockAttemptsMax = 20;

/**
 * Creates a folder of this process below `parent`, and removes those of dead processes. The lock shows whether a process is
 * alive. Process IDs are reused, particularly in containers.
 * @param id distinguishes the folders of one process
 */
export function acquireLockedFolder(disk: Disk, parent: string, id: string): LockedFolder {
  removeAbandonedFolders(disk, parent);
  disk.makeVolatileFolder(parent);
  for (let attempt = 1; attempt <= lockAttemptsMax; attempt++) {
    const folder = join(parent, `${process.pid}-${id}${attempt === 1 ? '' : `-${attempt}`}`);
    const lock = tryLock(folder + lockSuffix);
    if (lock === null) continue;
    // The previous holder removed the lock file: our lock is on an unlinked file.
    if (disk.size(folder + lockSuffix) === null) {
      lock.release();
      continue;
    }
    try {
      disk.makeVolatileFolder(folder);
    } catch (error) {
      lock.release();
      throw error;
    }
    return { folder, release: () => removeLockedFolder(disk, folder, lock) };
  }
  throw new Error(`No folder could be locked in ${parent} for ${id}`);
}

/** Removes the lock file last, so that a free lock means an empty folder. */
function removeLockedFolder(disk: Disk, folder: string, lock: WriteLock): void {
  try {
    disk.remove(folder);
    disk.remove(folder + lockSuffix);
  } finally {
    lock.release();
  }
}

/**
 * Removes folders that no process holds. Only one process clears at a time, because an unlinked lock file does not exclude
 * other processes.
 */
export function removeAbandonedFolders(disk: Disk, parent: string): void {
  const names = disk.list(parent);
  if (names.length === 0) return;
  using clearing = tryLockOwn(`${parent}.lock`);
  if (clearing === null) return;
  for (const name of new Set(names.map((name) => name.replace(/\.held$/, '')))) {
    const folder = join(parent, name);
    const lock = tryLockOwn(folder + lockSuffix);
    if (lock !== null) removeLockedFolder(disk, folder, lock);
  }
}

/** Null also for a lock file of another user, such as root. Only that user can remove its folder. */
function tryLockOwn(path: string): WriteLock | null {
  try {
    return tryLock(path);
  } catch (error) {
    if (error instanceof LockRefusedError) return null;
    throw error;
  }
}
