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

/** Added to how late a request seems to have been; also the least guard. */
const guardMarginMs = 5;
const guardMsMax = 250;
/** A start up to this late is caught up: timers have a grain of 1 ms, above 1,000 a second the spacing is finer. */
const debtMsMax = 10;
/** Answers to see before the fastest of them counts as an undisturbed way; until then every way counts as late. */
const answersForLeast = 30;

/**
 * The rule, for n starts in each period (n = floor(rate), period = 1 s; below 1 a second n = 1, period = 1 / rate):
 * starts are period / n apart, and start i + n comes no sooner than period + guard after start i.
 *
 * Why the guard: the service counts arrivals, and arrival i may be late while arrival i + n is not. A request arrived
 * before its headers came back, so it was late by at most (time to its headers − the least such time), within what the
 * least time seen is above the least possible. A request later than the greatest guard is not covered.
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
    const lateMs = Math.max(0, took - (answers >= answersForLeast ? leastMs : 0));
    return startedAt[oldest]! + periodMs + Math.min(guardMsMax, lateMs + guardMarginMs);
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
      // Slots follow each other, not late starts; but after a silence they begin anew.
      const dueMs = earliestMs(nowMs);
      slotMs = nowMs - dueMs <= debtMsMax ? dueMs : nowMs;
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
