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
