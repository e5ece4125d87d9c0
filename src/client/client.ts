import { UsageError } from '../base/errors.ts';
import type { Window } from '../base/window.ts';
import { paths } from '../contract/paths.ts';
import { AttemptError, parseServedAt, type RequestSubject, type ResponseHead } from './classify-error.ts';
import { decodeMarketsPage, decodeOrderbook, decodeTickPage } from './decode.ts';
import { createRateLimiter } from './limiter.ts';
import { createRetryBudget, requestWithRetries, type UpstreamSession } from './request.ts';
import { openTransport } from './transport.ts';
import {
  type MarketsQuery,
  type OrderbookQuery,
  type TicksQuery,
  type Upstream,
  type UpstreamCounters,
  type UpstreamDeps,
  type UpstreamOptions,
  upstreamLimits,
} from './upstream.ts';

/**
 * The market data service under one key. All its requests share one pace, one pause and one retry budget, so a process
 * opens one client per key. Nothing is connected before the first request.
 * @throws UsageError for a base URL or key that cannot be used
 * @throws RangeError for a rate outside (0, 1,000,000]
 */
export function openUpstream(options: UpstreamOptions, deps: UpstreamDeps): Upstream {
  checkApiKey(options.apiKey);
  const { origin, prefix } = parseBaseUrl(options.baseUrl);
  const counters = (): UpstreamCounters => ({
    ...key.counts,
    throttledMs: Math.round(key.limiter.throttledMs()),
    waitedMs: Math.round(key.limiter.waitedMs()),
    allowedPerSecond: key.limiter.allowedPerSecond(),
    usedShare: key.limiter.usedShare(),
    heldBackMs: Math.round(key.limiter.remainingPauseMs()),
  });
  const key = createSession(options, origin, deps, () => deps.onCounters?.(counters()));
  const askedAt = (query: { readonly askedAt?: number }): number => query.askedAt ?? deps.clock.nowMs();
  return {
    async ticks(query, signal) {
      const { symbol, from, to, limit, meaning = null } = query;
      const asked = { route: 'ticks', symbol, from, to, limit, meaning } as const;
      const path = buildRequestPath(prefix + paths.ticks, { symbol, from, to, limit });
      const decode = (bytes: Uint8Array, head: ResponseHead) => ({
        ...decodeTickPage(bytes, symbol),
        servedAt: parseServedAt(head),
      });
      return await requestWithRetries(
        key,
        { subject: createTicksSubject(query), path, decode, asked, askedAt: askedAt(query) },
        signal,
      );
    },
    async markets(query, signal) {
      const { view, source, limit } = query;
      const path = buildRequestPath(prefix + paths.markets, { view, source, limit });
      const asked = { route: 'markets', view: view ?? null, source: source ?? null, limit: limit ?? null } as const;
      const facts = { subject: createMarketsSubject(query), path, asked, askedAt: askedAt(query) };
      return await requestWithRetries(key, { ...facts, decode: decodeMarketsPage }, signal);
    },
    async orderbook(query, signal) {
      const { symbol } = query;
      const path = buildRequestPath(prefix + paths.orderbook, { symbol });
      const decode = (bytes: Uint8Array) => decodeOrderbook(bytes, symbol);
      const asked = { route: 'orderbook', symbol } as const;
      const facts = { subject: createOrderbookSubject(query), path, asked, askedAt: askedAt(query) };
      return await requestWithRetries(key, { ...facts, decode }, signal);
    },
    counters,
    async close() {
      key.halt.abort(new AttemptError('transient', 'the client was closed'));
      await key.transport.close();
      // Whoever keeps the pace may close it then.
      await key.limiter.waitUntilIdle();
    },
  };
}

function createSession(
  options: UpstreamOptions,
  origin: string,
  deps: UpstreamDeps,
  onTry: () => void,
): UpstreamSession {
  const limits = { ...upstreamLimits, ...options };
  const headers = {
    authorization: `Bearer ${options.apiKey}`,
    accept: 'application/json',
    'accept-encoding': 'gzip',
    'user-agent': options.userAgent,
  };
  return {
    ...deps,
    onAttempt: onTry,
    limits,
    apiKey: options.apiKey,
    transport: (deps.openTransport ?? openTransport)(
      { ...limits, origin, headers, connections: limits.concurrency },
      deps.clock,
    ),
    limiter: createRateLimiter(
      {
        ...limits,
        pauseMsMax: limits.retryAfterMsMax,
        ...(deps.rateStore === undefined ? {} : { rateStore: deps.rateStore }),
        onRate: (rate, before) => deps.log?.info({ rate, before }, 'the request rate follows what the service allows'),
      },
      deps.clock,
    ),
    retryBudget: createRetryBudget(limits.retryBudget, limits.retryBudgetGain),
    halt: new AbortController(),
    joinedSignals: new WeakMap(),
    counts: { requests: 0, retries: 0, bytes: 0 },
  };
}

/** Where the service lives: the pool's origin, and what goes before every path. */
export interface ParsedBaseUrl {
  readonly origin: string;
  /** Empty, or with a slash in front and none behind. */
  readonly prefix: string;
}

/** @throws UsageError for what is not a plain http(s) address; credentials in it would end up in logs. */
export function parseBaseUrl(baseUrl: string): ParsedBaseUrl {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new UsageError('the base URL of the upstream must be an http or https address, e.g. https://example.org');
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new UsageError('the base URL of the upstream must have no user, password, query or fragment');
  }
  return { origin: url.origin, prefix: url.pathname.replace(/\/+$/, '') };
}

/** @throws UsageError for a key that no header can carry; the key itself is not shown. */
export function checkApiKey(apiKey: string): void {
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new UsageError('the API key must be printable ASCII without spaces or line breaks, and not empty');
  }
}

/** A path with its query; fields that are not given are left out. */
export function buildRequestPath(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) fields.append(name, String(value));
  }
  // A plus is a space to forms only; %20 is one everywhere. Real pluses are %2B already.
  const text = fields.toString().replaceAll('+', '%20');
  return text === '' ? path : `${path}?${text}`;
}

export function createTicksSubject({ symbol, from, to }: TicksQuery): RequestSubject {
  const window: Window = { from, to };
  return { describe: () => `ticks of ${symbol} [${formatInstant(from)}, ${formatInstant(to)})`, symbol, window };
}

export function createMarketsSubject({ view, source }: MarketsQuery): RequestSubject {
  const filters = [view === undefined ? '' : ` of view ${view}`, source === undefined ? '' : ` of source ${source}`];
  return { describe: () => `markets${filters.join('')}` };
}

export const createOrderbookSubject = ({ symbol }: OrderbookQuery): RequestSubject => ({
  describe: () => `order book of ${symbol}`,
  symbol,
});

function formatInstant(timeMs: number): string {
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? String(timeMs) : date.toISOString();
}
