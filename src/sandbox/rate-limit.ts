/** Rate-limiting algorithms. A rejected request does not count. */
export const limiterKinds = ['sliding', 'fixed', 'bucket'] as const;
export type LimiterKind = (typeof limiterKinds)[number];

/** The decision of a limit on one request. */
export interface RateLimitDecision {
  /** Zero if the request is allowed, else the milliseconds until one is. */
  readonly waitMs: number;
  /** The limit, the requests left after this one, and the time until `resetMs` when that count resets. */
  readonly quota: number;
  readonly spanMs: number;
  readonly remaining: number;
  readonly resetMs: number;
}

/**
 * A rate limit. For a fractional rate the period is longer than a second, so that its number of requests is whole: 2.5
 * per second becomes three per 1.2 s.
 * - `sliding`: requests in any period · `fixed`: in each period since the start · `bucket`: a token bucket with the
 *   requests of one period
 */
export function createRateLimit() {
  const counter = createSlidingCount();
  const fixed = { span: Number.NaN, taken: 0 };
  const bucket = { tokens: Number.POSITIVE_INFINITY, atMs: 0 };

  function decideByFixedWindow(nowMs: number, quota: number, spanMs: number): RateLimitDecision {
    const span = Math.floor(nowMs / spanMs);
    if (span !== fixed.span) Object.assign(fixed, { span, taken: 0 });
    const resetMs = (span + 1) * spanMs - nowMs;
    const isOpen = fixed.taken < quota;
    if (isOpen) fixed.taken++;
    return { waitMs: isOpen ? 0 : resetMs, quota, spanMs, remaining: quota - fixed.taken, resetMs };
  }

  function decideByBucket(nowMs: number, quota: number, spanMs: number): RateLimitDecision {
    bucket.tokens = Math.min(quota, bucket.tokens + ((nowMs - bucket.atMs) * quota) / spanMs);
    bucket.atMs = nowMs;
    const isOpen = bucket.tokens >= 1;
    if (isOpen) bucket.tokens--;
    const resetMs = bucket.tokens >= 1 ? 0 : ((1 - bucket.tokens) * spanMs) / quota;
    return { waitMs: isOpen ? 0 : resetMs, quota, spanMs, remaining: Math.floor(bucket.tokens), resetMs };
  }

  function decideBySlidingWindow(nowMs: number, quota: number, spanMs: number): RateLimitDecision {
    const isOpen = counter.within(nowMs, spanMs) < quota;
    if (isOpen) counter.add(nowMs);
    const resetMs = counter.earliest()! + spanMs - nowMs;
    return { waitMs: isOpen ? 0 : resetMs, quota, spanMs, remaining: quota - counter.within(nowMs, spanMs), resetMs };
  }

  const decisions = { sliding: decideBySlidingWindow, fixed: decideByFixedWindow, bucket: decideByBucket };
  return {
    /** Counts a request at monotonic `nowMs`, or rejects it. */
    take(nowMs: number, perSecond: number, kind: LimiterKind): RateLimitDecision {
      const quota = Math.ceil(perSecond);
      return decisions[kind](nowMs, quota, (quota / perSecond) * 1000);
    },
  };
}

/** Headers that state the limit: none, the IETF draft since version 8, its versions 3 to 6, or X-RateLimit. */
export const rateHeaderForms = ['none', 'draft', 'old', 'x'] as const;
type RateHeaderForm = (typeof rateHeaderForms)[number];

/** The headers in that form; X-RateLimit-Reset is in epoch seconds. */
export function formatRateHeaders(
  decision: RateLimitDecision,
  form: RateHeaderForm,
  nowMs: number,
): Record<string, string> {
  const { quota, spanMs, remaining, resetMs } = decision;
  const reset = Math.ceil(resetMs / 1000);
  const span = spanMs / 1000;
  switch (form) {
    case 'none':
      return {};
    case 'draft':
      return { 'ratelimit-policy': `"default";q=${quota};w=${span}`, ratelimit: `"default";r=${remaining};t=${reset}` };
    case 'old':
      return {
        'ratelimit-limit': String(quota),
        'ratelimit-remaining': String(remaining),
        'ratelimit-reset': String(reset),
        'ratelimit-policy': `${quota};w=${span}`,
      };
    case 'x':
      return {
        'x-ratelimit-limit': String(quota),
        'x-ratelimit-remaining': String(remaining),
        'x-ratelimit-reset': String(Math.ceil((nowMs + resetMs) / 1000)),
      };
  }
}

/** Counts events inside a period that ends now: (now - spanMs, now]. Times must not decrease. */
export function createSlidingCount() {
  let times: number[] = [];
  let oldest = 0;
  return {
    add(atMs: number): void {
      times.push(atMs);
    },
    /** Number of events in the period; drops older ones. */
    within(nowMs: number, spanMs: number): number {
      while (oldest < times.length && times[oldest]! <= nowMs - spanMs) oldest++;
      if (oldest > 1024 && oldest * 2 > times.length) {
        times = times.slice(oldest);
        oldest = 0;
      }
      return times.length - oldest;
    },
    /** Time of the earliest event in the period; undefined if there is none. */
    earliest: (): number | undefined => times[oldest],
  };
}
