import { existsSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';

const memory = '/dev/shm';
/** What the tests of two processes hold at one time, with room, in bytes. A container may have 64 MB there. */
const bytesMin = 2 ** 31;

function hasRoom(): boolean {
  if (!existsSync(memory)) return false;
  const { bavail, bsize } = statfsSync(memory);
  return bavail * bsize >= bytesMin;
}

/** Where tests keep archives: in memory where it has room, for syncs are free there, and none is about a power cut. */
export const scratchRoot: string = hasRoom() ? memory : tmpdir();
