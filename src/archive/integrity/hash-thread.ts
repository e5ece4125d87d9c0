import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { lowerInBackground } from '../../base/worker-threads.ts';

lowerInBackground();

// The task that hashing worker threads run.

/** Small enough to stay in the CPU cache between read and hash. */
const readBuffer = Buffer.allocUnsafeSlow(256 * 1024);

/**
 * The sha256 of the file at a path; null if it is not a regular file or cannot be read completely. The caller
 * determines the reason.
 */
export function hashFile(path: string): string | null {
  try {
    // Opening a pipe without O_NONBLOCK could block the thread forever.
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      if (!fstatSync(file).isFile()) return null;
      const hash = createHash('sha256');
      for (let n = readSync(file, readBuffer); n > 0; n = readSync(file, readBuffer))
        hash.update(readBuffer.subarray(0, n));
      return hash.digest('hex');
    } finally {
      closeSync(file);
    }
  } catch {
    return null;
  }
}
