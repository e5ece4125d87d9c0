import http from 'node:http';
import type { AddressInfo } from 'node:net';
import net from 'node:net';
import { systemClock, systemRandom } from '../../src/base/system.ts';
import { openUpstream } from '../../src/client/client.ts';
import { type OpenTransport, openTransport } from '../../src/client/transport.ts';
import type { Upstream, UpstreamDeps, UpstreamOptions } from '../../src/client/upstream.ts';
import { limitMs } from '../harness/limits.ts';

interface Served extends AsyncDisposable {
  readonly url: string;
  /** Requests received so far. */
  readonly requests: http.IncomingMessage[];
}

type Handler = (request: http.IncomingMessage, response: http.ServerResponse, index: number) => void;

/** A real HTTP server on loopback. `index` counts its requests from 0. */
export async function serve(handler: Handler): Promise<Served> {
  const requests: http.IncomingMessage[] = [];
  const server = http.createServer((request, response) => {
    requests.push(request);
    handler(request, response, requests.length - 1);
  });
  await listen(server);
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: address(server), requests, [Symbol.asyncDispose]: close };
}

/** A real TCP server, for responses that node:http refuses to write. Called for each request. */
export async function serveRaw(onRequest: (socket: net.Socket, index: number) => void) {
  let index = 0;
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', () => onRequest(socket, index++));
  });
  await listen(server);
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: address(server), connections: () => sockets.size, [Symbol.asyncDispose]: close };
}

async function listen(server: net.Server): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
}

const address = (server: net.Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

export const apiKey = 'key-that-nobody-may-see';
export const ticksQuery = { symbol: 'KXBTC', from: 1_700_000_000_000, to: 1_700_003_600_000, limit: 1000 };
export const subject = 'ticks of KXBTC [2023-11-14T22:13:20.000Z, 2023-11-14T23:13:20.000Z)';

/** A client with retries so quick that tests need not wait, and a deadline that a busy machine does not reach. */
export function open(
  baseUrl: string,
  options: Partial<UpstreamOptions> = {},
  deps: Partial<UpstreamDeps> = {},
): Upstream & AsyncDisposable {
  const quick = { requestsPerSecond: 1000, retryDelayMsMin: 2, retryDelayMsMax: 5, requestDeadlineMs: limitMs / 2 };
  const upstream = openUpstream(
    { baseUrl, apiKey, userAgent: 'oddslake/test', ...quick, ...options },
    { clock: systemClock, random: systemRandom, ...deps },
  );
  return { ...upstream, [Symbol.asyncDispose]: () => upstream.close() };
}

/** The production transport, with a callback for each response head. */
export const openTransportWithHeadHook =
  (onHead: () => void): OpenTransport =>
  (options, clock) => {
    const wire = openTransport(options, clock);
    return {
      ...wire,
      get: (path, signal, onResponseHead) =>
        wire.get(path, signal, (head) => {
          onHead();
          onResponseHead(head);
        }),
    };
  };

export function ticksBody(symbol = 'KXBTC', count = 2): string {
  const ticks = Array.from({ length: count }, (_, i) => ({ t: 1_700_000_000_000 + i, p: (i + 1) / 1000 }));
  const { from, to } = ticksQuery;
  return JSON.stringify({ symbol, ticks, count, from, to, generated_at: to + 5 });
}

export function sendJson(response: http.ServerResponse, body: string | Buffer, headers: http.OutgoingHttpHeaders = {}) {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(body);
}

/** The error of a promise that must fail. */
export async function failure(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error('should have failed');
}
