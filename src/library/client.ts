import { systemClock, systemRandom } from '../base/system.ts';
import { openUpstream } from '../client/client.ts';
import type { Upstream, UpstreamLimits, UpstreamLogger } from '../client/upstream.ts';

// `oddslake/client`: the market data service under one key, with a rate limit and retries. Keeps nothing.

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

interface ClientOptions extends Partial<UpstreamLimits> {
  /** http or https, with or without a path prefix; no credentials, query or fragment. */
  readonly baseUrl: string;
  /** Sent as `Authorization: Bearer …` to `baseUrl` and nowhere else; in no log and no error. */
  readonly apiKey: string;
  /** Default `oddslake`. */
  readonly userAgent?: string;
  /** Gets retries, pauses and changes of the rate. */
  readonly log?: UpstreamLogger;
}

/**
 * Opens a client. All its requests share one rate limit, one retry budget and the pauses that the service asks for: open
 * one for each key. Nothing is connected before the first request; `close` it at the end.
 * @throws UsageError for a base URL or key that cannot be used
 */
export const openClient = ({ log, ...options }: ClientOptions): Upstream =>
  openUpstream(
    { userAgent: 'oddslake', ...options },
    { clock: systemClock, random: systemRandom, ...(log === undefined ? {} : { log }) },
  );
