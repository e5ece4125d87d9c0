import type { Clock } from '../../src/core/clock.ts';

/** A clock that stands still until told to go on. */
export interface VirtualClock extends Clock {
  /** Runs everything due within the next `ms`, in order. */
  pass(ms: number): Promise<void>;
}

export function createVirtualClock(): VirtualClock {
  let now = 0;
  const sleepers = new Set<{ at: number; wake: () => void }>();
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return {
    nowMs: () => 1_700_000_000_000 + now,
    monotonicMs: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        signal?.throwIfAborted();
        const abort = () => {
          sleepers.delete(sleeper);
          reject(signal!.reason);
        };
        const wake = () => {
          signal?.removeEventListener('abort', abort);
          resolve();
        };
        const sleeper = { at: now + ms, wake };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', abort);
      }),
    async pass(ms) {
      const end = now + ms;
      await settle();
      for (;;) {
        const [next] = [...sleepers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        now = Math.max(now, next.at);
        sleepers.delete(next);
        next.wake();
        await settle();
      }
      now = end;
    },
  };
}
