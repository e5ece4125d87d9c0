import PQueue from 'p-queue';
import type { Clock } from '../base/ports.ts';
import type { RateStateStore } from '../base/rate-state.ts';
import { getRateInForce, type InferredRate, parseInferredRate, updateInferredRate } from './adaptive-rate.ts';
import { RateLease } from './rate-lease.ts';
import { checkRate, createSlidingWindow, readRateState } from './sliding-window.ts';
import type { UpstreamCounters } from './upstream.ts';

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

/** How long the lowest configured rate of the processes applies after its last refresh, in ms. */
const configuredMinKeptMs = 10_000;
/** Interval at which a waiting process refreshes its configured rate, in ms. */
const refreshMsMax = configuredMinKeptMs / 2;
/** Minimum time between two refresh writes, in ms. */
const refreshMsMin = 1_000;
/** A start is not used if its request is later than this, in ms: the process was suspended, and the guard does not cover it. */
const lateStartMsMax = 100;

/**
 * Limits the rate of requests. All requests with one key use one limiter. Holds what this process knows of the shared rate, and
 * its waiting and running tasks.
 */
export class RateLimiter {
  readonly #options: RateLimiterOptions;
  readonly #clock: Clock;
  #statedRate = Number.POSITIVE_INFINITY;
  #inferredText: string | null = null;
  #inferredRate: InferredRate | null = null;
  readonly #rateLease;
  readonly #slidingWindow;
  readonly #slots;
  // One at a time: the first in this queue waits for the rate limit, the others keep their order.
  readonly #queue = new PQueue({ concurrency: 1 });
  #configuredMin;
  #resumeMs = Number.NEGATIVE_INFINITY;
  #inFlight = 0;
  #waitedMs = 0;
  #throttledMs = 0;
  #activeTasks = 0;
  readonly #utilization = createUtilizationMeter();
  readonly #getRate = (): number => getRateInForce(this.#inferredRate, this.#getConfiguredRate());
  readonly #noteUse = (): void =>
    this.#utilization.note(this.#clock.monotonicMs(), this.#getRate(), this.#activeTasks, this.#resumeMs);
  readonly #getConfiguredRate = (): number =>
    Math.min(this.#options.requestsPerSecond, this.#configuredMin, this.#statedRate);

  constructor(options: RateLimiterOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    checkRate(options.requestsPerSecond);
    this.#rateLease = new RateLease(options.rateStore, clock, () => this.#getRate());
    this.#slidingWindow = createSlidingWindow(() => this.#getRate(), this.#rateLease);
    this.#slots = new PQueue({ concurrency: options.concurrency });
    this.#configuredMin = options.requestsPerSecond;
  }

  /** Reads the shared state, and publishes this process's configured rate. */
  #syncState(nowMs: number): void {
    const { requestsPerSecond: own } = this.#options;
    const state = readRateState(this.#rateLease, nowMs);
    const isOld = nowMs - state.configuredMinAtMs > configuredMinKeptMs;
    const isDue = own === state.configuredMin && nowMs - state.configuredMinAtMs > refreshMsMin;
    if (isOld || own < state.configuredMin || isDue)
      this.#rateLease.write({ ...state, configuredMin: own, configuredMinAtMs: nowMs, writtenAtMs: nowMs });
    this.#configuredMin = isOld ? own : state.configuredMin;
    if (state.inferred !== this.#inferredText) {
      this.#inferredText = state.inferred;
      this.#inferredRate = parseInferredRate(state.inferred);
    }
    this.#noteResume(state.resumeMs, nowMs);
  }

  #noteResume(until: number, nowMs: number): void {
    if (until <= this.#resumeMs) return;
    this.#throttledMs += Math.max(0, until - Math.max(nowMs, this.#resumeMs));
    this.#resumeMs = until;
    this.#noteUse();
  }

  /** Starts a request, or returns how long to wait before the next try. */
  #tryAcquire(): Start | { readonly waitMs: number } {
    return this.#rateLease.runStart((now) => {
      this.#syncState(now);
      if (this.#resumeMs - now > this.#options.pauseMsMax) throw new PauseTooLongError(this.#resumeMs - now);
      const next = Math.max(this.#resumeMs, this.#slidingWindow.computeEarliestMs(now));
      return next <= now ? { request: this.#slidingWindow.start(now), atMs: now } : { waitMs: next - now };
    });
  }

  /** Starts a request immediately if none is waiting and the rate allows it. */
  #acquireNow(signal: AbortSignal): Start | undefined {
    if (this.#queue.size + this.#queue.pending > 0) return undefined;
    signal.throwIfAborted();
    const result = this.#tryAcquire();
    return 'request' in result ? result : undefined;
  }

  async #acquire(signal: AbortSignal): Promise<Start> {
    const startedMs = this.#clock.monotonicMs();
    for (;;) {
      signal.throwIfAborted();
      const result = this.#tryAcquire();
      if ('request' in result) {
        this.#waitedMs += Math.max(0, result.atMs - Math.max(startedMs, this.#resumeMs));
        return result;
      }
      // A pause, a response or another process may change the time, so it is computed again.
      await this.#clock.sleep(Math.min(result.waitMs, refreshMsMax), signal);
    }
  }

  async #acquireInTime(signal: AbortSignal): Promise<number> {
    for (;;) {
      const { request, atMs } =
        this.#acquireNow(signal) ?? (await this.#queue.add(() => this.#acquire(signal), { signal }));
      if (this.#clock.monotonicMs() - atMs <= lateStartMsMax) return request;
      this.#release(request, undefined);
    }
  }

  /** `isThrottled` is undefined if there was no response. */
  #release(request: number, isThrottled: boolean | undefined): void {
    const work = (now: number): void => {
      this.#syncState(now);
      if (isThrottled === undefined) this.#slidingWindow.noteNoResponse(request, now);
      else {
        this.#slidingWindow.noteResponse(request, now, isThrottled);
        this.#updateRate(request, isThrottled);
      }
    };
    if (isThrottled === true || this.#inferredRate !== null) this.#rateLease.runShared(work);
    else this.#rateLease.runResponse(work);
  }

  #updateRate(request: number, isThrottled: boolean): void {
    const rate = this.#getConfiguredRate();
    const state = this.#rateLease.read();
    const startedAtMs = this.#rateLease.getStart(request)?.atMs ?? Number.POSITIVE_INFINITY;
    const observation = {
      request,
      nextRequest: state.count,
      isThrottled,
      countAccepted: () => this.#rateLease.countAccepted(request - Math.ceil(rate), request, startedAtMs - 1000),
      nowMs: this.#clock.nowMs(),
    };
    const before = this.#inferredRate;
    this.#inferredRate = updateInferredRate(before, observation, rate);
    if (this.#inferredRate === before) return;
    this.#inferredText = this.#inferredRate === null ? null : JSON.stringify(this.#inferredRate);
    this.#rateLease.write({ ...state, inferred: this.#inferredText });
    const [previousRate, newRate] = [getRateInForce(before, rate), getRateInForce(this.#inferredRate, rate)];
    if (previousRate !== newRate) this.#options.onRate?.(newRate, previousRate);
  }

  async #runInSlot<T>(task: (permit: Permit) => Promise<T>, signal: AbortSignal): Promise<T> {
    const request = await this.#acquireInTime(signal);
    this.#utilization.noteStart();
    this.#noteUse();
    let hasResponse = false;
    this.#inFlight++;
    try {
      return await task({
        noteResponse: (isThrottled = false) => {
          hasResponse = true;
          this.#inFlight--;
          this.#release(request, isThrottled);
        },
      });
    } finally {
      if (!hasResponse) {
        this.#inFlight--;
        this.#release(request, undefined);
      }
    }
  }

  /**
   * Runs a task when a slot is free and the rate allows it. Higher priority goes first.
   * @throws PauseTooLongError, or the signal's reason, immediately and in any state
   */
  async run<T>(
    task: (permit: Permit) => Promise<T>,
    { priority, signal }: { priority: number; signal: AbortSignal },
  ): Promise<T> {
    this.#activeTasks++;
    this.#noteUse();
    try {
      return await this.#slots.add(() => this.#runInSlot(task, signal), { priority, signal });
    } finally {
      this.#activeTasks--;
      this.#noteUse();
    }
  }

  /**
   * Starts no task within the next `ms`. Applies to all processes that share the store, unless `ms` exceeds the maximum
   * pause. A pause never shortens another one.
   */
  pause(ms: number): void {
    this.#rateLease.runShared((now) => {
      this.#syncState(now);
      const until = now + ms;
      this.#noteResume(until, now);
      const state = this.#rateLease.read();
      // A longer pause fails the requests of this run. The next run may check whether it still applies.
      if (ms <= this.#options.pauseMsMax && until > state.resumeMs)
        this.#rateLease.write({ ...state, resumeMs: until, writtenAtMs: now });
    });
  }

  /** Limits the rate to the one that the service states. The last call applies. */
  capRate(requestsPerSecond: number): void {
    this.#statedRate = requestsPerSecond;
  }

  /** Resolves when no task is running or waiting. After this, the owner of the rate store may close it. */
  async close(): Promise<void> {
    await this.#slots.onIdle();
    this.#rateLease.leave();
  }

  /** Number of tasks of this process that have not received response headers yet. */
  countInFlight(): number {
    return this.#inFlight;
  }

  /** Waits so far, and the rate. A pause that is part of another one counts once. */
  getUse(): Omit<UpstreamCounters, 'requests' | 'retries' | 'bytes'> {
    this.#noteUse();
    return {
      throttledMs: Math.round(this.#throttledMs),
      waitedMs: Math.round(this.#waitedMs),
      allowedPerSecond: this.#getRate(),
      usedShare: this.#utilization.computeShare(),
      heldBackMs: Math.round(Math.max(0, this.#resumeMs - this.#clock.monotonicMs())),
    };
  }
}

/**
 * Measures how much of the allowed rate was used while there were tasks: requests started, compared with the number that the
 * rate in force allowed. Times are monotonic milliseconds, rates requests per second.
 */
export function createUtilizationMeter() {
  let last = { nowMs: 0, rate: 0, activeTasks: 0, resumeMs: Number.NEGATIVE_INFINITY };
  let allowed = 0;
  let starts = 0;
  return {
    /**
     * Records the state from `nowMs` on: the rate in force, the number of waiting and running tasks, and the end of the
     * current pause.
     */
    note(nowMs: number, rate: number, activeTasks: number, resumeMs: number) {
      const fromMs = Math.max(last.nowMs, last.resumeMs);
      if (last.activeTasks > 0) allowed += (Math.max(0, nowMs - fromMs) / 1000) * last.rate;
      last = { nowMs, rate, activeTasks, resumeMs };
    },
    /** Records the start of a request. */
    noteStart: () => void starts++,
    // The first request starts immediately: n intervals allow n + 1 starts.
    /** The share used up to the last `note`, 0 to 1. */
    computeShare: (): number => (starts === 0 ? 0 : Math.min(1, starts / (allowed + 1))),
  };
}
