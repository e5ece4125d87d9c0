import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock, Log } from '../../base/ports.ts';
import { problemType } from '../../contract/problem.ts';
import { createCommonHeaders, createProblem } from './problem-details.ts';
import type { App } from './service-context.ts';

/** Responds with a problem to a request that cannot be parsed, if possible, and closes the connection. */
export function respondToClientError(log: Log, id: string, { code }: NodeJS.ErrnoException, socket: Duplex): void {
  const [status, detail] = toClientErrorStatus(code);
  log.debug({ request_id: id, code, status }, 'cannot parse a request');
  if (code === 'ECONNRESET' || !socket.writable) socket.destroy();
  else rejectConnection(socket, id, status, detail);
}

function toClientErrorStatus(code: string | undefined): [status: number, detail: string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return [431, 'The request line and headers are too large.'];
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return [413, 'The chunk extensions are too large.'];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'The request did not arrive in time.'];
    default:
      return [400, 'This is not an HTTP/1.1 request.'];
  }
}

const closeMsMax = 1000;

/** Writes a response to the socket and closes the connection. */
function rejectConnection(
  socket: Duplex,
  id: string,
  status: number,
  detail: string,
  more: Record<string, string> = {},
): void {
  // A client would read a second response as the body of one that has started.
  if (activeResponses.get(socket)?.headersSent !== true) {
    const { body, headers } = createBareProblem(id, status, detail);
    const lines = Object.entries({ ...headers, ...more }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`);
  }
  // End before destroying: a reset would discard the response while the client still sends.
  socket.end(() => setTimeout(() => socket.destroy(), closeMsMax).unref());
}

function createBareProblem(id: string, status: number, detail: string) {
  const body = JSON.stringify(createProblem(status, detail));
  const length = String(Buffer.byteLength(body));
  const headers = {
    'content-type': problemType,
    'content-length': length,
    connection: 'close',
    ...createCommonHeaders(id),
  };
  return { body, headers };
}

/** The current response of a connection. */
const activeResponses = new WeakMap<Duplex, ServerResponse>();

/** Hooks, counters and the stream of the body listen to a response. Above this number, Node warns of a leak. */
const responseListenersMax = 20;

/** The methods of all paths, for `OPTIONS *`. */
export const allMethods = 'DELETE, GET, HEAD, OPTIONS, POST';

/** Sets limits on requests and idle connections, and replaces the responses that Node itself would send. */
export function limitConnections(server: Server, limits: ServiceLimits, newId: () => string): void {
  server.maxHeadersCount = 0; // their total size is limited; with a count limit, Node would silently drop the excess
  server.on('connect', (_request: IncomingMessage, socket: Duplex) =>
    rejectConnection(socket, newId(), 405, 'This server is not a proxy.', { allow: allMethods }),
  );
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const detail = 'The only supported expectation is 100-continue.';
    const { body, headers } = createBareProblem(newId(), 417, detail);
    response.writeHead(417, headers).end(body);
    request.resume();
  });
  const track = (_request: IncomingMessage, response: ServerResponse): void => {
    response.setMaxListeners(responseListenersMax);
    const { socket } = response;
    if (socket === null) return;
    activeResponses.set(socket, response);
    response.once('close', () => {
      if (activeResponses.get(socket) === response) activeResponses.delete(socket);
    });
  };
  server.prependListener('request', track);
  server.prependListener('checkExpectation', track);
  // Node emits `timeout` after a period without traffic in either direction.
  server.setTimeout(limits.stalledMsMax);
  server.on('timeout', (socket: Socket) => {
    // While there is a response, either the service is slow, or trackConnections watches the client.
    if (!activeResponses.has(socket)) socket.destroy();
  });
}

/** Limits on connections, requests and stored objects. Sizes are in bytes, times in milliseconds of real time. */
export interface ServiceLimits {
  /** Request line and headers; 431 above. */
  readonly headerBytesMax: number;
  /** Path and query; 414 above. */
  readonly targetBytesMax: number;
  /** Body; 413 above. */
  readonly bodyBytesMax: number;
  /** Query parameters; 400 above. */
  readonly parametersMax: number;
  /** From the start of a connection, or a request's first byte, to the end of its headers; 408 after that. */
  readonly headersMsMax: number;
  /** From the same start to the end of the body; 408 after that. */
  readonly requestMsMax: number;
  /** Interval between checks of these two, of incomplete requests and of clients that do not read. */
  readonly checkIntervalMs: number;
  /** Close a connection without a request after this time. */
  readonly idleMsMax: number;
  /** Close a connection whose client accepts no byte of its response for this time. */
  readonly stalledMsMax: number;
  /** Concurrent connections; a further one replaces an unused one, or is closed at once. */
  readonly connectionsMax: number;
  /** Requests of one address that are incomplete for more than one check; the oldest are closed. */
  readonly halfSentPerAddressMax: number;
  /** Time that running requests have to finish when the service stops; after that, their connections are closed. */
  readonly shutdownMsMax: number;
  /** Strategy versions, and bots, per user and workspace; 409 above. */
  readonly strategiesMax: number;
  readonly botsMax: number;
  /**
   * Ticks of a backtest without `save`, and of a saved one; 422 above. A tick counts once for each grid point and each distinct
   * measure over a window, so that nobody could choose these numbers from what they know of their archive.
   */
  readonly backtestTicksSyncMax: number;
  readonly backtestTicksJobMax: number;
  /** Duration of a backtest without `save`; 422 after that. */
  readonly backtestMsMax: number;
  /** Waiting and running saved backtests per user; 429 above. */
  readonly backtestsWaitingMax: number;
  /** Finished saved backtests per user and workspace; a further one replaces the oldest. */
  readonly savedBacktestsMax: number;
  /** Total size of the files with all trades of one user's saved backtests; above it, trades are not stored. */
  readonly tradesBytesMax: number;
}

export const serviceLimits: ServiceLimits = {
  headerBytesMax: 16 * 1024,
  targetBytesMax: 8 * 1024,
  bodyBytesMax: 64 * 1024,
  parametersMax: 100,
  headersMsMax: 10_000,
  requestMsMax: 30_000,
  checkIntervalMs: 1000,
  idleMsMax: 30_000,
  stalledMsMax: 30_000,
  connectionsMax: 2000,
  halfSentPerAddressMax: 100,
  shutdownMsMax: 10_000,
  strategiesMax: 1000,
  botsMax: 1000,
  backtestTicksSyncMax: 50_000_000,
  backtestTicksJobMax: 20_000_000_000,
  backtestMsMax: 60_000,
  backtestsWaitingMax: 10,
  savedBacktestsMax: 100,
  tradesBytesMax: 1024 ** 3,
};

/** Stops accepting connections and waits for running requests; closes their connections after `msMax`. */
export async function stopService(app: App, clock: Clock, msMax: number): Promise<void> {
  const stopped = new AbortController();
  const bound = clock.sleep(msMax, stopped.signal).then(
    () => app.server.closeAllConnections(),
    () => {},
  );
  await app.close();
  stopped.abort();
  await bound;
}
