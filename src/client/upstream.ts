import type { Clock, Random } from '../base/ports.ts';
import type { RateStateStore } from '../base/rate-state.ts';
import type { RejectedInput, TickColumns } from '../base/ticks.ts';
import { minuteMs, type Window } from '../base/window.ts';
import type { evidenceKinds, RawPage, TickRequestPurpose } from '../contract/raw-page.ts';
import type { OpenTransport } from './transport.ts';

/** A decoded response of GET /api/v1/ticks, not yet validated. Times are epoch milliseconds. */
export interface TickPage extends TickColumns {
  /** Number of elements in the `ticks` array: `t.length + rejected.length`. */
  readonly received: number;
  /** Elements that are not an object with two numbers. `raw` is their JSON text. */
  readonly rejected: readonly RejectedInput[];
  /** The window that the service states as covered, or null. */
  readonly from: number | null;
  readonly to: number | null;
  /** When the service generated the response. Null if not stated. */
  readonly generatedAt: number | null;
  /** When the response left the service, according to its Date header. Null or undefined if not stated. */
  readonly servedAt?: number | null;
  /** Windows inside [from, to) for which the service states that it has no data (an extension of the interface). */
  readonly gaps: readonly Window[];
}

/** A tick page with the symbol that it states, or null. */
export interface DecodedTickPage extends TickPage {
  readonly symbol: string | null;
}

/** A response of GET /api/v1/markets. Records are kept as received. */
export interface MarketsPage {
  readonly markets: readonly unknown[];
  /** Number of matching markets that the service states, or null. */
  readonly total: number | null;
  readonly generatedAt: number | null;
}

/** A response of GET /api/v1/orderbook as parsed JSON. Its shape is not documented. */
export interface OrderbookResponse {
  readonly body: object;
  /** The JSON text as received. */
  readonly text: string;
  /** The symbol in the request, if it differs from that of the query: the response contains this one. */
  readonly requestedSymbol?: string;
  readonly generatedAt: number | null;
}

/** Values stored with the raw response and not sent. */
interface RequestNote {
  /** Time of the request, epoch ms. It dates a response that states no time. Default: the time of the call. */
  readonly askedAt?: number;
}

export interface OrderbookQuery extends RequestNote {
  readonly symbol: string;
}

export interface TicksQuery extends Window, RequestNote {
  readonly symbol: string;
  /** Purpose of the request, stored with the raw response. */
  readonly meaning?: TickRequestPurpose;
  /** Maximum number of ticks. The service may silently apply a lower page cap. */
  readonly limit: number;
}

/** The published coverage of a symbol, as another oddslake states it. */
export type CoverageQuery = Pick<TicksQuery, 'symbol' | 'from' | 'to'>;

/** A window that another oddslake covers. `fetchedAt`: when its response was generated, epoch ms. */
export interface StatedCoverage extends Window {
  readonly evidence: (typeof evidenceKinds)[number];
  readonly fetchedAt: number;
}

export interface MarketsQuery extends RequestNote {
  readonly view?: string;
  readonly source?: string;
  readonly limit?: number;
}

/** Counters of the client since it was opened. */
export interface UpstreamCounters {
  /** Requests started, including retries. */
  readonly requests: number;
  readonly retries: number;
  /** Total duration of the pauses that the service requested (429, Retry-After), in ms. */
  readonly throttledMs: number;
  /** Total time that requests waited on the configured rate limit, in ms. */
  readonly waitedMs: number;
  /** The rate in force, in requests per second. */
  readonly allowedPerSecond: number;
  /** Share of the allowed rate, 0 to 1, that was used while there were requests. */
  readonly usedShare: number;
  /** Remaining time of the current pause, in ms. */
  readonly heldBackMs: number;
  readonly bytes: number;
}

/** The market data service. Methods reject with UpstreamError, or immediately with the signal's reason. */
export interface Upstream {
  ticks(query: TicksQuery, signal?: AbortSignal): Promise<TickPage>;
  markets(query: MarketsQuery, signal?: AbortSignal): Promise<MarketsPage>;
  orderbook(query: OrderbookQuery, signal?: AbortSignal): Promise<OrderbookResponse>;
  /** All that another oddslake covers of the ticks of a symbol in a window, ascending and disjoint. */
  coverage(query: CoverageQuery, signal?: AbortSignal): Promise<StatedCoverage[]>;
  counters(): UpstreamCounters;
  close(): Promise<void>;
}

/** Limits on the load on the service, and on retries. */
export interface UpstreamLimits {
  /** Maximum requests in any sliding second, including retries. Below 1: one request per 1 / rate seconds. Above 0. */
  readonly requestsPerSecond: number;
  /** Share of a rate that the service states for the key, above 0 to 1. Other clients of the key use the rest. */
  readonly statedRateShare: number;
  /** Maximum concurrent requests, from 1. */
  readonly concurrency: number;
  /** Deadline of one attempt, from connecting to the end of the body, in ms. */
  readonly requestDeadlineMs: number;
  /** Maximum size of a response, compressed and decompressed, in bytes. */
  readonly responseBytesMax: number;
  /** Maximum attempts per request, including the first one. From 1. */
  readonly retryAttemptsMax: number;
  /** Bounds of the delay before retry k (from 0): random in [0, min(retryDelayMsMax, retryDelayMsMin · 2^k)). */
  readonly retryDelayMsMin: number;
  readonly retryDelayMsMax: number;
  /**
   * Retry budget shared by all requests. Each retry takes 1, and each success returns `retryBudgetGain`, up to the initial
   * value. At 0, a failed attempt is final, so that an unavailable service does not get several times the load.
   */
  readonly retryBudget: number;
  readonly retryBudgetGain: number;
  /** Maximum pause that the service may request with Retry-After. For a longer one, requests fail instead of waiting. */
  readonly retryAfterMsMax: number;
}

export const upstreamLimits: UpstreamLimits = {
  requestsPerSecond: 5,
  statedRateShare: 1,
  concurrency: 4,
  requestDeadlineMs: 30_000,
  responseBytesMax: 64 * 1024 * 1024,
  retryAttemptsMax: 6,
  retryDelayMsMin: 500,
  retryDelayMsMax: 30_000,
  retryBudget: 100,
  retryBudgetGain: 0.5,
  retryAfterMsMax: 15 * minuteMs,
};

export interface UpstreamOptions extends Partial<UpstreamLimits> {
  /** http or https, optionally with a path prefix. No credentials, query or fragment. */
  readonly baseUrl: string;
  /** Sent as `Authorization: Bearer …` to `baseUrl` only. Never logged, and never part of an error. */
  readonly apiKey: string;
  /** Sent as User-Agent, e.g. `oddslake/0.1.0`. */
  readonly userAgent: string;
}

/** The part of the pino interface that the client uses. */
export interface UpstreamLogger {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
}

/** A response with a success status, decompressed. Times are epoch milliseconds; see contract/raw-page.ts. */
export type ReceivedResponse = Omit<RawPage, 'run' | 'redacted'>;

export interface UpstreamDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log?: UpstreamLogger;
  /** State of the rate limiter, shared with other clients. Default: not shared. */
  readonly rateStore?: RateStateStore;
  /** Opens the transport. Default: undici. */
  readonly openTransport?: OpenTransport | undefined;
  /** Called with each complete response before it is decoded. */
  readonly onResponse?: ((response: ReceivedResponse) => void) | undefined;
  /** Called after each attempt. */
  readonly onCounters?: (counters: UpstreamCounters) => void;
}
