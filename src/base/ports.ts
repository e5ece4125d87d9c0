/** Time as the rest of the program sees it; the real one comes from src/base/system.ts, tests bring their own. */
export interface Clock {
  /** Wall clock, epoch milliseconds UTC. It may jump. */
  nowMs(): number;
  /** Milliseconds since some fixed moment, the same for all processes of the machine until that starts anew; never goes back. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/**
 * How far ahead of the clock what is remembered may lie, in ms. Further ahead the clock was wrong then: waiting until it
 * gets there again would hide all that comes before.
 */
export const clockAheadMsMax = 3_600_000;

/** A number in [0, 1), as Math.random gives it. */
export type Random = () => number;

/** One fact-first line: `log.info({ symbol, ticks }, 'published')`. A pino logger is one. */
export interface Log {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}
