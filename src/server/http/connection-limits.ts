import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock, Log } from '../../base/ports.ts';
import { problemType } from '../../contract/problem.ts';
import type { App } from './context.ts';
import { createCommonHeaders, createProblem } from './problem-details.ts';

/** Requests that never become one: told as a problem where they can be, and the connection closed. */
export function respondToClientError(log: Log, id: string, { code }: NodeJS.ErrnoException, socket: Duplex): void {
  const [status, detail] = toClientErrorStatus(code);
  log.debug({ request_id: id, code, status }, 'a request could not be read');
  if (code === 'ECONNRESET' || !socket.writable) socket.destroy();
  else rejectConnection(socket, id, status, detail);
}

function toClientErrorStatus(code: string | undefined): [status: number, detail: string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return [431, 'The line and the headers of a request have too many bytes.'];
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return [413, 'The extensions of a chunk have too many bytes.'];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'The request did not arrive in time.'];
    default:
      return [400, 'This is not a request of HTTP/1.1.'];
  }
}

const closeMsMax = 1000;

/** Answers on the bare connection, and closes it. */
function rejectConnection(
  socket: Duplex,
  id: string,
  status: number,
  detail: string,
  more: Record<string, string> = {},
): void {
  // Inside an answer that has begun, another one would be read as its body.
  if (activeResponses.get(socket)?.headersSent !== true) {
    const { body, headers } = createBareProblem(id, status, detail);
    const lines = Object.entries({ ...headers, ...more }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`);
  }
  // Ended and not cut at once: what is sent to a connection that still has bytes to read would be lost by a reset.
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

/** The answer that is under way on a connection. */
const activeResponses = new WeakMap<Duplex, ServerResponse>();

/** Methods that some path has, for what has no path. */
export const allMethods = 'DELETE, GET, HEAD, OPTIONS, POST';

/** What Node would answer by itself, or not at all, and what a connection may take. */
export function limitConnections(server: Server, log: Log, limits: ServiceLimits, newId: () => string): void {
  server.maxConnections = limits.connectionsMax;
  server.maxHeadersCount = 0; // their bytes are bounded; beyond a count Node would drop them silently
  server.on('connect', (_request: IncomingMessage, socket: Duplex) =>
    rejectConnection(socket, newId(), 405, 'This is no proxy.', { allow: allMethods }),
  );
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const detail = '100-continue is the only expectation that can be met.';
    const { body, headers } = createBareProblem(newId(), 417, detail);
    response.writeHead(417, headers).end(body);
    request.resume();
  });
  const track = (_request: IncomingMessage, response: ServerResponse): void => {
    const { socket } = response;
    if (socket === null) return;
    activeResponses.set(socket, response);
    response.once('close', () => {
      if (activeResponses.get(socket) === response) activeResponses.delete(socket);
    });
  };
  server.prependListener('request', track);
  server.prependListener('checkExpectation', track);
  // Node asks after a time in which nothing moved on a connection: neither were bytes taken, nor did any come.
  server.setTimeout(limits.stalledMsMax);
  server.on('timeout', (socket: Socket) => {
    const answering = activeResponses.has(socket);
    if (answering && socket.writableLength === 0) return; // it is we who are slow
    if (answering) log.info({ client: socket.remoteAddress }, 'a client that took nothing of its answer was cut off');
    socket.destroy();
  });
}

/** What one client may take of the service; each of them has its documented answer. Bytes, and milliseconds of real time. */
export interface ServiceLimits {
  /** A request's line and headers: 431 beyond. */
  readonly headerBytesMax: number;
  /** A request's path and query: 414 beyond. */
  readonly targetBytesMax: number;
  /** A request's body: 413 beyond. */
  readonly bodyBytesMax: number;
  /** Parameters of a query: 400 beyond. */
  readonly parametersMax: number;
  /** From a connection's start, or a request's first byte, to the end of its headers: 408 after that. */
  readonly headersMsMax: number;
  /** The same to the end of its body: 408 after that. */
  readonly requestMsMax: number;
  /** How often the two are looked at. */
  readonly checkIntervalMs: number;
  /** A connection without a request under way is closed after that. */
  readonly idleMsMax: number;
  /** A client that has bytes of an answer waiting and takes none of them is cut off after that. */
  readonly stalledMsMax: number;
  /** Connections at once; those beyond are closed as they come. */
  readonly connectionsMax: number;
  /** When the service stops, what is still under way after that is cut off. */
  readonly shutdownMsMax: number;
  /** Versions of strategies that a user may have in a workspace, and bots: 409 beyond. */
  readonly strategiesMax: number;
  readonly botsMax: number;
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
  shutdownMsMax: 10_000,
  strategiesMax: 1000,
  botsMax: 1000,
};

/** Takes no more connections, lets what is under way come to its end, and cuts off what has not after `msMax`. */
export async function stopService(app: App, clock: Clock, msMax: number): Promise<void> {
  const ended = new AbortController();
  const bound = clock.sleep(msMax, ended.signal).then(
    () => app.server.closeAllConnections(),
    () => {},
  );
  await app.close();
  ended.abort();
  await bound;
}
