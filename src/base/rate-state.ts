/**
 * What everyone who asks under one key remembers together, so that they keep one pace: one process by itself, or all
 * that write one archive. Times are of a clock that all of them share and that never goes back, in milliseconds.
 */
export interface RateState {
  /** Requests started so far; the number of the next one. */
  readonly count: number;
  /** The last slot taken; starts are spaced from it. */
  readonly slotMs: number;
  /** Least time from a start to the headers of its answer, and how many answers it was the least of. */
  readonly leastMs: number;
  readonly answers: number;
  /** Nothing starts before; the service asked for it. */
  readonly resumeMs: number;
  /** The least rate that somebody was lately configured with, and when that one last looked. */
  readonly lowest: number;
  readonly lowestAtMs: number;
  /** When something was last written here. */
  readonly atMs: number;
  /** What was learned of the service's limit, as JSON: the only part that outlives a restart of the machine. */
  readonly learned: string | null;
}

/** A request started; null: not answered yet. */
export interface RequestStart {
  readonly atMs: number;
  readonly tookMs: number | null;
}

/** Where a pace is kept. Starts older than `startsRetentionMs` may be forgotten, the last one never. */
export interface RateStateStore {
  /** Runs `work` with nobody else reading or writing meanwhile; everything below is called inside of it. */
  runExclusive<T>(work: () => T): T;
  read(): RateState;
  write(pace: RateState): void;
  getStart(request: number): RequestStart | undefined;
  addStart(request: number, atMs: number): void;
  /** Notes that a request is over; `letThrough`: the service answered and did not refuse it for its rate. */
  endStart(request: number, tookMs: number, letThrough: boolean): void;
  /** Requests from number `first` on and below `end` that started after `afterMs` and were let through. */
  countAccepted(first: number, end: number, afterMs: number): number;
  /** Forgets every start. */
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
