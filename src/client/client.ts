import { UsageError } from '../base/errors.ts';
import type { Window } from '../base/window.ts';
import { paths } from '../contract/paths.ts';
import { AttemptError, parseServedAt, type RequestSubject, type ResponseHead } from './classify-error.ts';
import { createFieldCheck, decodeCoveragePage, decodeMarketsPage, decodeOrderbook, decodeTickPage } from './decode.ts';
import { RateLimiter } from './limiter.ts';
import { createRetryBudget, requestWithRetries, type UpstreamSession } from './request.ts';
import { openTransport } from './transport.ts';
import {
  type CoverageQuery,
  type MarketsQuery,
  type OrderbookQuery,
  type StatedCoverage,
  type Upstream,
  type UpstreamCounters,
  type UpstreamDeps,
  type UpstreamOptions,
  upstreamLimits,
} from './upstream.ts';

/**
 * Opens a client for the market data service with one key. All requests share a rate limiter, its pauses and a retry
 * budget, so a process opens one client per key. Connects on the first request.
 * @throws UsageError for an invalid base URL or key
 * @throws RangeError for a rate outside (0, 1,000,000]
 */
export function openUpstream(options: UpstreamOptions, deps: UpstreamDeps): Upstream {
  checkApiKey(options.apiKey);
  const { origin, prefix } = parseBaseUrl(options.baseUrl);
  const counters = (): UpstreamCounters => ({ ...session.counts, ...session.limiter.getUse() });
  const session = createSession(options, origin, deps, () => deps.onCounters?.(counters()));
  const checks = { ticks: createFieldCheck(), markets: createFieldCheck(), orderbook: createFieldCheck() };
  const getAskedAt = (query: { readonly askedAt?: number }): number => query.askedAt ?? deps.clock.nowMs();
  return {
    async ticks(query, signal) {
      const { symbol, from, to, limit, meaning = null } = query;
      const rawRequest = { route: 'ticks', symbol, from, to, limit, meaning } as const;
      const path = buildRequestPath(prefix + paths.ticks, { symbol, from, to, limit });
      const decode = (bytes: Uint8Array, head: ResponseHead) => ({
        ...decodeTickPage(bytes, symbol, undefined, checks.ticks),
        servedAt: parseServedAt(head),
      });
      return await requestWithRetries(
        session,
        { subject: createWindowSubject('ticks', query), path, decode, rawRequest, askedAt: getAskedAt(query) },
        signal,
      );
    },
    async markets(query, signal) {
      const { view, source, limit } = query;
      const path = buildRequestPath(prefix + paths.markets, { view, source, limit });
      const rawRequest = {
        route: 'markets',
        view: view ?? null,
        source: source ?? null,
        limit: limit ?? null,
      } as const;
      const facts = { subject: createMarketsSubject(query), path, rawRequest, askedAt: getAskedAt(query) };
      const decode = (bytes: Uint8Array) => decodeMarketsPage(bytes, checks.markets);
      return await requestWithRetries(session, { ...facts, decode }, signal);
    },
    async orderbook(query, signal) {
      const { symbol } = query;
      const path = buildRequestPath(prefix + paths.orderbook, { symbol });
      const decode = (bytes: Uint8Array) => decodeOrderbook(bytes, symbol, checks.orderbook);
      const rawRequest = { route: 'orderbook', symbol } as const;
      const facts = { subject: createOrderbookSubject(query), path, rawRequest, askedAt: getAskedAt(query) };
      return await requestWithRetries(session, { ...facts, decode }, signal);
    },
    async coverage(query, signal) {
      const { symbol, from, to } = query;
      const fields = { symbol, from: Math.max(0, Math.floor(from)), to: Math.ceil(to), limit: 10_000 };
      const note = 'source.mirror needs the coverage route of an oddslake';
      const facts = { subject: { ...createWindowSubject('coverage', query), note }, rawRequest: null };
      const windows: StatedCoverage[] = [];
      for (let cursor: string | undefined; ; ) {
        const path = buildRequestPath(`${prefix}${paths.historical}/coverage`, { ...fields, cursor });
        // Each page continues after the one before, so that their number is limited.
        const decode = (bytes: Uint8Array) => decodeCoveragePage(bytes, symbol, windows.at(-1)?.to ?? 0);
        const askedAt = deps.clock.nowMs();
        const page = await requestWithRetries(session, { ...facts, path, decode, askedAt }, signal);
        windows.push(...page.windows);
        if (page.next === null) return windows;
        cursor = page.next;
      }
    },
    counters,
    async close() {
      session.halt.abort(new AttemptError('transient', 'the client was closed'));
      await session.transport.close();
      await session.limiter.close();
    },
  };
}

function createSession(
  options: UpstreamOptions,
  origin: string,
  deps: UpstreamDeps,
  onAttempt: () => void,
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
    onAttempt,
    limits,
    apiKey: options.apiKey,
    transport: (deps.openTransport ?? openTransport)(
      { ...limits, origin, headers, connections: limits.concurrency },
      deps.clock,
    ),
    limiter: new RateLimiter(
      {
        ...limits,
        pauseMsMax: limits.retryAfterMsMax,
        ...(deps.rateStore === undefined ? {} : { rateStore: deps.rateStore }),
        onRate: (rate, before) =>
          deps.log?.info({ from_per_second: before, to_per_second: rate }, 'request rate changed'),
      },
      deps.clock,
    ),
    retryBudget: createRetryBudget(limits.retryBudget, limits.retryBudgetGain),
    halt: new AbortController(),
    joinedSignals: new WeakMap(),
    counts: { requests: 0, retries: 0, bytes: 0 },
  };
}

/** Address of the service: the pool's origin, and the prefix of each path. */
interface ParsedBaseUrl {
  readonly origin: string;
  /** Empty, or with a leading slash and no trailing one. */
  readonly prefix: string;
}

/** @throws UsageError for anything but a plain http(s) address. Credentials in it would appear in logs. */
function parseBaseUrl(baseUrl: string): ParsedBaseUrl {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new UsageError('the base URL of the upstream must be an http or https address, e.g. https://example.org');
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new UsageError('the base URL of the upstream must have no user, password, query or fragment');
  }
  return { origin: url.origin, prefix: url.pathname.replace(/\/+$/, '') };
}

/** @throws UsageError for a key that a header cannot contain. The key itself is not shown. */
function checkApiKey(apiKey: string): void {
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new UsageError('the API key must be printable ASCII without spaces or line breaks, and not empty');
  }
}

/** Builds a path with its query. Undefined fields are omitted. */
export function buildRequestPath(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) fields.append(name, String(value));
  }
  // A plus means a space only in forms; %20 always does. Literal pluses are already %2B.
  const text = fields.toString().replaceAll('+', '%20');
  return text === '' ? path : `${path}?${text}`;
}

function createWindowSubject(what: string, { symbol, from, to }: CoverageQuery): RequestSubject {
  const window: Window = { from, to };
  return { describe: () => `${what} of ${symbol} [${formatInstant(from)}, ${formatInstant(to)})`, symbol, window };
}

function createMarketsSubject({ view, source }: MarketsQuery): RequestSubject {
  const filters = [view === undefined ? '' : ` of view ${view}`, source === undefined ? '' : ` of source ${source}`];
  return { describe: () => `markets${filters.join('')}` };
}

const createOrderbookSubject = ({ symbol }: OrderbookQuery): RequestSubject => ({
  describe: () => `order book of ${symbol}`,
  symbol,
});

function formatInstant(timeMs: number): string {
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? String(timeMs) : date.toISOString();
}
