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
  readonly leastMs: number;
  readonly answers: number;
  /** No request starts before this time (Retry-After). */
  readonly resumeMs: number;
  /** Lowest configured rate of the recently active processes, and when its process last read the state. */
  readonly lowest: number;
  readonly lowestAtMs: number;
  /** Time of the last write. */
  readonly atMs: number;
  /** The inferred rate limit of the server, as JSON. The only field that is kept across restarts of the machine. */
  readonly learned: string | null;
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
  write(pace: RateState): void;
  getStart(request: number): RequestStart | undefined;
  addStart(request: number, atMs: number): void;
  /** Records the end of a request. `letThrough` is true if the server responded and did not reject the request rate. */
  endStart(request: number, tookMs: number, letThrough: boolean): void;
  /** Counts the accepted requests with numbers from `first` to `end` (exclusive) that started after `afterMs`. */
  countAccepted(first: number, end: number, afterMs: number): number;
  /** Deletes all starts. */
  clear(): void;
}

export const startsRetentionMs = 5_000;

export const initialRateState: RateState = {
  count: 0,
  slotMs: Number.NEGATIVE_INFINITY,
  leastMs: Number.POSITIVE_INFINITY,
  answers: 0,
  resumeMs: Number.NEGATIVE_INFINITY,
  lowest: Number.POSITIVE_INFINITY,
  lowestAtMs: Number.NEGATIVE_INFINITY,
  atMs: Number.NEGATIVE_INFINITY,
  learned: null,
};
