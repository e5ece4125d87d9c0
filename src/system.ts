import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock, Random } from './core/clock.ts';

const timerMsMax = 2 ** 31 - 1;

/** The machine's own clock. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // Since the machine started, the same for all of its processes.
  monotonicMs() {
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1000 + nanoseconds / 1e6;
  },
  async sleep(ms, signal) {
    try {
      // Timers count in 31 bits; a longer one would fire at once.
      for (let left = ms; left > 0 || left === ms; left -= timerMsMax) {
        await delay(Math.max(0, Math.min(left, timerMsMax)), undefined, signal === undefined ? {} : { signal });
      }
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  },
};

export const systemRandom: Random = () => Math.random();

/** Processors that this process may use. */
export const processors = (): number => availableParallelism();

/** Bytes that nobody can guess, for secrets. */
export const systemRandomBytes = (count: number): Uint8Array => randomBytes(count);
