import { timeMin } from '../core/time.ts';

/**
 * When an answer was generated. Where it does not say, or names a time that cannot be, it is not before the request
 * was sent; taking the time of its arrival would claim what came in between. Times are epoch milliseconds.
 * @param futureMs the latest time that is believed: now, and the skew that two clocks may have
 */
export const momentOf = (generatedAt: number | null, sentAt: number, futureMs: number): number =>
  generatedAt !== null && generatedAt >= timeMin && generatedAt <= futureMs ? generatedAt : sentAt;
