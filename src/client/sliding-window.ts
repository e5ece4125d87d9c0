import { initialRateState, type RateState, type RateStateStore } from '../base/rate-state.ts';
import { createLocalRateStore } from './local-rate-store.ts';

/**
 * Decides when the next request may start, so that no sliding second at the service holds more requests than allowed.
 * It holds no timer and reads no clock: times are milliseconds of the memory's clock. With a shared memory, each call
 * and the reading of the clock before it stand in one `alone`.
 */
export interface SlidingWindow {
  /** When the next request may start as things stand at `nowMs`; ask again then, for an answer may move it. */
  computeEarliestMs(nowMs: number): number;
  /** Starts a request. Returns its number for `answered`. */
  start(nowMs: number): number;
  /** The headers of a request's answer came; `letThrough` unless it was refused for its rate. */
  noteResponse(request: number, nowMs: number, letThrough?: boolean): void;
  /** A request ended without an answer: it had reached the service by then, or never will. */
  noteNoResponse(request: number, nowMs: number): void;
}

/** Added to how late a request seems to have been; also the least guard. */
const guardMarginMs = 5;
const guardMsMax = 250;
/**
 * A start up to this late is caught up, or up to one spacing where that is more: timers have a grain of 1 ms, above 1,000
 * a second the spacing is finer, and a busy machine's are later still.
 */
const debtMsMin = 10;
const debtMsMax = 100;
/** Answers to see before the fastest of them counts as an undisturbed way; until then every way counts as late. */
const responsesForLeast = 30;
/** After a silence this long the way may be another one. */
const latencyKeptMs = 10_000;

/** A moment further ahead than this was told by the clock of a machine that has been started anew since. */
const aheadMsMax = 1_000;

/** @throws RangeError for a rate that is no such number */
export function checkRate(requestsPerSecond: number): void {
  if (!(requestsPerSecond > 0 && requestsPerSecond <= 1_000_000)) {
    throw new RangeError(`requests per second must be above 0 and at most 1,000,000, not ${requestsPerSecond}`);
  }
}

/** n starts in each period: n = floor(rate), period = 1 s; below 1 a second n = 1, period = 1 / rate. */
function computePeriod(rate: number): { readonly startsMax: number; readonly periodMs: number } {
  return { startsMax: Math.max(1, Math.floor(rate)), periodMs: rate >= 1 ? 1000 : 1000 / rate };
}

/**
 * The rule, for n starts in each period: starts are period / n apart, and start i + n comes no sooner than
 * period + guard after start i. `rate` is asked at every step: it may change, and what was started before still counts.
 *
 * Why the guard: the service counts arrivals, and arrival i may be late while arrival i + n is not. A request arrived
 * before its headers came back, so it was late by at most (time to its headers − the least such time), within what the
 * least time seen is above the least possible. A request later than the greatest guard is not covered.
 */
export function createSlidingWindow(
  rate: () => number,
  memory: RateStateStore = createLocalRateStore(),
): SlidingWindow {
  function windowMs(pace: RateState, nowMs: number): number {
    const { startsMax, periodMs } = computePeriod(rate());
    const oldest = memory.getStart(pace.count - startsMax);
    if (oldest === undefined) return Number.NEGATIVE_INFINITY;
    const took = oldest.tookMs ?? nowMs - oldest.atMs;
    const lateMs = Math.max(0, took - (pace.answers >= responsesForLeast ? pace.leastMs : 0));
    return oldest.atMs + periodMs + Math.min(guardMsMax, lateMs + guardMarginMs);
  }

  function dueMs(pace: RateState, nowMs: number): number {
    const { startsMax, periodMs } = computePeriod(rate());
    return Math.max(pace.slotMs + periodMs / startsMax, windowMs(pace, nowMs));
  }

  function end(request: number, nowMs: number, letThrough: boolean): number | undefined {
    const start = memory.getStart(request);
    if (start === undefined) return undefined;
    memory.endStart(request, nowMs - start.atMs, letThrough);
    return nowMs - start.atMs;
  }

  return {
    computeEarliestMs: (nowMs) => dueMs(readRateState(memory, nowMs), nowMs),
    start(nowMs) {
      const pace = readRateState(memory, nowMs);
      // Slots follow each other, not late starts; but after a silence they begin anew.
      const due = dueMs(pace, nowMs);
      const { startsMax, periodMs } = computePeriod(rate());
      const debtMs = Math.max(debtMsMin, Math.min(debtMsMax, periodMs / startsMax));
      const slotMs = nowMs - due <= debtMs ? due : nowMs;
      memory.addStart(pace.count, nowMs);
      memory.write({ ...pace, slotMs, count: pace.count + 1, atMs: nowMs });
      return pace.count;
    },
    noteResponse(request, nowMs, letThrough = true) {
      const took = end(request, nowMs, letThrough);
      if (took === undefined) return;
      const pace = readRateState(memory, nowMs);
      memory.write({ ...pace, leastMs: Math.min(pace.leastMs, took), answers: pace.answers + 1, atMs: nowMs });
    },
    noteNoResponse: (request, nowMs) => void end(request, nowMs, false),
  };
}

/** The pace without what cannot be of this clock, which starts anew with the machine, or is too old to count. */
export function readRateState(memory: RateStateStore, nowMs: number): RateState {
  const pace = memory.read();
  if (pace.atMs > nowMs + aheadMsMax) {
    memory.clear();
    const { count, learned } = pace;
    const begun = { ...initialRateState, count, learned, atMs: nowMs };
    memory.write(begun);
    return begun;
  }
  return nowMs - pace.atMs > latencyKeptMs ? { ...pace, leastMs: initialRateState.leastMs, answers: 0 } : pace;
}
