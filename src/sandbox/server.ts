import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { Clock } from '../base/ports.ts';
import type { Feed } from './feed.ts';
import { createRateLimit, formatRateHeaders, type RateLimitDecision } from './rate-limit.ts';
import {
  createFaultResponse,
  createProblem,
  createRetryAfterProblem,
  drawFault,
  garbleBody,
  type RouteName,
  reshapeResponse,
  type SandboxResponse,
  sandboxPaths,
} from './responses.ts';
import { handleMarkets, handleOrderbook, handleTicks, type RouteContext } from './routes.ts';
import type { FaultKind, SandboxOptions } from './sandbox-options.ts';
import type { RequestTracker, StatsRecorder } from './stats.ts';

const routes = new Map<string, { readonly name: RouteName; readonly handle: RouteHandler }>([
  [sandboxPaths.markets, { name: 'markets', handle: handleMarkets }],
  [sandboxPaths.ticks, { name: 'ticks', handle: handleTicks }],
  [sandboxPaths.orderbook, { name: 'orderbook', handle: handleOrderbook }],
]);

type RouteHandler = (query: URLSearchParams, context: RouteContext) => SandboxResponse;

interface ServerContext {
  readonly feed: Feed;
  readonly clock: Clock;
  readonly stats: StatsRecorder;
  readonly options: () => SandboxOptions;
  readonly nowMs: () => number;
  /** Aborted when the sandbox stops. */
  readonly stopping: AbortSignal;
}

/** Handles requests; every wait ends when the sandbox stops. */
export function createRequestListener(context: ServerContext) {
  const limit = createRateLimit();
  let requests = 0;
  const symbolCounts = new Map<string, number>();
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { path, query } = parseTarget(request);
    if (path === sandboxPaths.stats) {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(context.stats.snapshot()));
      return;
    }
    const tracker = context.stats.arrived(routes.has(path) ? path : 'other');
    response.on('close', tracker.noteClosed);
    const call = { request, response, tracker };
    try {
      const options = context.options();
      const problem = checkRequest(request, path, context);
      const decision = problem === undefined ? takeRateLimit(context, limit) : undefined;
      if (decision !== undefined) {
        const headers = formatRateHeaders(decision, options.rateHeaders, context.clock.nowMs());
        response.setHeaders(new Map(Object.entries(headers)));
      }
      const refusal = problem ?? createThrottledResponse(context, decision);
      if (context.options().latencyMs > 0) await context.clock.sleep(context.options().latencyMs, context.stopping);
      if (refusal !== undefined) sendResponse(call, refusal, false);
      else {
        const symbolRequestNumber =
          path === sandboxPaths.ticks ? countSymbolRequest(symbolCounts, query.get('symbol') ?? '', context) : 0;
        await handleRoute(call, { path, query, requestNumber: requests++, symbolRequestNumber }, context);
      }
    } catch (error) {
      if (context.stopping.aborted || response.headersSent) response.destroy();
      else sendResponse(call, createProblem(500, String(error)), false);
    }
  };
}

/** Counts a tick request of a symbol, from 1. Unknown symbols are not stored. */
function countSymbolRequest(counts: Map<string, number>, symbol: string, { feed, nowMs }: ServerContext): number {
  const count = (counts.get(symbol) ?? 0) + 1;
  if (feed.getLifetime(symbol, nowMs()) !== undefined) counts.set(symbol, count);
  return count;
}

function parseTarget(request: IncomingMessage): { readonly path: string; readonly query: URLSearchParams } {
  const [path = '', query = ''] = (request.url ?? '').split(/\?(.*)/s);
  return { path, query: new URLSearchParams(query) };
}

/** Checks path, method and key, in this order; returns the problem, if any. */
function checkRequest(request: IncomingMessage, path: string, context: ServerContext): SandboxResponse | undefined {
  const options = context.options();
  if (!routes.has(path)) return createProblem(404, 'no such path');
  if (request.method !== 'GET') return createProblem(405, 'only GET is supported', { allow: 'GET' });
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
  decision: RateLimitDecision | undefined,
): SandboxResponse | undefined {
  if (decision === undefined || decision.waitMs === 0) return undefined;
  return createRetryAfterProblem(429, decision.waitMs, options().retryAfter, clock.nowMs());
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
  context: ServerContext,
): Promise<void> {
  const { feed, clock, stats, nowMs } = context;
  const options = context.options();
  const route = routes.get(path)!;
  const symbol = query.get('symbol');
  if (symbol !== null && feed.getLifetime(symbol, nowMs()) !== undefined) stats.symbol(symbol);
  const fault = drawFault(requestNumber, route.name, options);
  if (fault !== undefined) stats.fault(fault);
  const sleep = (ms: number) => clock.sleep(ms, context.stopping);

  const replacement = createFaultResponse(fault, clock.nowMs());
  if (replacement !== undefined) return sendResponse(call, replacement, options.gzip);
  if (fault === 'stall') await sleep(options.stallMs);
  const contentFault = fault === 'wrong-symbol' || fault === 'wrong-count' ? fault : undefined;
  const reply = reshapeResponse(
    route.name,
    route.handle(query, { feed, options, nowMs: nowMs(), requestNumber, symbolRequestNumber, bodyFault: contentFault }),
    options,
  );
  if (isTruncationFault(fault)) return sendTruncated(call, reply, fault, sleep);
  if (fault === 'slow-body') return sendSlowly(call, reply, () => sleep(options.stallMs));
  sendResponse(call, fault === 'bad-json' ? garbleBody(reply) : reply, options.gzip);
}

/** One request and its response. */
interface HttpCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly tracker: RequestTracker;
}

/** Minimum body length for gzip, characters. */
const gzipCharactersMin = 1_000;

/** Sends a complete response unless the client has disconnected. */
function sendResponse({ request, response, tracker }: HttpCall, reply: SandboxResponse, gzip: boolean): void {
  if (response.destroyed) {
    tracker.noteResponse('gone');
    return;
  }
  const acceptsGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const packed = gzip && acceptsGzip && reply.body.length >= gzipCharactersMin;
  const body = packed ? gzipSync(reply.body, { level: 1 }) : Buffer.from(reply.body);
  response.writeHead(reply.status, {
    ...reply.headers,
    ...(packed ? { 'content-encoding': 'gzip' } : {}),
    'content-length': body.length,
  });
  tracker.noteResponse(String(reply.status), reply);
  response.end(body);
}

/** Sends half of a response, waits, and sends the rest unless the client has disconnected. */
async function sendSlowly(call: HttpCall, reply: SandboxResponse, wait: () => Promise<void>): Promise<void> {
  const { response, tracker } = call;
  const body = Buffer.from(reply.body);
  response.writeHead(reply.status, { ...reply.headers, 'content-length': body.length });
  response.write(body.subarray(0, body.length >> 1));
  await wait();
  if (response.destroyed) return tracker.noteResponse('gone');
  tracker.noteResponse(String(reply.status), reply);
  response.end(body.subarray(body.length >> 1));
}

/** Faults of the transmission. */
const truncationFaults = ['reset', 'reset-body', 'half-body', 'half-body-close'] as const satisfies FaultKind[];

type TruncationFault = (typeof truncationFaults)[number];

function isTruncationFault(kind: FaultKind | undefined): kind is TruncationFault {
  return (truncationFaults as readonly (FaultKind | undefined)[]).includes(kind);
}

/** Delay before a reset, ms. Without it the reset would discard the half already sent. */
const resetDelayMs = 20;

/**
 * Sends part of a response and ends the connection. Writes to the socket directly, because ServerResponse would repair
 * the fault: it adds a chunked end, and it refuses a body shorter than its content-length.
 */
async function sendTruncated(
  { response, tracker }: HttpCall,
  reply: SandboxResponse,
  kind: TruncationFault,
  sleep: (ms: number) => Promise<void>,
): Promise<void> {
  const socket = response.socket;
  if (socket === null) return tracker.noteResponse('gone');
  tracker.noteResponse(kind === 'reset' ? 'reset' : String(reply.status));
  if (kind === 'reset') {
    socket.resetAndDestroy();
    return;
  }
  const body = Buffer.from(reply.body);
  const length = kind === 'half-body-close' ? [] : [`content-length: ${body.length}`];
  const fields = Object.entries(reply.headers).map(([name, value]) => `${name}: ${value}`);
  const head = [`HTTP/1.1 ${reply.status} Torn`, ...fields, ...length, 'connection: close', '', ''].join('\r\n');
  await writeBytes(socket, Buffer.concat([Buffer.from(head), body.subarray(0, body.length >> 1)]));
  if (kind === 'reset-body') {
    await sleep(resetDelayMs);
    socket.resetAndDestroy();
  } else {
    socket.end();
  }
}

function writeBytes(socket: Socket, bytes: Buffer): Promise<void> {
  // The client may have disconnected: ignore the error.
  return new Promise((resolve) => {
    socket.write(bytes, () => resolve());
  });
}
