import { LRUCache } from 'lru-cache';
import { entriesMax } from '../../base/entries-max.ts';
import type { Clock } from '../../base/ports.ts';
import { ProblemError } from '../http/problem-details.ts';

interface RateLimitDecision {
  readonly isAllowed: boolean;
  readonly remaining: number;
  /** Whole seconds until the window ends, at least 1. */
  readonly resetSeconds: number;
}

/** Window length of all limits. */
const windowSeconds = 60;

interface WindowCount {
  used: number;
  /** Monotonic ms. */
  readonly endsAt: number;
}

/** Counters start with the first request and reset when their window ends. Keeps them for at most `namesMax` names; beyond that, the least recently used counter is discarded. */
export function createFixedWindowLimiter(clock: Clock, namesMax: number) {
  const counts = new LRUCache<string, WindowCount>(entriesMax(namesMax));
  return {
    /** Takes one of `quota` permits in the window of `name`. If it returns `isAllowed` false, it takes none. */
    acquire(name: string, quota: number): RateLimitDecision {
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

/** 429 with the headers of the rate limit and `Retry-After`. @param detail one sentence */
export function createRateLimitError(
  detail: string,
  policy: string,
  quota: number,
  decision: RateLimitDecision,
): ProblemError {
  const { resetSeconds } = decision;
  return new ProblemError(429, `${detail} Try again in ${resetSeconds} s.`, {
    headers: { ...formatRateLimitHeaders(policy, quota, decision), 'retry-after': String(resetSeconds) },
  });
}
