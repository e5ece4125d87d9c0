import { hourMs } from './window.ts';

/** Source of time. src/base/system.ts has the real one; tests supply their own. */
export interface Clock {
  /** Wall clock, epoch milliseconds UTC. It may jump. */
  nowMs(): number;
  /** Milliseconds since a fixed moment, which all processes of the machine share until it restarts. Never decreases. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/**
 * How far a stored time may be ahead of the clock, in ms. A time further ahead was written while the clock was wrong, and
 * is ignored.
 */
export const clockAheadMsMax = hourMs;

/** Returns a number in [0, 1), as Math.random does. */
export type Random = () => number;

/** Logger that takes the fields before the message: `log.info({ symbol, ticks }, 'published')`. A pino logger fits. */
export interface Log {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}
