import type { Random } from '../core/clock.ts';

/** Retries on credit, shared by all requests of a client. */
export interface RetryBudget {
  /** Takes one; false when there is none left. */
  take(): boolean;
  noteSuccess(): void;
}

/** A token bucket: starts full, each success gives `gain` back. The idea is gRPC's retry throttling (gRFC A6). */
export function createRetryBudget(retriesMax: number, gain: number): RetryBudget {
  let tokens = retriesMax;
  return {
    take() {
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    noteSuccess() {
      tokens = Math.min(retriesMax, tokens + gain);
    },
  };
}

/**
 * Milliseconds to wait before retry `attempt` (from 0): "full jitter", anything in [0, min(max, min · 2^attempt)), so
 * that clients which failed together do not come back together (M. Brooker, "Exponential backoff and jitter", 2015).
 */
export function computeBackoffMs(attempt: number, delayMsMin: number, delayMsMax: number, random: Random): number {
  return random() * Math.min(delayMsMax, delayMsMin * 2 ** attempt);
}
