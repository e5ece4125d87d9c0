import type { TickRequestPurpose } from '../core/raw-page.ts';
import type { RejectedInput, TickColumns } from '../core/tick.ts';
import type { Window } from '../core/window.ts';

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
