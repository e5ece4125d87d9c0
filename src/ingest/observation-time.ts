import { timeMin } from '../core/time.ts';

/**
 * When an answer was generated. Where it does not say, or names a time that cannot be, it is not before the request
 * was sent; taking the time of its arrival would claim what came in between. Times are epoch milliseconds.
 * @param futureMs the latest time that is believed: now, and the skew that two clocks may have
 * @param servedAt the service's time when the answer left it: far behind `sentAt` it shows that our clock is ahead, or a
 * cache in between; what was not yet then is not claimed
 */
export function resolveObservedAt(
  generatedAt: number | null,
  sentAt: number,
  futureMs: number,
  servedAt: number | null = null,
): number {
  if (generatedAt !== null && generatedAt >= timeMin && generatedAt <= futureMs) return generatedAt;
  const moment = servedAt !== null && servedAt >= timeMin && servedAt < sentAt - skewMsMax ? servedAt : sentAt;
  // A clock that was set back since the request was sent: ticks after this are rejected, so that nothing may be claimed there.
  return Math.min(moment, futureMs);
}

/** Two clocks that are set by the same time differ by less, in ms. */
const skewMsMax = 60_000;
