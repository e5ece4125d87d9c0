import { randomBytes } from 'node:crypto';
import type { Clock, Random } from './ports.ts';

const timerMsMax = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // Counts from the start of the machine, so all processes share the origin.
  monotonicMs() {
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1000 + nanoseconds / 1e6;
  },
  async sleep(ms, signal) {
    // A delay of more than 31 bits would fire immediately.
    for (let left = ms; left > 0 || left === ms; left -= timerMsMax) {
      await waitForTimer(Math.max(0, Math.min(left, timerMsMax)), signal);
    }
  },
};

/** Unlike `setTimeout` of node:timers/promises, this does not create an error with a stack trace for each aborted wait. */
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

/** Cryptographically secure random bytes. */
export const systemRandomBytes = (count: number): Uint8Array => randomBytes(count);
