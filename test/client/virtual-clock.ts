import type { Clock } from '../../src/base/ports.ts';

/** A clock that only advances on demand. */
interface VirtualClock extends Clock {
  /** Runs everything due within the next `ms`, in order. */
  pass(ms: number): Promise<void>;
}

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

export function createVirtualClock(): VirtualClock {
  let now = 0;
  const sleepers = new Set<Sleeper>();
  return {
    ...clockOf(() => now, sleepers),
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

/**
 * A clock on which sleeping takes no time: it jumps to the end of the next sleep, unless `mayLeap` returns false. Sleeps
 * longer than `leapMsMax` are deadlines: only their signal ends them.
 */
export function createLeapingClock({
  leapMsMax = 120_000,
  onSleep = () => {},
  mayLeap = (): boolean => true,
} = {}): Clock {
  let now = 0;
  let isLeaping = false;
  const sleepers = new Set<Sleeper>();
  const clock = clockOf(() => now, sleepers);
  async function leap(): Promise<void> {
    if (isLeaping) return;
    isLeaping = true;
    for (;;) {
      await settle();
      while (!mayLeap()) await settle();
      const [next] = [...sleepers].filter(({ at }) => at <= now + leapMsMax).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      now = Math.max(now, next.at);
      sleepers.delete(next);
      next.wake();
    }
    isLeaping = false;
  }
  return {
    ...clock,
    sleep(ms, signal) {
      onSleep();
      const sleeping = clock.sleep(ms, signal);
      void leap();
      return sleeping;
    },
  };
}

function clockOf(now: () => number, sleepers: Set<Sleeper>): Clock {
  return {
    nowMs: () => 1_700_000_000_000 + now(),
    monotonicMs: now,
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
        const sleeper = { at: now() + ms, wake };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', abort);
      }),
  };
}
