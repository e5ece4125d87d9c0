/**
 * Decides when the next request may start, so that no sliding second at the service holds more requests than allowed.
 * It holds no timer and reads no clock: times are milliseconds of a clock that never goes back.
 */
export interface Pacer {
  /** When the next request may start as things stand at `nowMs`; ask again then, for an answer may move it. */
  earliestMs(nowMs: number): number;
  /** Starts a request. Returns its number for `answered`. */
  start(nowMs: number): number;
  /** The headers of a request's answer came. */
  answered(request: number, nowMs: number): void;
  /** A request ended without an answer: it had reached the service by then, or never will. */
  lost(request: number, nowMs: number): void;
}

/** Bounds of the time added to the window for requests that arrive late. */
const guardMsMin = 5;
const guardMsMax = 250;
/** How much of a late timer is caught up: timers have a grain of 1 ms, above 1,000 a second the spacing is finer. */
const debtMsMax = 10;
/** Answers to see before the fastest of them counts as the usual way to the service and back. */
const answersForUsual = 5;

/**
 * The rule, for n starts in each period (n = floor(rate), period = 1 s; below 1 a second n = 1, period = 1 / rate):
 * starts are period / n apart, and start i + n comes no sooner than period + guard after start i.
 *
 * Why the guard: the service counts arrivals, and arrival i may be late while arrival i + n is not. A request arrived
 * before its headers came back, so it was late by at most (time to its headers − the least such time seen).
 */
export function createPacer(requestsPerSecond: number): Pacer {
  if (!(requestsPerSecond > 0 && requestsPerSecond <= 1_000_000)) {
    throw new RangeError(`requests per second must be above 0 and at most 1,000,000, not ${requestsPerSecond}`);
  }
  const startsMax = Math.max(1, Math.floor(requestsPerSecond));
  const periodMs = requestsPerSecond >= 1 ? 1000 : 1000 / requestsPerSecond;
  const spacingMs = periodMs / startsMax;
  // Rings of the last n requests; NaN: not answered yet.
  const startedAt = new Float64Array(startsMax);
  const tookMs = new Float64Array(startsMax);
  let count = 0;
  let slotMs = Number.NEGATIVE_INFINITY;
  let leastMs = Number.POSITIVE_INFINITY;
  let answers = 0;

  function windowMs(nowMs: number): number {
    if (count < startsMax) return Number.NEGATIVE_INFINITY;
    const oldest = count % startsMax;
    const took = Number.isNaN(tookMs[oldest]) ? nowMs - startedAt[oldest]! : tookMs[oldest]!;
    const late = took - (answers >= answersForUsual ? leastMs : 0);
    return startedAt[oldest]! + periodMs + Math.min(guardMsMax, Math.max(guardMsMin, late));
  }

  const earliestMs = (nowMs: number) => Math.max(slotMs + spacingMs, windowMs(nowMs));

  function note(request: number, nowMs: number): number {
    const took = nowMs - startedAt[request % startsMax]!;
    if (request >= count - startsMax) tookMs[request % startsMax] = took;
    return took;
  }

  return {
    earliestMs,
    start(nowMs) {
      // Slots advance evenly from each other, not from late starts; what is too long ago is forgotten.
      slotMs = Math.max(earliestMs(nowMs), nowMs - debtMsMax);
      startedAt[count % startsMax] = nowMs;
      tookMs[count % startsMax] = Number.NaN;
      return count++;
    },
    answered(request, nowMs) {
      if (request < count - startsMax) return;
      leastMs = Math.min(leastMs, note(request, nowMs));
      answers++;
    },
    lost: note,
  };
}
