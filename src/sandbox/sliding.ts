/** Counts events inside a span that ends now: (now - spanMs, now]. Times must not fall. */
export function slidingCount() {
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

/**
 * A limit over a sliding second. Below one a second, or for a broken rate, the span grows until a whole number of
 * requests fits: 2.5 a second are three in 1.2 s. A refused request does not count.
 */
export function rateLimit() {
  const taken = slidingCount();
  return {
    /** Zero where the request may go on, else the milliseconds until one may. */
    take(nowMs: number, perSecond: number): number {
      const most = Math.ceil(perSecond);
      const spanMs = (most / perSecond) * 1000;
      if (taken.within(nowMs, spanMs) < most) {
        taken.add(nowMs);
        return 0;
      }
      return taken.earliest()! + spanMs - nowMs;
    },
  };
}
