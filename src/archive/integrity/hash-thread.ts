import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

// What a thread that hashes is asked to do.

/** It stays in the processor's cache from the read to the hash, which a whole file would not. */
const readBuffer = Buffer.allocUnsafeSlow(256 * 1024);

/**
 * The sha256 of the file at a path; null where there is no file to read, or not all of it can be: what is wrong with it is
 * for others to say.
 */
export function hashOf(path: string): string | null {
  try {
    // A pipe that took its place would hold the thread for ever.
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
