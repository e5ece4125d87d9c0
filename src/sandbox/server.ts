import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../core/clock.ts';
import type { Feed } from './data-source.ts';
import { createFaultResponse } from './fault-responses.ts';
import { drawFault } from './faults.ts';
import { reshapeResponse } from './mutate-fields.ts';
import type { SandboxOptions } from './options.ts';
import { sandboxPaths } from './paths.ts';
import { createRateLimit, formatRateHeaders, type RateLimitDecision } from './rate-limit.ts';
import { createProblem, createRetryAfterProblem, type SandboxResponse } from './response.ts';
import { handleMarkets, handleOrderbook, handleTicks, type RouteContext } from './routes.ts';
import { type HttpCall, sendResponse, sendSlowly } from './send-response.ts';
import type { StatsRecorder } from './stats.ts';
import { isTruncationFault, sendTruncated } from './truncated-responses.ts';

const routes = new Map<string, { readonly name: 'markets' | 'ticks' | 'orderbook'; readonly answer: RouteHandler }>([
  [sandboxPaths.markets, { name: 'markets', answer: handleMarkets }],
  [sandboxPaths.ticks, { name: 'ticks', answer: handleTicks }],
  [sandboxPaths.orderbook, { name: 'orderbook', answer: handleOrderbook }],
]);

type RouteHandler = (query: URLSearchParams, context: RouteContext) => SandboxResponse;

export interface ServerContext {
  readonly feed: Feed;
  readonly clock: Clock;
  readonly stats: StatsRecorder;
  readonly options: () => SandboxOptions;
  readonly nowMs: () => number;
  /** Aborted when the sandbox stops. */
  readonly stopping: AbortSignal;
}

/** Answers one request after another; every wait ends when the sandbox stops. */
export function createRequestListener(parts: ServerContext) {
  const limit = createRateLimit();
  let requests = 0;
  const ticksOfSymbols = new Map<string, number>();
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { path, query } = parseTarget(request);
    if (path === sandboxPaths.stats) {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(parts.stats.snapshot()));
      return;
    }
    const exchange = parts.stats.arrived(routes.has(path) ? path : 'other');
    response.on('close', exchange.noteClosed);
    const call = { request, response, tracker: exchange };
    try {
      const options = parts.options();
      const asked = checkRequest(request, path, parts);
      const verdict = asked === undefined ? takeRateLimit(parts, limit) : undefined;
      if (verdict !== undefined) {
        for (const [name, value] of Object.entries(
          formatRateHeaders(verdict, options.rateHeaders, parts.clock.nowMs()),
        )) {
          response.setHeader(name, value);
        }
      }
      const refusal = asked ?? createThrottledResponse(parts, verdict);
      if (parts.options().latencyMs > 0) await parts.clock.sleep(parts.options().latencyMs, parts.stopping);
      if (refusal !== undefined) sendResponse(call, refusal, false);
      else {
        const nOfSymbol =
          path === sandboxPaths.ticks ? countSymbolRequest(ticksOfSymbols, query.get('symbol') ?? '', parts) : 0;
        await handleRoute(call, { path, query, requestNumber: requests++, symbolRequestNumber: nOfSymbol }, parts);
      }
    } catch (error) {
      if (parts.stopping.aborted || response.headersSent) response.destroy();
      else sendResponse(call, createProblem(500, String(error)), false);
    }
  };
}

/** Counts a tick request of a symbol, from 1; unknown symbols are not kept. */
function countSymbolRequest(counts: Map<string, number>, symbol: string, { feed, nowMs }: ServerContext): number {
  const count = (counts.get(symbol) ?? 0) + 1;
  if (feed.getLifetime(symbol, nowMs()) !== undefined) counts.set(symbol, count);
  return count;
}

function parseTarget(request: IncomingMessage): { readonly path: string; readonly query: URLSearchParams } {
  const [path = '', query = ''] = (request.url ?? '').split(/\?(.*)/s);
  return { path, query: new URLSearchParams(query) };
}

/** What is wrong with a request whatever it asks for: path, method, key, in this order. */
function checkRequest(request: IncomingMessage, path: string, parts: ServerContext): SandboxResponse | undefined {
  const options = parts.options();
  if (!routes.has(path)) return createProblem(404, 'no such path');
  if (request.method !== 'GET') return createProblem(405, 'only GET is answered', { allow: 'GET' });
  if (request.headers.authorization !== `Bearer ${options.key}`) {
    return createProblem(401, 'a market data key is required', { 'www-authenticate': 'Bearer' });
  }
  if (options.forbidden) return createProblem(403, 'this key may not read market data');
  return undefined;
}

function takeRateLimit(
  { options, clock }: ServerContext,
  limit: ReturnType<typeof createRateLimit>,
): RateLimitDecision | undefined {
  const { requestsPerSecond, limiter } = options();
  return requestsPerSecond === null ? undefined : limit.take(clock.monotonicMs(), requestsPerSecond, limiter);
}

function createThrottledResponse(
  { options, clock }: ServerContext,
  verdict: RateLimitDecision | undefined,
): SandboxResponse | undefined {
  if (verdict === undefined || verdict.waitMs === 0) return undefined;
  return createRetryAfterProblem(429, verdict.waitMs, options().retryAfter, clock.nowMs());
}

interface RouteRequest {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly requestNumber: number;
  readonly symbolRequestNumber: number;
}

async function handleRoute(
  call: HttpCall,
  { path, query, requestNumber, symbolRequestNumber }: RouteRequest,
  parts: ServerContext,
): Promise<void> {
  const { feed, clock, stats, nowMs } = parts;
  const options = parts.options();
  const route = routes.get(path)!;
  const symbol = query.get('symbol');
  if (symbol !== null && feed.getLifetime(symbol, nowMs()) !== undefined) stats.symbol(symbol);
  const fault = drawFault(requestNumber, route.name, options);
  if (fault !== undefined) stats.fault(fault);
  const sleep = (ms: number) => clock.sleep(ms, parts.stopping);

  const instead = createFaultResponse(fault, clock.nowMs());
  if (instead !== undefined) return sendResponse(call, instead, options.gzip);
  if (fault === 'stall') await sleep(options.stallMs);
  const untruth = fault === 'wrong-symbol' || fault === 'wrong-count' ? fault : undefined;
  const answer = reshapeResponse(
    route.name,
    route.answer(query, { feed, options, nowMs: nowMs(), requestNumber, symbolRequestNumber, bodyFault: untruth }),
    options,
  );
  if (isTruncationFault(fault)) return sendTruncated(call, answer, fault, sleep);
  if (fault === 'slow-body') return sendSlowly(call, answer, () => sleep(options.stallMs));
  sendResponse(call, fault === 'bad-json' ? garbleBody(answer) : answer, options.gzip);
}

/** The same bytes but for the last, which closes what was not open. */
function garbleBody(answer: SandboxResponse): SandboxResponse {
  return { ...answer, body: answer.body.replace(/\}$/, ']'), rows: 0 };
}
