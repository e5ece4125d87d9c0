import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../core/clock.ts';
import type { Feed } from './data-source.ts';
import { faultAnswer } from './fault-responses.ts';
import { faultOf } from './faults.ts';
import { reshaped } from './mutate-fields.ts';
import type { SandboxOptions } from './options.ts';
import { paths } from './paths.ts';
import { rateHeaders, rateLimit, type Verdict } from './rate-limit.ts';
import { type Answer, comeBackLater, problem } from './response.ts';
import { marketsRoute, orderbookRoute, type RouteContext, ticksRoute } from './routes.ts';
import { type Call, send, sendSlowly } from './send-response.ts';
import type { StatsKeeper } from './stats.ts';
import { isTorn, tear } from './truncated-responses.ts';

const routes = new Map<string, { readonly name: 'markets' | 'ticks' | 'orderbook'; readonly answer: Route }>([
  [paths.markets, { name: 'markets', answer: marketsRoute }],
  [paths.ticks, { name: 'ticks', answer: ticksRoute }],
  [paths.orderbook, { name: 'orderbook', answer: orderbookRoute }],
]);

type Route = (query: URLSearchParams, context: RouteContext) => Answer;

export interface ServerParts {
  readonly feed: Feed;
  readonly clock: Clock;
  readonly stats: StatsKeeper;
  readonly options: () => SandboxOptions;
  readonly nowMs: () => number;
  /** Aborted when the sandbox stops. */
  readonly stopping: AbortSignal;
}

/** Answers one request after another; every wait ends when the sandbox stops. */
export function requestListener(parts: ServerParts) {
  const limit = rateLimit();
  let requests = 0;
  const ticksOfSymbols = new Map<string, number>();
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { path, query } = target(request);
    if (path === paths.stats) {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(parts.stats.snapshot()));
      return;
    }
    const exchange = parts.stats.arrived(routes.has(path) ? path : 'other');
    response.on('close', exchange.closed);
    const call = { request, response, exchange };
    try {
      const options = parts.options();
      const asked = refuse(request, path, parts);
      const verdict = asked === undefined ? limitVerdict(parts, limit) : undefined;
      if (verdict !== undefined) {
        for (const [name, value] of Object.entries(rateHeaders(verdict, options.rateHeaders, parts.clock.nowMs()))) {
          response.setHeader(name, value);
        }
      }
      const refusal = asked ?? tooMany(parts, verdict);
      if (parts.options().latencyMs > 0) await parts.clock.sleep(parts.options().latencyMs, parts.stopping);
      if (refusal !== undefined) send(call, refusal, false);
      else {
        const nOfSymbol = path === paths.ticks ? countUp(ticksOfSymbols, query.get('symbol') ?? '', parts) : 0;
        await answerRoute(call, { path, query, n: requests++, nOfSymbol }, parts);
      }
    } catch (error) {
      if (parts.stopping.aborted || response.headersSent) response.destroy();
      else send(call, problem(500, String(error)), false);
    }
  };
}

/** Counts a tick request of a symbol, from 1; unknown symbols are not kept. */
function countUp(counts: Map<string, number>, symbol: string, { feed, nowMs }: ServerParts): number {
  const count = (counts.get(symbol) ?? 0) + 1;
  if (feed.life(symbol, nowMs()) !== undefined) counts.set(symbol, count);
  return count;
}

function target(request: IncomingMessage): { readonly path: string; readonly query: URLSearchParams } {
  const [path = '', query = ''] = (request.url ?? '').split(/\?(.*)/s);
  return { path, query: new URLSearchParams(query) };
}

/** What is wrong with a request whatever it asks for: path, method, key, in this order. */
function refuse(request: IncomingMessage, path: string, parts: ServerParts): Answer | undefined {
  const options = parts.options();
  if (!routes.has(path)) return problem(404, 'no such path');
  if (request.method !== 'GET') return problem(405, 'only GET is answered', { allow: 'GET' });
  if (request.headers.authorization !== `Bearer ${options.key}`) {
    return problem(401, 'a market data key is required', { 'www-authenticate': 'Bearer' });
  }
  if (options.forbidden) return problem(403, 'this key may not read market data');
  return undefined;
}

function limitVerdict({ options, clock }: ServerParts, limit: ReturnType<typeof rateLimit>): Verdict | undefined {
  const { requestsPerSecond, limiter } = options();
  return requestsPerSecond === null ? undefined : limit.take(clock.monotonicMs(), requestsPerSecond, limiter);
}

function tooMany({ options, clock }: ServerParts, verdict: Verdict | undefined): Answer | undefined {
  if (verdict === undefined || verdict.waitMs === 0) return undefined;
  return comeBackLater(429, verdict.waitMs, options().retryAfter, clock.nowMs());
}

interface Asked {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly n: number;
  readonly nOfSymbol: number;
}

async function answerRoute(call: Call, { path, query, n, nOfSymbol }: Asked, parts: ServerParts): Promise<void> {
  const { feed, clock, stats, nowMs } = parts;
  const options = parts.options();
  const route = routes.get(path)!;
  const symbol = query.get('symbol');
  if (symbol !== null && feed.life(symbol, nowMs()) !== undefined) stats.symbol(symbol);
  const fault = faultOf(n, route.name, options);
  if (fault !== undefined) stats.fault(fault);
  const sleep = (ms: number) => clock.sleep(ms, parts.stopping);

  const instead = faultAnswer(fault, clock.nowMs());
  if (instead !== undefined) return send(call, instead, options.gzip);
  if (fault === 'stall') await sleep(options.stallMs);
  const untruth = fault === 'wrong-symbol' || fault === 'wrong-count' ? fault : undefined;
  const answer = reshaped(
    route.name,
    route.answer(query, { feed, options, nowMs: nowMs(), n, nOfSymbol, untruth }),
    options,
  );
  if (isTorn(fault)) return tear(call, answer, fault, sleep);
  if (fault === 'slow-body') return sendSlowly(call, answer, () => sleep(options.stallMs));
  send(call, fault === 'bad-json' ? garbled(answer) : answer, options.gzip);
}

/** The same bytes but for the last, which closes what was not open. */
function garbled(answer: Answer): Answer {
  return { ...answer, body: answer.body.replace(/\}$/, ']'), rows: 0 };
}
