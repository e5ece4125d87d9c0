import type { Clock, Random } from '../base/ports.ts';
import type { RateStateStore } from '../base/rate-state.ts';
import type { RejectedInput, TickColumns } from '../base/ticks.ts';
import type { Window } from '../base/window.ts';
import type { RawPage, TickRequestPurpose } from '../contract/raw-page.ts';
import type { OpenTransport } from './transport.ts';

/** One answer to GET /api/v1/ticks, decoded but not yet judged. Times are epoch milliseconds. */
export interface TickPage extends TickColumns {
  /** Elements of the `ticks` array, readable or not. `t.length + rejected.length` equals it. */
  readonly received: number;
  /** Elements that are not an object with two numbers; `raw` is their JSON text. */
  readonly rejected: readonly RejectedInput[];
  /** The window that the service says it covered; null where it does not say. */
  readonly from: number | null;
  readonly to: number | null;
  /** When the service generated the answer; null where it does not say. */
  readonly generatedAt: number | null;
  /** When the answer left the service, by the head of the answer; null or nothing where it does not say. */
  readonly servedAt?: number | null;
  /** Windows inside [from, to) that the service says it lacks (an extension of the interface). */
  readonly gaps: readonly Window[];
}

/** A tick page and the symbol it names; null where it names none. */
export interface DecodedTickPage extends TickPage {
  readonly symbol: string | null;
}

/** One answer to GET /api/v1/markets. Records are kept as received. */
export interface MarketsPage {
  readonly markets: readonly unknown[];
  /** Number of matching markets as the service states it; null where it does not say. */
  readonly total: number | null;
  readonly generatedAt: number | null;
}

/** One answer to GET /api/v1/orderbook, parsed and not understood yet: its shape is not documented. */
export interface OrderbookResponse {
  readonly body: object;
  /** The JSON as received. */
  readonly text: string;
  readonly generatedAt: number | null;
}

/** What is kept with the answer as it came, and not sent. */
interface RequestNote {
  /** The moment that an answer which names none is dated by, epoch ms; without one that of the call. */
  readonly askedAt?: number;
}

export interface OrderbookQuery extends RequestNote {
  readonly symbol: string;
}

export interface TicksQuery extends Window, RequestNote {
  readonly symbol: string;
  /** What it is sent for, kept with the answer as it came. */
  readonly meaning?: TickRequestPurpose;
  /** Most ticks wanted; the service may cap below it, silently. */
  readonly limit: number;
}

export interface MarketsQuery extends RequestNote {
  readonly view?: string;
  readonly source?: string;
  readonly limit?: number;
}

/** What the client counted since it was opened. */
export interface UpstreamCounters {
  /** Requests started, retries included. */
  readonly requests: number;
  readonly retries: number;
  /** Milliseconds the key was paused because the service asked for it (429, Retry-After). */
  readonly throttledMs: number;
  /** Milliseconds requests waited for their turn under the configured rate. */
  readonly waitedMs: number;
  /** Requests a second that are allowed at this moment. */
  readonly allowedPerSecond: number;
  /** Share, 0 to 1, of what was allowed while there was something to ask for. */
  readonly usedShare: number;
  /** Milliseconds for which the service holds all requests back from now on. */
  readonly heldBackMs: number;
  readonly bytes: number;
}

/** The market data service as the collector sees it. Methods reject with UpstreamError, or at once with the signal's reason. */
export interface Upstream {
  ticks(query: TicksQuery, signal?: AbortSignal): Promise<TickPage>;
  markets(query: MarketsQuery, signal?: AbortSignal): Promise<MarketsPage>;
  orderbook(query: OrderbookQuery, signal?: AbortSignal): Promise<OrderbookResponse>;
  counters(): UpstreamCounters;
  close(): Promise<void>;
}

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
  /** Sent as `Authorization: Bearer …` to `resolveBaseUrl` and nowhere else; in no log and no error. */
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

/** An answer of a good status, decompressed. Times are epoch milliseconds; see contract/raw-page.ts. */
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
