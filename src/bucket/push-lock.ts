import { join } from 'node:path';
import type { Archive } from '../archive/archive.ts';
import { type WriteLock, waitForLock } from '../archive/journal/lock.ts';
import { exitCodes, OddslakeError } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';

/**
 * Takes the lock under which one push of an archive runs at a time on a machine. Without conditional writes
 * (`bucket.single_writer`), the slower of two pushes at once would put an earlier generation back. Waits up to `waitMs`. The
 * system releases the lock of a process that is killed.
 * @throws OddslakeError (busy) if another push still holds the lock
 */
export async function takePushLock(
  { layout }: Archive,
  waitMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<WriteLock> {
  const path = join(layout.privateFolder, 'push-lock.sqlite');
  const lock = await waitForLock(path, waitMs, clock, signal);
  if (lock !== null) return lock;
  throw new OddslakeError(
    exitCodes.busy,
    `Another push of this archive is still running after ${Math.round(waitMs / 1000)} s (${path}). Push again when it has ended.`,
  );
}
