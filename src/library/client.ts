import { systemClock, systemRandom } from '../base/system.ts';
import { openUpstream } from '../client/client.ts';
import type { Upstream, UpstreamLimits, UpstreamLogger } from '../client/upstream.ts';

// `oddslake/client`: an HTTP client of the market data service for one key, with a rate limit and retries. Stores nothing.

export { UpstreamError, type UpstreamFailure, UsageError } from '../base/errors.ts';
export type {
  MarketsPage,
  MarketsQuery,
  OrderbookQuery,
  OrderbookResponse,
  TickPage,
  TicksQuery,
  Upstream,
  UpstreamCounters,
  UpstreamLimits,
} from '../client/upstream.ts';

export interface ClientOptions extends Partial<UpstreamLimits> {
  /** http or https, with or without a path prefix; no credentials, query or fragment. */
  readonly baseUrl: string;
  /** Sent as `Authorization: Bearer …` to `baseUrl` only. It does not appear in logs and errors. */
  readonly apiKey: string;
  /** Default `oddslake`. */
  readonly userAgent?: string;
  /** Receives log lines about retries, pauses and changes of the rate. */
  readonly log?: UpstreamLogger;
}

/**
 * Opens a client. All its requests share one rate limit, one retry budget and the pauses of `Retry-After`, so open one
 * client for each key. It connects on the first request. Call `close` when done.
 * @throws UsageError for an invalid base URL or key
 */
export const openClient = ({ log, ...options }: ClientOptions): Upstream =>
  openUpstream(
    { userAgent: 'oddslake', ...options },
    { clock: systemClock, random: systemRandom, ...(log === undefined ? {} : { log }) },
  );
