import PQueue from 'p-queue';
import type { Clock } from '../base/ports.ts';
import type { RateStateStore } from '../base/rate-state.ts';
import { getRateInForce, type InferredRate, updateInferredRate } from './adaptive-rate.ts';
import { createLocalRateStore } from './local-rate-store.ts';
import { checkRate, createSlidingWindow, readRateState } from './sliding-window.ts';

/** A pause of the key that is longer than the client is willing to wait. */
export class PauseTooLongError extends Error {
  readonly pauseMs: number;
  constructor(pauseMs: number) {
    super(`paused for ${Math.round(pauseMs / 1000)} s`);
    this.name = 'PauseTooLongError';
    this.pauseMs = pauseMs;
  }
}

/** A request's place in the pace. */
export interface RequestTurn {
  /** To be called when the headers of the answer are there; `letThrough` unless it was refused for its rate. */
  noteResponse(letThrough?: boolean): void;
}

export interface RateLimiterOptions {
  readonly requestsPerSecond: number;
  readonly concurrency: number;
  readonly pauseMsMax: number;
  /** Where the pace is kept; by default this process keeps one by itself. */
  readonly rateStore?: RateStateStore;
  /** Told when refusals, or their absence, change the rate in force. */
  readonly onRate?: (rate: number, before: number) => void;
}

/** Everything under one key goes through one limiter. */
export interface RateLimiter {
  /**
   * Runs a task when it has a free slot and its turn in the pace. Greater priority goes first.
   * @throws PauseTooLongError, or the signal's reason, at once and in every state
   */
  run<T>(task: (turn: RequestTurn) => Promise<T>, place: { priority: number; signal: AbortSignal }): Promise<T>;
  /**
   * No task starts within the next `ms`, in no process that shares the memory unless it is longer than the bound.
   * Pauses never shorten each other.
   */
  pause(ms: number): void;
  /** The service states a rate it allows; the last word counts. */
  capRate(requestsPerSecond: number): void;
  /** Resolves when no task runs or waits. */
  waitUntilIdle(): Promise<void>;
  /** Tasks of this process whose answer has not begun. */
  countInFlight(): number;
  /** Milliseconds with a task at the head of the line that the pace held back. */
  waitedMs(): number;
  /** Milliseconds of pauses, each moment counted once. */
  throttledMs(): number;
  /** Requests a second that are allowed at this moment. */
  allowedPerSecond(): number;
  /** The share of what was allowed, 0 to 1, that was used while there was something to ask for. */
  usedShare(): number;
  /** Milliseconds for which the service holds all back from now on. */
  remainingPauseMs(): number;
}

/** For so long after somebody with a lower rate last looked all keep to that rate. */
const lowestRateKeptMs = 10_000;
/** Who waits looks this often, so that the others know of its rate. */
const refreshMsMax = lowestRateKeptMs / 2;
/** Least difference between two notes of the moment at which one looked. */
const refreshGrainMs = 1_000;

export function createRateLimiter(options: RateLimiterOptions, clock: Clock): RateLimiter {
  const { rateStore = createLocalRateStore(), requestsPerSecond, pauseMsMax } = options;
  checkRate(requestsPerSecond);
  let statedRate = Number.POSITIVE_INFINITY;
  let learnedText: string | null = null;
  let learned: InferredRate | null = null;
  const pacer = createSlidingWindow(() => inForce(), rateStore);
  const slots = new PQueue({ concurrency: options.concurrency });
  // A line of one: whoever is in it waits for the pace, the others behind it keep their order.
  const line = new PQueue({ concurrency: 1 });
  let lowest = requestsPerSecond;
  let resumeAt = Number.NEGATIVE_INFINITY;
  let underWay = 0;
  let waitedMs = 0;
  let throttledMs = 0;
  let wanted = 0;
  const use = createUtilizationMeter();

  const inForce = (): number => getRateInForce(learned, configured());
  const noteUse = (): void => use.note(clock.monotonicMs(), inForce(), wanted, resumeAt);

  const configured = (): number => Math.min(requestsPerSecond, lowest, statedRate);

  /** Takes over what others wrote, and says which rate is wanted here. */
  function look(nowMs: number): void {
    const pace = readRateState(rateStore, nowMs);
    const isOld = nowMs - pace.lowestAtMs > lowestRateKeptMs;
    if (
      isOld ||
      requestsPerSecond < pace.lowest ||
      (requestsPerSecond === pace.lowest && nowMs - pace.lowestAtMs > refreshGrainMs)
    ) {
      rateStore.write({ ...pace, lowest: requestsPerSecond, lowestAtMs: nowMs, atMs: nowMs });
    }
    lowest = isOld ? requestsPerSecond : pace.lowest;
    if (pace.learned !== learnedText) {
      learnedText = pace.learned;
      learned = pace.learned === null ? null : (JSON.parse(pace.learned) as InferredRate);
    }
    noteResume(pace.resumeMs, nowMs);
  }

  function noteResume(until: number, nowMs: number): void {
    if (until <= resumeAt) return;
    throttledMs += Math.max(0, until - Math.max(nowMs, resumeAt));
    resumeAt = until;
    noteUse();
  }

  /** Starts a request, or says when to ask again. */
  function tryTurn(): { readonly request: number; readonly atMs: number } | { readonly waitMs: number } {
    return rateStore.runExclusive(() => {
      const now = clock.monotonicMs();
      look(now);
      if (resumeAt - now > pauseMsMax) throw new PauseTooLongError(resumeAt - now);
      const next = Math.max(resumeAt, pacer.computeEarliestMs(now));
      return next <= now ? { request: pacer.start(now), atMs: now } : { waitMs: next - now };
    });
  }

  /** Where nobody waits in line and the pace holds nothing back, there is nothing to wait for. */
  function startNow(signal: AbortSignal): number | undefined {
    if (line.size + line.pending > 0) return undefined;
    signal.throwIfAborted();
    const turn = tryTurn();
    return 'request' in turn ? turn.request : undefined;
  }

  async function takeTurn(signal: AbortSignal): Promise<number> {
    const asked = clock.monotonicMs();
    for (;;) {
      signal.throwIfAborted();
      const turn = tryTurn();
      if ('request' in turn) {
        waitedMs += Math.max(0, turn.atMs - Math.max(asked, resumeAt));
        return turn.request;
      }
      // A pause, an answer and another process may move its turn, so it is asked for again.
      await clock.sleep(Math.min(turn.waitMs, refreshMsMax), signal);
    }
  }

  function ended(request: number, letThrough: boolean | undefined): void {
    rateStore.runExclusive(() => {
      const now = clock.monotonicMs();
      look(now);
      if (letThrough === undefined) return pacer.noteNoResponse(request, now);
      pacer.noteResponse(request, now, letThrough);
      learn(request, !letThrough);
    });
  }

  function learn(request: number, refused: boolean): void {
    const rate = configured();
    const pace = rateStore.read();
    const startedMs = rateStore.getStart(request)?.atMs ?? Number.POSITIVE_INFINITY;
    const letThrough = () => rateStore.countAccepted(request - Math.ceil(rate), request, startedMs - 1000);
    const answer = {
      request,
      nextRequest: pace.count,
      isThrottled: refused,
      countLetThrough: letThrough,
      nowMs: clock.nowMs(),
    };
    const before = learned;
    learned = updateInferredRate(before, answer, rate);
    if (learned === before) return;
    learnedText = learned === null ? null : JSON.stringify(learned);
    rateStore.write({ ...pace, learned: learnedText });
    const [was, is] = [getRateInForce(before, rate), getRateInForce(learned, rate)];
    if (was !== is) options.onRate?.(is, was);
  }

  async function runInSlot<T>(task: (turn: RequestTurn) => Promise<T>, signal: AbortSignal): Promise<T> {
    const request = startNow(signal) ?? (await line.add(() => takeTurn(signal), { signal }));
    use.noteStart();
    noteUse();
    let isAnswered = false;
    underWay++;
    try {
      return await task({
        noteResponse(letThrough = true) {
          isAnswered = true;
          underWay--;
          ended(request, letThrough);
        },
      });
    } finally {
      if (!isAnswered) {
        underWay--;
        ended(request, undefined);
      }
    }
  }

  return {
    async run(task, { priority, signal }) {
      wanted++;
      noteUse();
      try {
        return await slots.add(() => runInSlot(task, signal), { priority, signal });
      } finally {
        wanted--;
        noteUse();
      }
    },
    pause(ms) {
      rateStore.runExclusive(() => {
        const now = clock.monotonicMs();
        look(now);
        const until = now + ms;
        noteResume(until, now);
        const pace = rateStore.read();
        // A longer one ends this run's requests; whether it still holds, the next run may ask.
        if (ms <= pauseMsMax && until > pace.resumeMs) rateStore.write({ ...pace, resumeMs: until, atMs: now });
      });
    },
    capRate(requestsPerSecond) {
      statedRate = requestsPerSecond;
    },
    waitUntilIdle: () => slots.onIdle(),
    countInFlight: () => underWay,
    waitedMs: () => waitedMs,
    throttledMs: () => throttledMs,
    allowedPerSecond: inForce,
    usedShare() {
      noteUse();
      return use.computeShare();
    },
    remainingPauseMs: () => Math.max(0, resumeAt - clock.monotonicMs()),
  };
}

/**
 * How much of the allowed rate was used while there was something to ask for: requests started, beside those that the
 * rate in force at each moment would have let start. Times are monotonic milliseconds, rates requests a second.
 */
export interface UtilizationMeter {
  /** What holds from `nowMs` on: the rate in force, how many requests are wanted, and until when the service holds all back. */
  note(nowMs: number, rate: number, wanted: number, resumeMs: number): void;
  /** A request started. */
  noteStart(): void;
  /** The share that was used up to the last note, 0 to 1. */
  computeShare(): number;
}

export function createUtilizationMeter(): UtilizationMeter {
  let last = { nowMs: 0, rate: 0, wanted: 0, resumeMs: Number.NEGATIVE_INFINITY };
  let allowed = 0;
  let starts = 0;
  return {
    note(nowMs, rate, wanted, resumeMs) {
      const fromMs = Math.max(last.nowMs, last.resumeMs);
      if (last.wanted > 0) allowed += (Math.max(0, nowMs - fromMs) / 1000) * last.rate;
      last = { nowMs, rate, wanted, resumeMs };
    },
    noteStart: () => void starts++,
    // The first one starts at once: in a span of n spacings there is room for n + 1.
    computeShare: () => (starts === 0 ? 0 : Math.min(1, starts / (allowed + 1))),
  };
}
