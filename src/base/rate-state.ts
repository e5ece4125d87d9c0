/**
 * State of the rate limiter. All processes that write one archive share it, so that together they do not exceed one rate
 * limit. Times are milliseconds of the machine's monotonic clock.
 */
export interface RateState {
  /** Requests started so far; also the number of the next request. */
  readonly count: number;
  /** Time of the last start, from which the time of the next start is computed. */
  readonly slotMs: number;
  /** Minimum time from the start of a request to its response headers, and the number of measured responses. */
  readonly latencyMsMin: number;
  readonly responses: number;
  /** No request starts before this time (Retry-After). */
  readonly resumeMs: number;
  /** Lowest configured rate of the recently active processes, and when its process last read the state. */
  readonly configuredMin: number;
  readonly configuredMinAtMs: number;
  /** Time of the last write. */
  readonly writtenAtMs: number;
  /** The inferred rate as JSON. Only this field and `count` are kept across restarts of the machine. */
  readonly inferred: string | null;
}

/** Start of a request. `tookMs` is null until the response arrives. */
export interface RequestStart {
  readonly atMs: number;
  readonly tookMs: number | null;
}

/** Store for the state of a rate limiter. It may delete starts older than `startsRetentionMs`, except the latest start. */
export interface RateStateStore {
  /** Runs `work` under an exclusive lock. The other methods may be called only from `work`. */
  runExclusive<T>(work: () => T): T;
  read(): RateState;
  write(state: RateState): void;
  getStart(request: number): RequestStart | undefined;
  addStart(request: number, atMs: number): void;
  /** Records how long a request took. `isAccepted`: it had a response that was not a 429. */
  endStart(request: number, tookMs: number, isAccepted: boolean): void;
  /** Counts the accepted requests numbered `first` to `end` (exclusive) that started after `afterMs`. */
  countAccepted(first: number, end: number, afterMs: number): number;
  /** Deletes all starts. */
  clear(): void;
}

export const startsRetentionMs = 5_000;

export const initialRateState: RateState = {
  count: 0,
  slotMs: Number.NEGATIVE_INFINITY,
  latencyMsMin: Number.POSITIVE_INFINITY,
  responses: 0,
  resumeMs: Number.NEGATIVE_INFINITY,
  configuredMin: Number.POSITIVE_INFINITY,
  configuredMinAtMs: Number.NEGATIVE_INFINITY,
  writtenAtMs: Number.NEGATIVE_INFINITY,
  inferred: null,
};

/** A rate state for this process only. */
export function createLocalRateStore(): RateStateStore {
  let state = initialRateState;
  const starts = new Map<number, RequestStart & { readonly isAccepted: boolean }>();
  return {
    runExclusive: (work) => work(),
    read: () => state,
    write(next) {
      state = next;
    },
    getStart: (request) => starts.get(request),
    addStart(request, atMs) {
      starts.set(request, { atMs, tookMs: null, isAccepted: false });
      for (const [oldest, start] of starts) {
        if (start.atMs >= atMs - startsRetentionMs || oldest === request) break;
        starts.delete(oldest);
      }
    },
    endStart(request, tookMs, isAccepted) {
      const start = starts.get(request);
      if (start !== undefined) starts.set(request, { ...start, tookMs, isAccepted });
    },
    countAccepted(first, end, afterMs) {
      let count = 0;
      for (let request = end - 1; request >= first; request--) {
        const start = starts.get(request);
        if (start === undefined || start.atMs <= afterMs) break;
        if (start.isAccepted) count++;
      }
      return count;
    },
    clear: () => starts.clear(),
  };
}
