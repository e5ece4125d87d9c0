import PQueue from 'p-queue';
import type { Clock } from '../base/ports.ts';
import type { RateStateStore } from '../base/rate-state.ts';
import { getRateInForce, type InferredRate, updateInferredRate } from './adaptive-rate.ts';
import { createLocalRateStore } from './local-rate-store.ts';
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

/** A request that was admitted by the rate limiter. */
export interface AdmittedRequest {
  /** Call when the response headers arrive. `letThrough`: false for a 429. */
  noteResponse(letThrough?: boolean): void;
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

/** All requests with one key use one limiter. */
export interface RateLimiter {
  /**
   * Runs a task when a slot is free and the rate allows it. Higher priority goes first.
   * @throws PauseTooLongError, or the signal's reason, immediately and in any state
   */
  run<T>(task: (turn: AdmittedRequest) => Promise<T>, options: { priority: number; signal: AbortSignal }): Promise<T>;
  /**
   * Starts no task within the next `ms`. Applies to all processes that share the store, unless `ms` exceeds the maximum
   * pause. A pause never shortens another one.
   */
  pause(ms: number): void;
  /** Limits the rate to the one that the service states. The last call applies. */
  capRate(requestsPerSecond: number): void;
  /** Resolves when no task is running or waiting. */
  waitUntilIdle(): Promise<void>;
  /** Number of tasks of this process without response headers. */
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

/** How long the lowest configured rate among the processes applies after its last refresh, in ms. */
const lowestRateKeptMs = 10_000;
/** Interval at which a waiting process refreshes its configured rate, in ms. */
const refreshMsMax = lowestRateKeptMs / 2;
/** Minimum time between two writes of a refresh, in ms. */
const refreshMsMin = 1_000;

export function createRateLimiter(options: RateLimiterOptions, clock: Clock): RateLimiter {
  const { rateStore = createLocalRateStore(), requestsPerSecond, pauseMsMax } = options;
  checkRate(requestsPerSecond);
  let statedRate = Number.POSITIVE_INFINITY;
  let inferredText: string | null = null;
  let inferredRate: InferredRate | null = null;
  const slidingWindow = createSlidingWindow(() => getRate(), rateStore);
  const slots = new PQueue({ concurrency: options.concurrency });
  // One at a time: the first in this queue waits for the rate limit, the others keep their order.
  const queue = new PQueue({ concurrency: 1 });
  let lowest = requestsPerSecond;
  let resumeAt = Number.NEGATIVE_INFINITY;
  let inFlight = 0;
  let waitedMs = 0;
  let throttledMs = 0;
  let activeTasks = 0;
  const utilization = createUtilizationMeter();

  const getRate = (): number => getRateInForce(inferredRate, getConfiguredRate());
  const noteUse = (): void => utilization.note(clock.monotonicMs(), getRate(), activeTasks, resumeAt);

  const getConfiguredRate = (): number => Math.min(requestsPerSecond, lowest, statedRate);

  /** Reads the shared state, and publishes this process's configured rate. */
  function syncState(nowMs: number): void {
    const state = readRateState(rateStore, nowMs);
    const isOld = nowMs - state.lowestAtMs > lowestRateKeptMs;
    if (
      isOld ||
      requestsPerSecond < state.lowest ||
      (requestsPerSecond === state.lowest && nowMs - state.lowestAtMs > refreshMsMin)
    ) {
      rateStore.write({ ...state, lowest: requestsPerSecond, lowestAtMs: nowMs, atMs: nowMs });
    }
    lowest = isOld ? requestsPerSecond : state.lowest;
    if (state.learned !== inferredText) {
      inferredText = state.learned;
      inferredRate = state.learned === null ? null : (JSON.parse(state.learned) as InferredRate);
    }
    noteResume(state.resumeMs, nowMs);
  }

  function noteResume(until: number, nowMs: number): void {
    if (until <= resumeAt) return;
    throttledMs += Math.max(0, until - Math.max(nowMs, resumeAt));
    resumeAt = until;
    noteUse();
  }

  /** Starts a request, or returns how long to wait before the next try. */
  function tryTurn(): { readonly request: number; readonly atMs: number } | { readonly waitMs: number } {
    return rateStore.runExclusive(() => {
      const now = clock.monotonicMs();
      syncState(now);
      if (resumeAt - now > pauseMsMax) throw new PauseTooLongError(resumeAt - now);
      const next = Math.max(resumeAt, slidingWindow.computeEarliestMs(now));
      return next <= now ? { request: slidingWindow.start(now), atMs: now } : { waitMs: next - now };
    });
  }

  /** Starts immediately if the queue is empty and the rate allows it. */
  function startNow(signal: AbortSignal): number | undefined {
    if (queue.size + queue.pending > 0) return undefined;
    signal.throwIfAborted();
    const turn = tryTurn();
    return 'request' in turn ? turn.request : undefined;
  }

  async function takeTurn(signal: AbortSignal): Promise<number> {
    const startedMs = clock.monotonicMs();
    for (;;) {
      signal.throwIfAborted();
      const turn = tryTurn();
      if ('request' in turn) {
        waitedMs += Math.max(0, turn.atMs - Math.max(startedMs, resumeAt));
        return turn.request;
      }
      // A pause, a response or another process may change the time, so it is computed again.
      await clock.sleep(Math.min(turn.waitMs, refreshMsMax), signal);
    }
  }

  function endTurn(request: number, letThrough: boolean | undefined): void {
    rateStore.runExclusive(() => {
      const now = clock.monotonicMs();
      syncState(now);
      if (letThrough === undefined) return slidingWindow.noteNoResponse(request, now);
      slidingWindow.noteResponse(request, now, letThrough);
      updateRate(request, !letThrough);
    });
  }

  function updateRate(request: number, refused: boolean): void {
    const rate = getConfiguredRate();
    const state = rateStore.read();
    const startedAtMs = rateStore.getStart(request)?.atMs ?? Number.POSITIVE_INFINITY;
    const letThrough = () => rateStore.countAccepted(request - Math.ceil(rate), request, startedAtMs - 1000);
    const answer = {
      request,
      nextRequest: state.count,
      isThrottled: refused,
      countLetThrough: letThrough,
      nowMs: clock.nowMs(),
    };
    const before = inferredRate;
    inferredRate = updateInferredRate(before, answer, rate);
    if (inferredRate === before) return;
    inferredText = inferredRate === null ? null : JSON.stringify(inferredRate);
    rateStore.write({ ...state, learned: inferredText });
    const [previousRate, newRate] = [getRateInForce(before, rate), getRateInForce(inferredRate, rate)];
    if (previousRate !== newRate) options.onRate?.(newRate, previousRate);
  }

  async function runInSlot<T>(task: (turn: AdmittedRequest) => Promise<T>, signal: AbortSignal): Promise<T> {
    const request = startNow(signal) ?? (await queue.add(() => takeTurn(signal), { signal }));
    utilization.noteStart();
    noteUse();
    let isAnswered = false;
    inFlight++;
    try {
      return await task({
        noteResponse(letThrough = true) {
          isAnswered = true;
          inFlight--;
          endTurn(request, letThrough);
        },
      });
    } finally {
      if (!isAnswered) {
        inFlight--;
        endTurn(request, undefined);
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
      rateStore.runExclusive(() => {
        const now = clock.monotonicMs();
        syncState(now);
        const until = now + ms;
        noteResume(until, now);
        const state = rateStore.read();
        // A longer pause fails the requests of this run. The next run may check whether it still applies.
        if (ms <= pauseMsMax && until > state.resumeMs) rateStore.write({ ...state, resumeMs: until, atMs: now });
      });
    },
    capRate(requestsPerSecond) {
      statedRate = requestsPerSecond;
    },
    waitUntilIdle: () => slots.onIdle(),
    countInFlight: () => inFlight,
    waitedMs: () => waitedMs,
    throttledMs: () => throttledMs,
    allowedPerSecond: getRate,
    usedShare() {
      noteUse();
      return utilization.computeShare();
    },
    remainingPauseMs: () => Math.max(0, resumeAt - clock.monotonicMs()),
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
