import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { Clock } from '../base/ports.ts';
import type { Feed } from './data-source.ts';
import { drawFault, type FaultKind } from './faults.ts';
import type { SandboxOptions } from './options.ts';
import { createRateLimit, formatRateHeaders, type RateLimitDecision } from './rate-limit.ts';
import { createProblem, createRetryAfterProblem, type SandboxResponse, sandboxPaths } from './response.ts';
import { handleMarkets, handleOrderbook, handleTicks, type RouteContext } from './routes.ts';
import type { RequestTracker, StatsRecorder } from './stats.ts';

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

/** One request and the way to answer it. */
export interface HttpCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly tracker: RequestTracker;
}

/** Below this many characters gzip gains nothing. */
const gzipCharactersMin = 1_000;

/** Sends a whole answer, if the client is still there. */
export function sendResponse({ request, response, tracker }: HttpCall, answer: SandboxResponse, gzip: boolean): void {
  if (response.destroyed) {
    tracker.noteResponse('gone');
    return;
  }
  const accepts = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const packed = gzip && accepts && answer.body.length >= gzipCharactersMin;
  const body = packed ? gzipSync(answer.body, { level: 1 }) : Buffer.from(answer.body);
  response.writeHead(answer.status, {
    ...answer.headers,
    ...(packed ? { 'content-encoding': 'gzip' } : {}),
    'content-length': body.length,
  });
  tracker.noteResponse(String(answer.status), answer);
  response.end(body);
}

/** Sends half an answer, waits, and sends the rest if the client is still there. */
export async function sendSlowly(call: HttpCall, answer: SandboxResponse, wait: () => Promise<void>): Promise<void> {
  const { response, tracker } = call;
  const body = Buffer.from(answer.body);
  response.writeHead(answer.status, { ...answer.headers, 'content-length': body.length });
  response.write(body.subarray(0, body.length >> 1));
  await wait();
  if (response.destroyed) return tracker.noteResponse('gone');
  tracker.noteResponse(String(answer.status), answer);
  response.end(body.subarray(body.length >> 1));
}

/** Faults that lie in how an answer goes over the wire. */
export const truncationFaults = ['reset', 'reset-body', 'half-body', 'half-body-close'] as const satisfies FaultKind[];

export type TruncationFault = (typeof truncationFaults)[number];

export function isTruncationFault(kind: FaultKind | undefined): kind is TruncationFault {
  return (truncationFaults as readonly (FaultKind | undefined)[]).includes(kind);
}

/** Long enough for the half to leave before the reset, which would discard it. */
const resetDelayMs = 20;

/**
 * Sends part of an answer and ends the connection. Written to the socket itself, as ServerResponse would mend what is
 * to be broken: it adds a chunked end, and it refuses a body shorter than its content-length.
 */
export async function sendTruncated(
  { response, tracker }: HttpCall,
  answer: SandboxResponse,
  kind: TruncationFault,
  sleep: (ms: number) => Promise<void>,
): Promise<void> {
  const socket = response.socket;
  if (socket === null) return tracker.noteResponse('gone');
  tracker.noteResponse(kind === 'reset' ? 'reset' : String(answer.status));
  if (kind === 'reset') {
    socket.resetAndDestroy();
    return;
  }
  const body = Buffer.from(answer.body);
  const length = kind === 'half-body-close' ? [] : [`content-length: ${body.length}`];
  const fields = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
  const head = [`HTTP/1.1 ${answer.status} Torn`, ...fields, ...length, 'connection: close', '', ''].join('\r\n');
  await writeBytes(socket, Buffer.concat([Buffer.from(head), body.subarray(0, body.length >> 1)]));
  if (kind === 'reset-body') {
    await sleep(resetDelayMs);
    socket.resetAndDestroy();
  } else {
    socket.end();
  }
}

function writeBytes(socket: Socket, bytes: Buffer): Promise<void> {
  // The client may be gone before it: that is its affair, so the error is not looked at.
  return new Promise((resolve) => {
    socket.write(bytes, () => resolve());
  });
}

/** The answer that a fault puts in the place of the right one; undefined for faults of other kinds. */
export function createFaultResponse(fault: FaultKind | undefined, nowMs: number): SandboxResponse | undefined {
  switch (fault) {
    case '429-seconds':
      return createRetryAfterProblem(429, 1000, 'seconds', nowMs);
    case '429-date':
      return createRetryAfterProblem(429, 1000, 'date', nowMs);
    case '503':
      return createRetryAfterProblem(503, 1000, 'seconds', nowMs);
    case '408':
    case '425':
    case '500':
    case '502':
    case '504':
      return createProblem(Number(fault), 'a fault asked for');
    case 'html':
      return {
        status: 200,
        headers: { 'content-type': 'text/html' },
        body: '<!doctype html><title>One moment</title>\n',
      };
    default:
      return undefined;
  }
}

/** The answer of a route with the fields changed that are asked to be; see SandboxOptions. */
export function reshapeResponse(
  route: 'markets' | 'ticks' | 'orderbook',
  answer: SandboxResponse,
  { reshape }: SandboxOptions,
): SandboxResponse {
  const changes = Object.entries(reshape).filter(([field]) => field.startsWith(`${route}:`));
  if (changes.length === 0 || answer.status !== 200) return answer;
  const body: unknown = JSON.parse(answer.body);
  for (const [field, how] of changes) changeField(body, field.slice(route.length + 1).split('/'), how);
  return { ...answer, body: JSON.stringify(body) };
}

function changeField(value: unknown, [name, ...rest]: string[], how: string): void {
  if (typeof value !== 'object' || value === null || name === undefined) return;
  const members = value as Record<string, unknown>;
  for (const key of name === '*' ? Object.keys(members) : [name]) {
    if (!Object.hasOwn(members, key)) continue;
    if (rest.length > 0) changeField(members[key], rest, how);
    else if (how === 'null') members[key] = null;
    else if (how === 'text') members[key] = String(members[key]);
    else {
      if (how.startsWith('=')) members[how.slice(1)] = members[key];
      delete members[key];
    }
  }
}
