import { LRUCache } from 'lru-cache';
import type { Clock } from '../core/clock.ts';

/** Counts that begin with the first request and start anew when their window is over. */
export interface FixedWindowLimiter {
  /** Takes one of `quota` in the window of `name`; `allowed` is false where none was left, and nothing is taken then. */
  acquire(name: string, quota: number): RateLimitDecision;
  /** Puts one back that was taken for nothing. */
  refund(name: string): void;
}

export interface RateLimitDecision {
  readonly isAllowed: boolean;
  readonly remaining: number;
  /** Whole seconds until the window is over, at least 1. */
  readonly resetSeconds: number;
}

/** The window of every limit. */
export const windowSeconds = 60;

interface WindowCount {
  used: number;
  /** Monotonic ms. */
  readonly endsAt: number;
}

/** Windows of at most `namesMax` names; beyond it the one not seen for longest begins anew. */
export function createFixedWindowLimiter(clock: Clock, namesMax: number): FixedWindowLimiter {
  const counts = new LRUCache<string, WindowCount>({ max: namesMax });
  return {
    acquire(name, quota) {
      const nowMs = clock.monotonicMs();
      let count = counts.get(name);
      if (count === undefined || count.endsAt <= nowMs) {
        count = { used: 0, endsAt: nowMs + windowSeconds * 1000 };
        counts.set(name, count);
      }
      const allowed = count.used < quota;
      if (allowed) count.used++;
      const resetSeconds = Math.max(1, Math.ceil((count.endsAt - nowMs) / 1000));
      return { isAllowed: allowed, remaining: Math.max(0, quota - count.used), resetSeconds };
    },
    refund(name) {
      const count = counts.peek(name);
      if (count !== undefined && count.used > 0) count.used--;
    },
  };
}

/** The headers of draft-ietf-httpapi-ratelimit-headers, version 8 and later. */
export const formatRateLimitHeaders = (
  policy: string,
  quota: number,
  { remaining, resetSeconds }: RateLimitDecision,
) => ({
  'ratelimit-policy': `"${policy}";q=${quota};w=${windowSeconds}`,
  ratelimit: `"${policy}";r=${remaining};t=${resetSeconds}`,
});
