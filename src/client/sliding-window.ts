import {
  createLocalRateStore,
  initialRateState,
  type RateState,
  type RateStateAccess,
  type RequestStart,
} from '../base/rate-state.ts';

/** Added to the estimated delay of a request, in ms. Also the minimum guard. */
const guardMarginMs = 5;
const guardMsMax = 250;
/**
 * If a start is late by at most this much, or by one interval if that is longer, later starts are not delayed: timers have a
 * resolution of 1 ms, intervals are shorter above 1,000 requests per second, and a busy machine is later still.
 */
const debtMsMin = 10;
const debtMsMax = 100;
/** Number of responses after which the minimum latency is used. Before that, the full latency counts as delay. */
const responsesForMinimum = 30;
/** After this time without requests, the latency is measured again, in ms. */
const latencyKeptMs = 10_000;

/** A time further in the future than this, in ms, comes from the monotonic clock before a reboot. */
const aheadMsMax = 1_000;

/** @throws RangeError for an invalid rate */
export function checkRate(requestsPerSecond: number): void {
  if (!(requestsPerSecond > 0 && requestsPerSecond <= 1_000_000)) {
    throw new RangeError(`requests per second must be above 0 and at most 1,000,000, not ${requestsPerSecond}`);
  }
}

/** At most n starts per period: n = floor(rate), period = 1 s. Below 1 per second, n = 1, period = 1 / rate. */
function computePeriod(rate: number): { readonly startsMax: number; readonly periodMs: number } {
  return { startsMax: Math.max(1, Math.floor(rate)), periodMs: rate >= 1 ? 1000 : 1000 / rate };
}

/**
 * Computes when the next request may start, so that no sliding second at the service contains more requests than allowed. It
 * has no timer and reads no clock: times are milliseconds of the store's clock. With a shared store, each call and the
 * preceding read of the clock must be in one `runExclusive`.
 *
 * With n starts per period, starts are at least period / n apart, and start i + n is at least period + guard after start i.
 * `rate` is read at each step: it may change, and earlier starts still count.
 *
 * The guard is needed because the service counts arrivals, and arrival i may be delayed while arrival i + n is not. A
 * request arrived before its response headers did, so its delay is at most (latency − minimum latency), up to the error of
 * the measured minimum. Delays above the maximum guard are not covered.
 */
export function createSlidingWindow(rate: () => number, store: RateStateAccess = createLocalRateStore()) {
  function computeWindowMs(state: RateState, nowMs: number): number {
    const { startsMax, periodMs } = computePeriod(rate());
    const oldest = store.getStart(state.count - startsMax) ?? getReservedStart(state, state.count - startsMax);
    if (oldest === undefined) return Number.NEGATIVE_INFINITY;
    const elapsedMs = oldest.tookMs ?? nowMs - oldest.atMs;
    const lateMs = Math.max(0, elapsedMs - (state.responses >= responsesForMinimum ? state.latencyMsMin : 0));
    return oldest.atMs + periodMs + Math.min(guardMsMax, lateMs + guardMarginMs);
  }

  function computeDueMs(state: RateState, nowMs: number): number {
    const { startsMax, periodMs } = computePeriod(rate());
    return Math.max(state.slotMs + periodMs / startsMax, computeWindowMs(state, nowMs));
  }

  /** Returns how long the request took; undefined if its start is too old to be known. */
  function endStart(request: number, nowMs: number, isAccepted: boolean): number | undefined {
    const start = store.getStart(request);
    if (start === undefined) return undefined;
    store.endStart(request, nowMs - start.atMs, isAccepted);
    return nowMs - start.atMs;
  }

  return {
    /** The earliest start of the next request as known at `nowMs`. Recompute it at that time: a response may change it. */
    computeEarliestMs: (nowMs: number): number => computeDueMs(readRateState(store, nowMs), nowMs),
    /** Starts a request. Returns its number for `noteResponse`. */
    start(nowMs: number): number {
      const state = readRateState(store, nowMs);
      // The schedule follows the slots and not late starts. After an idle period it starts again.
      const due = computeDueMs(state, nowMs);
      const { startsMax, periodMs } = computePeriod(rate());
      const debtMs = Math.max(debtMsMin, Math.min(debtMsMax, periodMs / startsMax));
      const slotMs = nowMs - due <= debtMs ? due : nowMs;
      store.addStart(state.count, nowMs);
      store.write({ ...state, slotMs, count: state.count + 1, writtenAtMs: nowMs });
      return state.count;
    },
    /** Records that the response headers of a request arrived. */
    noteResponse(request: number, nowMs: number, isThrottled = false) {
      const elapsedMs = endStart(request, nowMs, !isThrottled);
      if (elapsedMs === undefined) return;
      const state = readRateState(store, nowMs);
      store.write({
        ...state,
        latencyMsMin: Math.min(state.latencyMsMin, elapsedMs),
        responses: state.responses + 1,
        writtenAtMs: nowMs,
      });
    },
    /** Records that a request ended without a response: it reached the service before now, or not at all. */
    noteNoResponse: (request: number, nowMs: number) => void endStart(request, nowMs, false),
  };
}

/** A request of a lease that was not returned counts as started at its end, and is without a response. */
const getReservedStart = (state: RateState, request: number): Pick<RequestStart, 'atMs' | 'tookMs'> | undefined =>
  request >= state.reservedFrom && Number.isFinite(state.reservedUntilMs)
    ? { atMs: state.reservedUntilMs, tookMs: null }
    : undefined;

/** Reads the rate state. Drops values from the monotonic clock before a reboot, and values that are too old. */
export function readRateState(store: RateStateAccess, nowMs: number): RateState {
  const state = store.read();
  if (state.writtenAtMs > nowMs + aheadMsMax) {
    store.clear();
    const { count, inferred, users } = state;
    const reset = { ...initialRateState, count, inferred, users, writtenAtMs: nowMs };
    store.write(reset);
    return reset;
  }
  return nowMs - state.writtenAtMs > latencyKeptMs
    ? { ...state, latencyMsMin: initialRateState.latencyMsMin, responses: 0 }
    : state;
}
