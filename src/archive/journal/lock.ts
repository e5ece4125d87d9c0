import { accessSync, constants } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { createDiskFullError, isOnFullDisk } from './database.ts';

/** A right that one process at a time has: the system frees it however the process ends. */
export interface WriteLock {
  release(): void;
}

const retryMs = 100;

/** SQLite's result codes, https://sqlite.org/rescode.html. */
const busyCode = 5;
const cannotOpenCode = 14;
const notDatabaseCode = 26;

/** A lock that this user may not take: somebody else made its file, or the folder that it is to be in. */
export class LockRefusedError extends OddslakeError {
  constructor(path: string) {
    super(exitCodes.unexpected, `Not allowed to take the lock ${path}. Check its owner and permissions.`);
    this.name = 'LockRefusedError';
  }
}

/**
 * Takes a lock, or null where somebody has it: an exclusive transaction on a small SQLite file at `path`, since such a
 * lock outlives SIGSTOP, is freed by SIGKILL, needs no takeover and knows no process numbers, which containers share.
 * @throws LockRefusedError where its file may not be made or written
 */
export function tryLock(path: string): WriteLock | null {
  let db: DatabaseSync | undefined;
  try {
    const opened = new DatabaseSync(path);
    db = opened;
    // Nothing is ever written: a journal would only need room, which a full disk has not.
    opened.exec('pragma busy_timeout = 0; pragma journal_mode = memory; begin exclusive');
    // Of a file that may only be read SQLite begins a reader's transaction, without a word: any number may have that.
    if (isWriteRefused(path)) throw new LockRefusedError(path);
    return { release: () => opened.close() };
  } catch (error) {
    db?.close();
    if (error instanceof LockRefusedError) throw error;
    const code = Number((error as { errcode?: unknown }).errcode) & 0xff;
    if (code === busyCode) return null;
    // Nobody can hold it: there is nothing in it that a lock could be taken on.
    if (code === notDatabaseCode)
      throw new DamageError(`The lock ${path} is damaged: it is no SQLite file. Remove it, and run again.`);
    if (isOnFullDisk(path)) throw createDiskFullError(path, error);
    if (code === cannotOpenCode && (isWriteRefused(path) || isWriteRefused(dirname(path))))
      throw new LockRefusedError(path);
    throw error;
  }
}

/** Whether this user may not write there; of what is gone nobody can say so. */
function isWriteRefused(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

/**
 * Takes the archive's write lock, the right to change published files. Waits up to `waitMs`, then fails with exit code 5.
 * @param otherwise how things stand where it could not be had, and what to do: a sentence of whoever asks for it
 */
export async function takeWriteLock(
  path: string,
  waitMs: number,
  clock: Clock,
  signal?: AbortSignal,
  otherwise = 'Nothing was changed; run again once it is done.',
): Promise<WriteLock> {
  const giveUpAt = clock.monotonicMs() + waitMs;
  for (;;) {
    const lock = tryLock(path);
    if (lock !== null) return lock;
    if (clock.monotonicMs() >= giveUpAt) {
      throw new OddslakeError(
        exitCodes.busy,
        `Another run is writing this archive and ${Math.round(waitMs / 1000)} s of waiting are over (${path}). ${otherwise}`,
      );
    }
    await clock.sleep(retryMs, signal);
  }
}
