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
  /** The inferred rate as JSON. Only this field, `count` and `users` are kept across restarts of the machine. */
  readonly inferred: string | null;
  /** Number of users of the state so far, which is the ID of the newest; and the one that used it last. 0: it has left. */
  readonly users: number;
  readonly lastUser: number;
  /**
   * The lease of a user: requests from `reservedFrom` to `count` may have started, none of them after `reservedUntilMs`.
   * Those without a stored start count as started at that time.
   */
  readonly reservedFrom: number;
  readonly reservedUntilMs: number;
}

/** Start of a request. `tookMs` is null until the response arrives. `isAccepted`: it had a response that was not a 429. */
export interface RequestStart {
  readonly atMs: number;
  readonly tookMs: number | null;
  readonly isAccepted: boolean;
}

/** The state of a rate limiter. It may delete starts older than `startsRetentionMs`, except the latest start. */
export interface RateStateAccess {
  read(): RateState;
  write(state: RateState): void;
  getStart(request: number): RequestStart | undefined;
  addStart(request: number, atMs: number): void;
  /** Records how long a request took, and whether it was accepted. */
  endStart(request: number, tookMs: number, isAccepted: boolean): void;
  /** Counts the accepted requests numbered `first` to `end` (exclusive) that started after `afterMs`. */
  countAccepted(first: number, end: number, afterMs: number): number;
  /** Deletes all starts. */
  clear(): void;
}

export interface RateStateStore extends RateStateAccess {
  /** Lists all starts in the order of their requests. */
  listStarts(): readonly (readonly [number, RequestStart])[];
  /** Adds or replaces starts, in order. */
  putStarts(starts: readonly (readonly [number, RequestStart])[]): void;
  /** Runs `work` under an exclusive lock. The other methods may be called only from `work`. */
  runExclusive<T>(work: () => T): T;
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
  users: 0,
  lastUser: 0,
  reservedFrom: 0,
  reservedUntilMs: Number.NEGATIVE_INFINITY,
};

/** A rate state for this process only. */
export function createLocalRateStore(): RateStateStore {
  let state = initialRateState;
  const starts = new Map<number, RequestStart>();
  const deleteOld = (request: number, atMs: number): void => {
    for (const [oldest, start] of starts) {
      if (start.atMs >= atMs - startsRetentionMs || oldest === request) break;
      starts.delete(oldest);
    }
  };
  return {
    runExclusive: (work) => work(),
    read: () => state,
    write(next) {
      state = next;
    },
    getStart: (request) => starts.get(request),
    listStarts: () => [...starts],
    addStart(request, atMs) {
      starts.set(request, { atMs, tookMs: null, isAccepted: false });
      deleteOld(request, atMs);
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
    putStarts(list) {
      for (const [request, start] of list) starts.set(request, start);
    },
    clear: () => starts.clear(),
  };
}
