import { paths } from '../contract/paths.ts';
import { type AnswerHead, servedAt } from './classify-error.ts';
import { decodeMarketsPage, decodeTickPage } from './decode.ts';
import { decodeOrderbook } from './decode-orderbook.ts';
import { createLimiter } from './limiter.ts';
import { type UpstreamDeps, type UpstreamOptions, upstreamLimits } from './options.ts';
import { ask, type Key } from './request.ts';
import { Fault } from './request-error.ts';
import { checkApiKey, marketsSubject, orderbookSubject, parseBaseUrl, target, ticksSubject } from './request-url.ts';
import { createRetryBudget } from './retry.ts';
import { openWire } from './transport.ts';
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
    ...key.tally,
    throttledMs: Math.round(key.limiter.throttledMs()),
    waitedMs: Math.round(key.limiter.waitedMs()),
    allowedPerSecond: key.limiter.allowedPerSecond(),
    usedShare: key.limiter.usedShare(),
    heldBackMs: Math.round(key.limiter.heldBackMs()),
  });
  const key = openKey(options, origin, deps, () => deps.onCounters?.(counters()));
  const askedAt = (query: { readonly askedAt?: number }): number => query.askedAt ?? deps.clock.nowMs();
  return {
    async ticks(query, signal) {
      const { symbol, from, to, limit, meaning = null } = query;
      const asked = { route: 'ticks', symbol, from, to, limit, meaning } as const;
      const path = target(prefix + paths.ticks, { symbol, from, to, limit });
      const decode = (bytes: Uint8Array, head: AnswerHead) => ({
        ...decodeTickPage(bytes, symbol),
        servedAt: servedAt(head),
      });
      return await ask(key, { subject: ticksSubject(query), path, decode, asked, askedAt: askedAt(query) }, signal);
    },
    async markets(query, signal) {
      const { view, source, limit } = query;
      const path = target(prefix + paths.markets, { view, source, limit });
      const asked = { route: 'markets', view: view ?? null, source: source ?? null, limit: limit ?? null } as const;
      const facts = { subject: marketsSubject(query), path, asked, askedAt: askedAt(query) };
      return await ask(key, { ...facts, decode: decodeMarketsPage }, signal);
    },
    async orderbook(query, signal) {
      const { symbol } = query;
      const path = target(prefix + paths.orderbook, { symbol });
      const decode = (bytes: Uint8Array) => decodeOrderbook(bytes, symbol);
      const asked = { route: 'orderbook', symbol } as const;
      const facts = { subject: orderbookSubject(query), path, asked, askedAt: askedAt(query) };
      return await ask(key, { ...facts, decode }, signal);
    },
    counters,
    async close() {
      key.halt.abort(new Fault('transient', 'the client was closed'));
      await key.wire.close();
      // Whoever keeps the pace may close it then.
      await key.limiter.idle();
    },
  };
}

function openKey(options: UpstreamOptions, origin: string, deps: UpstreamDeps, onTry: () => void): Key {
  const limits = { ...upstreamLimits, ...options };
  const headers = {
    authorization: `Bearer ${options.apiKey}`,
    accept: 'application/json',
    'accept-encoding': 'gzip',
    'user-agent': options.userAgent,
  };
  return {
    ...deps,
    onTry,
    limits,
    apiKey: options.apiKey,
    wire: (deps.openWire ?? openWire)({ ...limits, origin, headers, connections: limits.concurrency }, deps.clock),
    limiter: createLimiter(
      {
        ...limits,
        pauseMsMax: limits.retryAfterMsMax,
        ...(deps.pace === undefined ? {} : { memory: deps.pace }),
        onRate: (rate, before) => deps.log?.info({ rate, before }, 'the request rate follows what the service allows'),
      },
      deps.clock,
    ),
    budget: createRetryBudget(limits.retryBudget, limits.retryBudgetGain),
    halt: new AbortController(),
    either: new WeakMap(),
    tally: { requests: 0, retries: 0, bytes: 0 },
  };
}
