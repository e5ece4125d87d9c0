/**
 * State of the rate limiter. All processes that write one archive share it, so that they keep one rate limit together.
 * Times are in milliseconds of a monotonic clock that all of these processes share.
 */
export interface RateState {
  /** Requests started so far; also the number of the next request. */
  readonly count: number;
  /** Time of the last start; the next start keeps its distance from it. */
  readonly slotMs: number;
  /** Minimum time from a start to the response headers, and the number of responses it was taken over. */
  readonly leastMs: number;
  readonly answers: number;
  /** No request starts before this time (Retry-After). */
  readonly resumeMs: number;
  /** The lowest rate that a process was recently configured with, and when that process last read the state. */
  readonly lowest: number;
  readonly lowestAtMs: number;
  /** Time of the last write. */
  readonly atMs: number;
  /** The inferred rate limit of the server, as JSON. The only field that is kept across restarts of the machine. */
  readonly learned: string | null;
}

/** Start of a request. `tookMs` is null until the response. */
export interface RequestStart {
  readonly atMs: number;
  readonly tookMs: number | null;
}

/** Store for the state of a rate limiter. It may delete starts older than `startsRetentionMs`, except the last one. */
export interface RateStateStore {
  /** Runs `work` under an exclusive lock. All methods below must be called inside it. */
  runExclusive<T>(work: () => T): T;
  read(): RateState;
  write(pace: RateState): void;
  getStart(request: number): RequestStart | undefined;
  addStart(request: number, atMs: number): void;
  /** Records the end of a request. `letThrough` is true if the server responded and did not reject it for its rate. */
  endStart(request: number, tookMs: number, letThrough: boolean): void;
  /** Counts requests numbered `first` to `end` (exclusive) that started after `afterMs` and were let through. */
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
