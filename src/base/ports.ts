import { hourMs } from './window.ts';

/** A clock. src/base/system.ts has the system clock; tests use virtual clocks. */
export interface Clock {
  /** Wall clock, epoch milliseconds UTC. It may jump. */
  nowMs(): number;
  /** Monotonic clock in milliseconds. All processes of the machine share its origin until the machine restarts. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** How far a stored timestamp may be ahead of the clock, in ms. Later times are ignored: the clock was wrong. */
export const clockAheadMsMax = hourMs;

/** Returns a number in [0, 1), as Math.random does. */
export type Random = () => number;

/** A logger with the signature of pino: fields, then message, as in `log.info({ symbol, ticks }, 'published')`. */
export interface Log {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** A log that adds the given fields to every line. */
export const addLogFields = (log: Log, fields: object): Log => ({
  debug: (facts, message) => log.debug({ ...fields, ...facts }, message),
  info: (facts, message) => log.info({ ...fields, ...facts }, message),
  warn: (facts, message) => log.warn({ ...fields, ...facts }, message),
  error: (facts, message) => log.error({ ...fields, ...facts }, message),
});
