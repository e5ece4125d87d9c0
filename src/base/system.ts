import { randomBytes } from 'node:crypto';
import type { Clock, Random } from './ports.ts';

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
    // Timers count in 31 bits; a longer one would fire at once.
    for (let left = ms; left > 0 || left === ms; left -= timerMsMax) {
      await waitForTimer(Math.max(0, Math.min(left, timerMsMax)), signal);
    }
  },
};

/** Node's own makes an error of its own, with a stack, for every wait that is broken off: as many as there are requests. */
function waitForTimer(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

export const systemRandom: Random = () => Math.random();

/** Bytes that nobody can guess, for secrets. */
export const systemRandomBytes = (count: number): Uint8Array => randomBytes(count);
