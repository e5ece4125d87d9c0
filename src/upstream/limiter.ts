import PQueue from 'p-queue';
import type { Clock } from '../core/clock.ts';
import { createPacer } from './pacer.ts';

/** A pause of the key that is longer than the client is willing to wait. */
export class PausedTooLong extends Error {
  readonly pauseMs: number;
  constructor(pauseMs: number) {
    super(`paused for ${Math.round(pauseMs / 1000)} s`);
    this.name = 'PausedTooLong';
    this.pauseMs = pauseMs;
  }
}

/** A request's place in the pace. */
export interface Turn {
  /** To be called when the headers of the answer are there. */
  answered(): void;
}

export interface LimiterOptions {
  readonly requestsPerSecond: number;
  readonly concurrency: number;
  readonly pauseMsMax: number;
}

/** Everything under one key goes through one limiter. */
export interface Limiter {
  /**
   * Runs a task when it has a free slot and its turn in the pace. Greater priority goes first.
   * @throws PausedTooLong, or the signal's reason, at once and in every state
   */
  run<T>(task: (turn: Turn) => Promise<T>, place: { priority: number; signal: AbortSignal }): Promise<T>;
  /** No task starts within the next `ms`. Pauses never shorten each other. */
  pause(ms: number): void;
  /** Milliseconds with a task at the head of the line that the pace held back. */
  waitedMs(): number;
  /** Milliseconds of pauses, each moment counted once. */
  throttledMs(): number;
}

export function createLimiter(options: LimiterOptions, clock: Clock): Limiter {
  const pacer = createPacer(options.requestsPerSecond);
  const slots = new PQueue({ concurrency: options.concurrency });
  // A line of one: whoever is in it waits for the pace, the others behind it keep their order.
  const line = new PQueue({ concurrency: 1 });
  let resumeAt = Number.NEGATIVE_INFINITY;
  let waitedMs = 0;
  let throttledMs = 0;

  async function takeTurn(signal: AbortSignal): Promise<number> {
    const asked = clock.monotonicMs();
    for (;;) {
      signal.throwIfAborted();
      const now = clock.monotonicMs();
      if (resumeAt - now > options.pauseMsMax) throw new PausedTooLong(resumeAt - now);
      const next = Math.max(resumeAt, pacer.earliestMs(now));
      if (next <= now) {
        waitedMs += Math.max(0, now - Math.max(asked, resumeAt));
        return pacer.start(now);
      }
      // Both a pause and an answer may move `next`, so it is asked for again.
      await clock.sleep(next - now, signal);
    }
  }

  async function runInSlot<T>(task: (turn: Turn) => Promise<T>, signal: AbortSignal): Promise<T> {
    const request = await line.add(() => takeTurn(signal), { signal });
    let isAnswered = false;
    try {
      return await task({
        answered() {
          isAnswered = true;
          pacer.answered(request, clock.monotonicMs());
        },
      });
    } finally {
      if (!isAnswered) pacer.lost(request, clock.monotonicMs());
    }
  }

  return {
    run: (task, { priority, signal }) => slots.add(() => runInSlot(task, signal), { priority, signal }),
    pause(ms) {
      const now = clock.monotonicMs();
      const until = now + ms;
      if (until <= resumeAt) return;
      throttledMs += until - Math.max(now, resumeAt);
      resumeAt = until;
    },
    waitedMs: () => waitedMs,
    throttledMs: () => throttledMs,
  };
}
