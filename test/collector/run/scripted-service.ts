import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dayMs, floorToDay } from '../../../src/base/window.ts';

// A market data service on loopback with known ticks. A script changes its correct responses.

export interface Tick {
  readonly t: number;
  readonly p: number;
}

/** A request to the tick route; times in epoch ms. */
export interface Requested {
  readonly symbol: string;
  readonly from: number;
  readonly to: number;
  readonly limit: number;
}

export interface TicksBody {
  readonly symbol: string;
  readonly ticks: readonly Tick[];
  readonly count: number;
  readonly from: number;
  readonly to: number;
  readonly generated_at: number;
}

export interface MarketBody {
  readonly canonical_id: string;
  readonly symbol: string;
  readonly confidence: number;
  readonly category: string;
  readonly is_active: boolean;
}

export interface MarketsBody {
  readonly markets: readonly MarketBody[];
  readonly count: number;
  readonly total: number;
  readonly view: string;
  readonly generated_at: number;
}

/** A response: a function sends it itself, a string is sent unchanged, anything else as JSON. */
export type Reply = ((response: ServerResponse, request: IncomingMessage) => void) | string | object | null;

export interface Script {
  /** Changes the correct response; `n` counts the requests of the symbol from 0, `truth` are its ticks. */
  ticks?(honest: TicksBody, request: Requested, n: number, truth: (from: number, to: number) => Tick[]): Reply;
  markets?(honest: MarketsBody, n: number): Reply;
}

export interface ScriptedService {
  readonly url: string;
  /** Current time of the service, epoch ms; set by the test. */
  nowMs: number;
  symbols: readonly string[];
  /** Symbols that are not listed. */
  unlisted: readonly string[];
  script: Script;
  /** Whether responses have a Date header. */
  sendsDate: boolean;
  /** Returns path and query of the requests since the last call. */
  requests: string[];
  /** Current ticks of a symbol in a window. */
  truth(symbol: string, from: number, to: number): Tick[];
  stop(): Promise<void>;
}

const minuteMs = 60_000;
/** There are no ticks before this time. */
const worldMs = Date.UTC(2025, 4, 27);
/** Maximum ticks of a response. */
export const capMax = 500;

/** A price every seven minutes, each symbol at its own second, and around every UTC midnight. */
function honestTicks(symbol: string, fromMs: number, to: number): Tick[] {
  const from = Math.max(fromMs, worldMs);
  const step = 7 * minuteMs;
  let offset = 0;
  for (const char of symbol) offset = (offset * 31 + char.codePointAt(0)!) % step;
  const times = new Set<number>();
  for (let t = Math.ceil((from - offset) / step) * step + offset; t < to; t += step) times.add(t);
  for (let midnight = floorToDay(from); midnight <= to; midnight += dayMs) {
    for (const t of [midnight - 1, midnight, midnight + 1]) if (from <= t && t < to) times.add(t);
  }
  return [...times].sort((a, b) => a - b).map((t) => ({ t, p: ((Math.floor(t / step) + offset) % 97) / 100 }));
}

export async function startScripted(nowMs: number, symbols: readonly string[]): Promise<ScriptedService> {
  const counts = new Map<string, number>();
  const handleRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const url = new URL(request.url!, 'http://box');
    service.requests.push(request.url!);
    // By the clock of the service.
    response.sendDate = false;
    if (service.sendsDate) response.setHeader('date', new Date(service.nowMs).toUTCString());
    const reply = url.pathname.endsWith('/markets') ? marketsReply(url.searchParams) : ticksReply(url.searchParams);
    if (typeof reply === 'function') {
      reply(response, request);
      return;
    }
    const text = typeof reply === 'string' ? reply : JSON.stringify(reply);
    response.setHeader('content-type', 'application/json').end(text);
  };
  const nth = (key: string): number => {
    const n = counts.get(key) ?? 0;
    counts.set(key, n + 1);
    return n;
  };
  const marketsReply = (query: URLSearchParams): Reply => {
    const markets = service.symbols
      .filter((symbol) => !service.unlisted.includes(symbol))
      .map((symbol, i) => ({ canonical_id: `id-${i}`, symbol, confidence: 0.5, category: 'test', is_active: true }));
    const { length } = markets;
    const view = query.get('view') ?? 'matched';
    const honest = { markets, count: length, total: length, view, generated_at: service.nowMs };
    return service.script.markets?.(honest, nth('markets')) ?? honest;
  };
  const ticksReply = (query: URLSearchParams): Reply => {
    const [from, to, limit] = ['from', 'to', 'limit'].map((name) => Number(query.get(name)));
    const request = { symbol: query.get('symbol')!, from: from!, to: to!, limit: limit! };
    if (!service.symbols.includes(request.symbol)) {
      return (response) => void response.writeHead(404).end(`no such symbol: ${JSON.stringify(request.symbol)}`);
    }
    const ticks = service.truth(request.symbol, request.from, request.to).slice(0, Math.min(capMax, request.limit));
    const end = ticks.length < Math.min(capMax, request.limit) ? request.to : ticks.at(-1)!.t;
    const { symbol } = request;
    const honest = { symbol, ticks, count: ticks.length, from: request.from, to: end, generated_at: service.nowMs };
    const truth = (from: number, to: number) => service.truth(symbol, from, to);
    return service.script.ticks?.(honest, request, nth(symbol), truth) ?? honest;
  };
  const server = createServer(handleRequest);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const service: ScriptedService = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    nowMs,
    symbols,
    unlisted: [],
    script: {},
    requests: [],
    sendsDate: true,
    truth: (symbol, from, to) => honestTicks(symbol, from, Math.min(to, service.nowMs)),
    stop() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return service;
}
