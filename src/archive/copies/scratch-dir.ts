import { join } from 'node:path';
import { LockRefusedError, tryLock, type WriteLock } from '../../state/lock.ts';
import type { Archive } from '../open-archive.ts';

/** A folder of this process's own, which others leave alone as long as it is held: the system frees it with the process. */
export interface ScratchFolder {
  /** Absolute; made when it is taken. */
  readonly folder: string;
  /** Removes the folder with all that is in it. */
  release(): void;
}

/** Where scratch is: folders, and beside each of them the lock that its process holds. */
const toScratchRoot = ({ layout }: Archive): string => join(layout.privateFolder, 'pins');

const lockSuffix = '.held';

/** Times that somebody may clear a folder between its lock being made and being held. */
const lockAttemptsMax = 20;

/**
 * Takes a folder for scratch, and clears what processes that are gone have left. Whether one is gone is told by the
 * lock: numbers of processes begin anew with every container, and are given again.
 * @param id tells apart whatever one process holds
 */
export function acquireScratchFolder(archive: Archive, id: string): ScratchFolder {
  removeAbandonedScratch(archive);
  const { disk } = archive;
  const home = toScratchRoot(archive);
  disk.makeVolatileFolder(home);
  for (let attempt = 1; attempt <= lockAttemptsMax; attempt++) {
    const folder = join(home, `${process.pid}-${id}${attempt === 1 ? '' : `-${attempt}`}`);
    const lock = tryLock(folder + lockSuffix);
    if (lock === null) continue;
    // Whoever had it before us has cleared it away: our lock is on a file that nobody finds.
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
    return {
      folder,
      release() {
        removeScratchFolder(archive, folder, lock);
      },
    };
  }
  throw new Error(`${home} has no place for ${id}`);
}

/** The lock last: whoever finds it free finds nothing else. */
function removeScratchFolder({ disk }: Archive, folder: string, lock: WriteLock): void {
  try {
    disk.remove(folder);
    disk.remove(folder + lockSuffix);
  } finally {
    lock.release();
  }
}

/** Removes what nobody holds any more. One process clears at a time, since a lock that was removed holds nobody off. */
export function removeAbandonedScratch(archive: Archive): void {
  const { disk, layout } = archive;
  const home = toScratchRoot(archive);
  const names = disk.list(home);
  if (names.length === 0) return;
  const clearing = tryLockOwn(join(layout.privateFolder, 'pins.lock'));
  if (clearing === null) return;
  try {
    for (const name of new Set(names.map((name) => name.replace(/\.held$/, '')))) {
      const folder = join(home, name);
      const lock = tryLockOwn(folder + lockSuffix);
      if (lock !== null) removeScratchFolder(archive, folder, lock);
    }
  } finally {
    clearing.release();
  }
}

/** What another user left, root perhaps, is for that user to clear: it is in nobody's way. */
function tryLockOwn(path: string): WriteLock | null {
  try {
    return tryLock(path);
  } catch (error) {
    if (error instanceof LockRefusedError) return null;
    throw error;
  }
}
