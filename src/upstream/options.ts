import type { Clock, Random } from '../core/clock.ts';
import type { RateStateStore } from '../core/rate-state.ts';
import type { RawPage } from '../core/raw-page.ts';
import type { OpenTransport } from './transport.ts';
import type { UpstreamCounters } from './upstream.ts';

/** What the client may cost the service, and how long it insists. */
export interface UpstreamLimits {
  /** Most requests in any sliding second, retries included; below 1, one request each 1 / rate seconds. Above 0. */
  readonly requestsPerSecond: number;
  /** Most requests under way at once, from 1. */
  readonly concurrency: number;
  /** For one try, over all of connecting, headers and body; milliseconds. */
  readonly requestDeadlineMs: number;
  /** Largest answer taken, compressed and decompressed; bytes. */
  readonly responseBytesMax: number;
  /** Tries of one request, the first one included; from 1. */
  readonly retryAttemptsMax: number;
  /** Before retry k (from 0) passes a random time in [0, min(retryDelayMsMax, retryDelayMsMin · 2^k)). */
  readonly retryDelayMsMin: number;
  readonly retryDelayMsMax: number;
  /**
   * Retries that all requests together may have on credit. Each retry takes 1, each success gives `retryBudgetGain`
   * back, never above the start. At 0 a failed try is final: a service that is down is not hit several times over.
   */
  readonly retryBudget: number;
  readonly retryBudgetGain: number;
  /** Longest pause that the service may ask for with Retry-After; beyond it requests fail instead of waiting. */
  readonly retryAfterMsMax: number;
}

export const upstreamLimits: UpstreamLimits = {
  requestsPerSecond: 5,
  concurrency: 4,
  requestDeadlineMs: 30_000,
  responseBytesMax: 64 * 1024 * 1024,
  retryAttemptsMax: 6,
  retryDelayMsMin: 500,
  retryDelayMsMax: 30_000,
  retryBudget: 100,
  retryBudgetGain: 0.5,
  retryAfterMsMax: 15 * 60_000,
};

export interface UpstreamOptions extends Partial<UpstreamLimits> {
  /** http or https, with or without a path prefix; no credentials, query or fragment. */
  readonly baseUrl: string;
  /** Sent as `Authorization: Bearer …` to `baseUrl` and nowhere else; in no log and no error. */
  readonly apiKey: string;
  /** Sent as User-Agent, e.g. `oddslake/0.1.0`. */
  readonly userAgent: string;
}

/** The part of pino's face that the client uses. */
export interface UpstreamLogger {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
}

/** An answer of a good status, decompressed. Times are epoch milliseconds; see core/raw-page.ts. */
export type ReceivedResponse = Omit<RawPage, 'run' | 'redacted'>;

export interface UpstreamDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log?: UpstreamLogger;
  /** Where the pace is kept that this client shares with others; without one it keeps its own. */
  readonly rateStore?: RateStateStore;
  /** Opens what requests go over; undici's connections where it is not given. */
  readonly openTransport?: OpenTransport | undefined;
  /** Given every answer whose body came whole, before anything is made of it. */
  readonly onResponse?: ((answer: ReceivedResponse) => void) | undefined;
  /** Called after every try. */
  readonly onCounters?: (counters: UpstreamCounters) => void;
}
