import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { paths } from '../../contract/paths.ts';
import type { Log } from '../../core/log.ts';
import type { CompletenessCounts } from '../../core/verdict.ts';
import { createListenError } from '../listen-error.ts';

/** What is answered on the port. */
export interface HealthHandlers {
  /** What is wrong, by the part that it is wrong with; none where all is well. */
  wrong(): readonly { readonly name: string; readonly reason: string }[];
  /** How whole the archive is; null where it cannot be read. */
  verdict(): CompletenessCounts | null;
  /** In the text format of Prometheus. */
  metrics(): Promise<string>;
  readonly metricsType: string;
}

export interface HealthServer {
  /** Where it listens, e.g. http://127.0.0.1:9464 */
  readonly url: string;
  close(): void;
}

/** What one client may take; times in milliseconds. A scrape is one small request. */
const limits = { headerBytesMax: 8192, headersMsMax: 5000, requestMsMax: 5000, idleMsMax: 5000, stalledMsMax: 10_000 };
const connectionsMax = 64;

/**
 * Opens the health and metrics port. Port 0 is a free one.
 * @throws UsageError where it cannot be had
 */
export async function openHealthServer(
  host: string,
  port: number,
  answers: HealthHandlers,
  log: Log,
): Promise<HealthServer> {
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersMsMax,
      requestTimeout: limits.requestMsMax,
      keepAliveTimeout: limits.idleMsMax,
      connectionsCheckingInterval: 1000,
    },
    (request, response) => void handleRequest(request, response, answers, log),
  );
  server.maxConnections = connectionsMax;
  server.setTimeout(limits.stalledMsMax);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(createListenError('schedule.port', port, host, error)));
    server.listen({ host, port }, resolve);
  });
  server.on('error', (err) => log.warn({ err }, 'the health and metrics port has failed'));
  return {
    url: getListenUrl(server, host),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function getListenUrl(server: Server, host: string): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

async function handleRequest(request: IncomingMessage, response: ServerResponse, answers: HealthHandlers, log: Log) {
  // Nobody has anything to send here: what comes all the same is not waited for.
  if (request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined)
    response.setHeader('connection', 'close');
  try {
    const { status, type, body, headers } = await routeRequest(request, answers);
    response.writeHead(status, {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    });
    response.end(request.method === 'HEAD' ? undefined : body);
  } catch (err) {
    log.error({ err }, 'a request to the health and metrics port failed');
    response.writeHead(500, { connection: 'close' }).end();
  }
}

interface HealthResponse {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Record<string, string>;
}

const toJsonResponse = (status: number, value: object): HealthResponse => ({
  status,
  type: status < 400 ? 'application/json' : 'application/problem+json',
  body: `${JSON.stringify(value)}\n`,
});

const toProblemResponse = (status: number, title: string, more: object = {}): HealthResponse =>
  toJsonResponse(status, { type: 'about:blank', title, status, ...more });

async function routeRequest(request: IncomingMessage, answers: HealthHandlers): Promise<HealthResponse> {
  const path = (request.url ?? '').split('?', 1)[0];
  if (path !== paths.health && path !== paths.ready && path !== paths.metrics)
    return toProblemResponse(404, 'Not Found', {
      detail: `There are ${paths.health}, ${paths.ready} and ${paths.metrics}.`,
    });
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return { ...toProblemResponse(405, 'Method Not Allowed'), headers: { allow: 'GET, HEAD' } };
  if (path === paths.health) return toJsonResponse(200, { status: 'ok' });
  if (path === paths.metrics) return { status: 200, type: answers.metricsType, body: await answers.metrics() };
  const wrong = answers.wrong();
  if (wrong.length === 0) return toJsonResponse(200, { status: 'ready', verdict: answers.verdict()?.state ?? null });
  const detail = wrong.map(({ name, reason }) => `The ${name} ${reason}.`).join(' ');
  return toProblemResponse(503, 'Service Unavailable', {
    detail,
    errors: wrong,
    verdict: answers.verdict()?.state ?? null,
  });
}
