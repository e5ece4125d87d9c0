import { paths } from '../contract/paths.ts';
import { parseServedAt, type ResponseHead } from './classify-error.ts';
import { decodeMarketsPage, decodeTickPage } from './decode.ts';
import { decodeOrderbook } from './decode-orderbook.ts';
import { createRateLimiter } from './limiter.ts';
import { type UpstreamDeps, type UpstreamOptions, upstreamLimits } from './options.ts';
import { requestWithRetries, type UpstreamSession } from './request.ts';
import { AttemptError } from './request-error.ts';
import {
  buildRequestPath,
  checkApiKey,
  createMarketsSubject,
  createOrderbookSubject,
  createTicksSubject,
  parseBaseUrl,
} from './request-url.ts';
import { createRetryBudget } from './retry.ts';
import { openTransport } from './transport.ts';
import type { Upstream, UpstreamCounters } from './upstream.ts';

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
