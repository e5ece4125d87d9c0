import PQueue from 'p-queue';
import type { Clock } from '../base/ports.ts';
import type { RateStateStore } from '../base/rate-state.ts';
import { getRateInForce, type InferredRate, parseInferredRate, updateInferredRate } from './adaptive-rate.ts';
import { createRateLease } from './rate-lease.ts';
import { checkRate, createSlidingWindow, readRateState } from './sliding-window.ts';

/** The service requested a pause longer than the client waits. */
export class PauseTooLongError extends Error {
  readonly pauseMs: number;
  constructor(pauseMs: number) {
    super(`paused for ${Math.round(pauseMs / 1000)} s`);
    this.name = 'PauseTooLongError';
    this.pauseMs = pauseMs;
  }
}

/** Allows one request to start. */
export interface Permit {
  /** Call when the response headers arrive. `isThrottled`: true for a 429. */
  noteResponse(isThrottled?: boolean): void;
}

interface RateLimiterOptions {
  readonly requestsPerSecond: number;
  readonly concurrency: number;
  readonly pauseMsMax: number;
  /** Where the rate state is kept. Default: in this process only. */
  readonly rateStore?: RateStateStore;
  /** Called when the rate in force changes because of 429s or their absence. */
  readonly onRate?: (rate: number, before: number) => void;
}

/** A request that may be sent now. */
interface Start {
  readonly request: number;
  readonly atMs: number;
}

/** All requests with one key use one limiter. */
export interface RateLimiter {
  /**
   * Runs a task when a slot is free and the rate allows it. Higher priority goes first.
   * @throws PauseTooLongError, or the signal's reason, immediately and in any state
   */
  run<T>(task: (permit: Permit) => Promise<T>, options: { priority: number; signal: AbortSignal }): Promise<T>;
  /**
   * Starts no task within the next `ms`. Applies to all processes that share the store, unless `ms` exceeds the maximum
   * pause. A pause never shortens another one.
   */
  pause(ms: number): void;
  /** Limits the rate to the one that the service states. The last call applies. */
  capRate(requestsPerSecond: number): void;
  /** Resolves when no task is running or waiting. After this, the owner of the rate store may close it. */
  close(): Promise<void>;
  /** Number of tasks of this process that have not received response headers yet. */
  countInFlight(): number;
  /** Time during which the rate limit held back a waiting task, in ms. */
  waitedMs(): number;
  /** Total time of pauses, without double counting, in ms. */
  throttledMs(): number;
  /** The rate in force, in requests per second. */
  allowedPerSecond(): number;
  /** The share of the allowed rate, 0 to 1, that was used while there were tasks. */
  usedShare(): number;
  /** Remaining time of the current pause, in ms. */
  remainingPauseMs(): number;
}

/** How long the lowest configured rate of the processes applies after its last refresh, in ms. */
const configuredMinKeptMs = 10_000;
/** Interval at which a waiting process refreshes its configured rate, in ms. */
const refreshMsMax = configuredMinKeptMs / 2;
/** Minimum time between two refresh writes, in ms. */
const refreshMsMin = 1_000;
/** A start is not used if its request is later than this, in ms: the process was suspended, and the guard does not cover it. */
const lateStartMsMax = 100;

export function createRateLimiter(options: RateLimiterOptions, clock: Clock): RateLimiter {
  const { requestsPerSecond, pauseMsMax } = options;
  checkRate(requestsPerSecond);
  let statedRate = Number.POSITIVE_INFINITY;
  let inferredText: string | null = null;
  let inferredRate: InferredRate | null = null;
  const rateLease = createRateLease(options.rateStore, clock, () => getRate());
  const slidingWindow = createSlidingWindow(() => getRate(), rateLease);
  const slots = new PQueue({ concurrency: options.concurrency });
  // One at a time: the first in this queue waits for the rate limit, the others keep their order.
  const queue = new PQueue({ concurrency: 1 });
  let configuredMin = requestsPerSecond;
  let resumeMs = Number.NEGATIVE_INFINITY;
  let inFlight = 0;
  let waitedMs = 0;
  let throttledMs = 0;
  let activeTasks = 0;
  const utilization = createUtilizationMeter();

  const getRate = (): number => getRateInForce(inferredRate, getConfiguredRate());
  const noteUse = (): void => utilization.note(clock.monotonicMs(), getRate(), activeTasks, resumeMs);

  const getConfiguredRate = (): number => Math.min(requestsPerSecond, configuredMin, statedRate);

  /** Reads the shared state, and publishes this process's configured rate. */
  function syncState(nowMs: number): void {
    const state = readRateState(rateLease, nowMs);
    const isOld = nowMs - state.configuredMinAtMs > configuredMinKeptMs;
    if (
      isOld ||
      requestsPerSecond < state.configuredMin ||
      (requestsPerSecond === state.configuredMin && nowMs - state.configuredMinAtMs > refreshMsMin)
    ) {
      rateLease.write({ ...state, configuredMin: requestsPerSecond, configuredMinAtMs: nowMs, writtenAtMs: nowMs });
    }
    configuredMin = isOld ? requestsPerSecond : state.configuredMin;
    if (state.inferred !== inferredText) {
      inferredText = state.inferred;
      inferredRate = parseInferredRate(state.inferred);
    }
    noteResume(state.resumeMs, nowMs);
  }

  function noteResume(until: number, nowMs: number): void {
    if (until <= resumeMs) return;
    throttledMs += Math.max(0, until - Math.max(nowMs, resumeMs));
    resumeMs = until;
    noteUse();
  }

  /** Starts a request, or returns how long to wait before the next try. */
  function tryAcquire(): Start | { readonly waitMs: number } {
    return rateLease.runStart((now) => {
      syncState(now);
      if (resumeMs - now > pauseMsMax) throw new PauseTooLongError(resumeMs - now);
      const next = Math.max(resumeMs, slidingWindow.computeEarliestMs(now));
      return next <= now ? { request: slidingWindow.start(now), atMs: now } : { waitMs: next - now };
    });
  }

  /** Starts a request immediately if none is waiting and the rate allows it. */
  function acquireNow(signal: AbortSignal): Start | undefined {
    if (queue.size + queue.pending > 0) return undefined;
    signal.throwIfAborted();
    const result = tryAcquire();
    return 'request' in result ? result : undefined;
  }

  async function acquire(signal: AbortSignal): Promise<Start> {
    const startedMs = clock.monotonicMs();
    for (;;) {
      signal.throwIfAborted();
      const result = tryAcquire();
      if ('request' in result) {
        waitedMs += Math.max(0, result.atMs - Math.max(startedMs, resumeMs));
        return result;
      }
      // A pause, a response or another process may change the time, so it is computed again.
      await clock.sleep(Math.min(result.waitMs, refreshMsMax), signal);
    }
  }

  async function acquireInTime(signal: AbortSignal): Promise<number> {
    for (;;) {
      const { request, atMs } = acquireNow(signal) ?? (await queue.add(() => acquire(signal), { signal }));
      if (clock.monotonicMs() - atMs <= lateStartMsMax) return request;
      release(request, undefined);
    }
  }

  /** `isThrottled` is undefined if there was no response. */
  function release(request: number, isThrottled: boolean | undefined): void {
    const work = (now: number): void => {
      syncState(now);
      if (isThrottled === undefined) slidingWindow.noteNoResponse(request, now);
      else {
        slidingWindow.noteResponse(request, now, isThrottled);
        updateRate(request, isThrottled);
      }
    };
    if (isThrottled === true || inferredRate !== null) rateLease.runShared(work);
    else rateLease.runResponse(work);
  }

  function updateRate(request: number, isThrottled: boolean): void {
    const rate = getConfiguredRate();
    const state = rateLease.read();
    const startedAtMs = rateLease.getStart(request)?.atMs ?? Number.POSITIVE_INFINITY;
    const observation = {
      request,
      nextRequest: state.count,
      isThrottled,
      countAccepted: () => rateLease.countAccepted(request - Math.ceil(rate), request, startedAtMs - 1000),
      nowMs: clock.nowMs(),
    };
    const before = inferredRate;
    inferredRate = updateInferredRate(before, observation, rate);
    if (inferredRate === before) return;
    inferredText = inferredRate === null ? null : JSON.stringify(inferredRate);
    rateLease.write({ ...state, inferred: inferredText });
    const [previousRate, newRate] = [getRateInForce(before, rate), getRateInForce(inferredRate, rate)];
    if (previousRate !== newRate) options.onRate?.(newRate, previousRate);
  }

  async function runInSlot<T>(task: (permit: Permit) => Promise<T>, signal: AbortSignal): Promise<T> {
    const request = await acquireInTime(signal);
    utilization.noteStart();
    noteUse();
    let hasResponse = false;
    inFlight++;
    try {
      return await task({
        noteResponse(isThrottled = false) {
          hasResponse = true;
          inFlight--;
          release(request, isThrottled);
        },
      });
    } finally {
      if (!hasResponse) {
        inFlight--;
        release(request, undefined);
      }
    }
  }

  return {
    async run(task, { priority, signal }) {
      activeTasks++;
      noteUse();
      try {
        return await slots.add(() => runInSlot(task, signal), { priority, signal });
      } finally {
        activeTasks--;
        noteUse();
      }
    },
    pause(ms) {
      rateLease.runShared((now) => {
        syncState(now);
        const until = now + ms;
        noteResume(until, now);
        const state = rateLease.read();
        // A longer pause fails the requests of this run. The next run may check whether it still applies.
        if (ms <= pauseMsMax && until > state.resumeMs)
          rateLease.write({ ...state, resumeMs: until, writtenAtMs: now });
      });
    },
    capRate(requestsPerSecond) {
      statedRate = requestsPerSecond;
    },
    async close() {
      await slots.onIdle();
      rateLease.leave();
    },
    countInFlight: () => inFlight,
    waitedMs: () => waitedMs,
    throttledMs: () => throttledMs,
    allowedPerSecond: getRate,
    usedShare() {
      noteUse();
      return utilization.computeShare();
    },
    remainingPauseMs: () => Math.max(0, resumeMs - clock.monotonicMs()),
  };
}

/**
 * Measures how much of the allowed rate was used while there were tasks: requests started, compared with the number that the
 * rate in force allowed. Times are monotonic milliseconds, rates requests per second.
 */
interface UtilizationMeter {
  /**
   * Records the state from `nowMs` on: the rate in force, the number of waiting and running tasks, and the end of the
   * current pause.
   */
  note(nowMs: number, rate: number, activeTasks: number, resumeMs: number): void;
  /** Records the start of a request. */
  noteStart(): void;
  /** The share used up to the last `note`, 0 to 1. */
  computeShare(): number;
}

export function createUtilizationMeter(): UtilizationMeter {
  let last = { nowMs: 0, rate: 0, activeTasks: 0, resumeMs: Number.NEGATIVE_INFINITY };
  let allowed = 0;
  let starts = 0;
  return {
    note(nowMs, rate, activeTasks, resumeMs) {
      const fromMs = Math.max(last.nowMs, last.resumeMs);
      if (last.activeTasks > 0) allowed += (Math.max(0, nowMs - fromMs) / 1000) * last.rate;
      last = { nowMs, rate, activeTasks, resumeMs };
    },
    noteStart: () => void starts++,
    // The first request starts immediately: n intervals allow n + 1 starts.
    computeShare: () => (starts === 0 ? 0 : Math.min(1, starts / (allowed + 1))),
  };
}
