import { accessSync, constants } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { createDiskFullError, isOnFullDisk } from './database.ts';

/** An exclusive lock of one process. The system releases it however the process ends. */
export interface WriteLock extends Disposable {
  release(): void;
}

const retryMs = 100;

/** SQLite's result codes, https://sqlite.org/rescode.html. */
const busyCode = 5;
const cannotOpenCode = 14;
const notDatabaseCode = 26;

/** This user has no permission for the lock file, or for its folder. */
export class LockRefusedError extends OddslakeError {
  constructor(path: string) {
    super(exitCodes.unexpected, `Not allowed to take the lock ${path}. Check its owner and permissions.`);
    this.name = 'LockRefusedError';
  }
}

/**
 * Tries to take a lock; null if another process holds it. The lock is an exclusive transaction on a small SQLite file
 * at `path`: it survives SIGSTOP, is released by SIGKILL, needs no takeover, and does not depend on process IDs, which
 * containers share.
 * @throws LockRefusedError if the file cannot be created or written
 */
export function tryLock(path: string): WriteLock | null {
  let db: DatabaseSync | undefined;
  try {
    const opened = new DatabaseSync(path);
    db = opened;
    // Nothing is written, so no journal file is needed. A full disk would have no space for one.
    opened.exec('pragma busy_timeout = 0; pragma journal_mode = memory; begin exclusive');
    // SQLite silently takes a shared lock on a read-only file, which many processes can hold at once.
    if (isWriteRefused(path)) throw new LockRefusedError(path);
    const release = (): void => opened.close();
    return { release, [Symbol.dispose]: release };
  } catch (error) {
    db?.close();
    if (error instanceof LockRefusedError) throw error;
    const code = Number((error as { errcode?: unknown }).errcode) & 0xff;
    if (code === busyCode) return null;
    // The file is not a database, so no process can hold the lock.
    if (code === notDatabaseCode)
      throw new DamageError(`The lock ${path} is damaged: it is not an SQLite file. Remove it and run again.`);
    if (isOnFullDisk(path)) throw createDiskFullError(path, error);
    if (code === cannotOpenCode && (isWriteRefused(path) || isWriteRefused(dirname(path))))
      throw new LockRefusedError(path);
    throw error;
  }
}

/** Whether this user has no write permission. False if the file is missing. */
function isWriteRefused(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

/**
 * Takes the archive's write lock, the right to change published files. Waits up to `waitMs`, then fails with exit code
 * 5.
 * @param describe the end of the error message: the state of the archive and what to do. Called only if the lock stays held
 */
export async function takeWriteLock(
  path: string,
  waitMs: number,
  clock: Clock,
  signal?: AbortSignal,
  describe = () => 'Nothing was changed; run again once it is done.',
): Promise<WriteLock> {
  const lock = await waitForLock(path, waitMs, clock, signal);
  if (lock !== null) return lock;
  throw new OddslakeError(
    exitCodes.busy,
    `Another run is still writing this archive after ${Math.round(waitMs / 1000)} s (${path}). ${describe()}`,
  );
}

/** Takes a lock; waits up to `waitMs` for its holder. Null if it is still held then. */
export async function waitForLock(
  path: string,
  waitMs: number,
  clock: Clock,
  signal?: AbortSignal,
): Promise<WriteLock | null> {
  const deadline = clock.monotonicMs() + waitMs;
  for (;;) {
    const lock = tryLock(path);
    if (lock !== null || clock.monotonicMs() >= deadline) return lock;
    await clock.sleep(retryMs, signal);
  }
}
