/** How a limit counts. A refused request never counts. */
export const limiterKinds = ['sliding', 'fixed', 'bucket'] as const;
export type LimiterKind = (typeof limiterKinds)[number];

/** What a limit says to one request. */
export interface RateLimitDecision {
  /** Zero where the request may go on, else the milliseconds until one may. */
  readonly waitMs: number;
  /** The limit, and what is left of it once this request is counted, until `resetMs` have passed. */
  readonly quota: number;
  readonly spanMs: number;
  readonly remaining: number;
  readonly resetMs: number;
}

/**
 * A limit on requests. Below one a second, or for a broken rate, the span grows until a whole number of requests fits:
 * 2.5 a second are three in 1.2 s.
 * - `sliding`: in any span · `fixed`: in each span since the start · `bucket`: holds a span's worth, fills steadily
 */
export function createRateLimit() {
  const taken = createSlidingCount();
  const fixed = { span: Number.NaN, taken: 0 };
  const bucket = { tokens: Number.POSITIVE_INFINITY, atMs: 0 };

  function fixedVerdict(nowMs: number, quota: number, spanMs: number): RateLimitDecision {
    const span = Math.floor(nowMs / spanMs);
    if (span !== fixed.span) Object.assign(fixed, { span, taken: 0 });
    const resetMs = (span + 1) * spanMs - nowMs;
    const isOpen = fixed.taken < quota;
    if (isOpen) fixed.taken++;
    return { waitMs: isOpen ? 0 : resetMs, quota, spanMs, remaining: quota - fixed.taken, resetMs };
  }

  function bucketVerdict(nowMs: number, quota: number, spanMs: number): RateLimitDecision {
    bucket.tokens = Math.min(quota, bucket.tokens + ((nowMs - bucket.atMs) * quota) / spanMs);
    bucket.atMs = nowMs;
    const isOpen = bucket.tokens >= 1;
    if (isOpen) bucket.tokens--;
    const resetMs = bucket.tokens >= 1 ? 0 : ((1 - bucket.tokens) * spanMs) / quota;
    return { waitMs: isOpen ? 0 : resetMs, quota, spanMs, remaining: Math.floor(bucket.tokens), resetMs };
  }

  function slidingVerdict(nowMs: number, quota: number, spanMs: number): RateLimitDecision {
    const isOpen = taken.within(nowMs, spanMs) < quota;
    if (isOpen) taken.add(nowMs);
    const resetMs = taken.earliest()! + spanMs - nowMs;
    return { waitMs: isOpen ? 0 : resetMs, quota, spanMs, remaining: quota - taken.within(nowMs, spanMs), resetMs };
  }

  const verdicts = { sliding: slidingVerdict, fixed: fixedVerdict, bucket: bucketVerdict };
  return {
    /** Counts a request at monotonic `nowMs`, or refuses it. */
    take(nowMs: number, perSecond: number, kind: LimiterKind): RateLimitDecision {
      const quota = Math.ceil(perSecond);
      return verdicts[kind](nowMs, quota, (quota / perSecond) * 1000);
    },
  };
}

/** How an answer tells of the limit: not at all, as the IETF draft has it from version 8 on, as its versions 3 to 6, or as X-. */
export const rateHeaderForms = ['none', 'draft', 'old', 'x'] as const;
export type RateHeaderForm = (typeof rateHeaderForms)[number];

/** Headers in that form; X-RateLimit-Reset is a moment in epoch seconds. */
export function formatRateHeaders(
  verdict: RateLimitDecision,
  form: RateHeaderForm,
  nowMs: number,
): Record<string, string> {
  const { quota, spanMs, remaining, resetMs } = verdict;
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

/** Counts events inside a span that ends now: (now - spanMs, now]. Times must not fall. */
export function createSlidingCount() {
  let times: number[] = [];
  let oldest = 0;
  return {
    add(atMs: number): void {
      times.push(atMs);
    },
    /** Events in the span; older ones are forgotten. */
    within(nowMs: number, spanMs: number): number {
      while (oldest < times.length && times[oldest]! <= nowMs - spanMs) oldest++;
      if (oldest > 1024 && oldest * 2 > times.length) {
        times = times.slice(oldest);
        oldest = 0;
      }
      return times.length - oldest;
    },
    /** When the earliest event still in the span happened; undefined without one. */
    earliest: (): number | undefined => times[oldest],
  };
}
