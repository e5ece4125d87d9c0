import { createServer, type IncomingMessage, type ServerResponse, request as sendRequest } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What the proxy does to one request. `before` and `after` say whether the server sees the request of a killed client. */
export const faults = ['killed before', 'killed after', '500', '503', '409', '412', 'body cut', 'time-out'] as const;
export type Fault = (typeof faults)[number];

interface SeenRequest {
  readonly method: string;
  /** Path with the bucket, and the query. */
  readonly path: string;
  /** Of the server; null if it did not see the request, or its response was not awaited. */
  status: number | null;
}

export interface FaultProxy {
  readonly endpoint: string;
  readonly seen: SeenRequest[];
  stop(): Promise<void>;
}

export interface ProxyRules {
  /** The fault of a request, by its number from 0. */
  readonly choose?: (index: number, request: SeenRequest) => Fault | null;
  /** Called when a fault kills the client. */
  readonly kill?: () => void;
  /** The status of an answer that the server never sees; null: as usual. */
  readonly answer?: (request: SeenRequest, headers: IncomingMessage['headers']) => number | null;
  /** Called before a request is forwarded; it waits for the result. */
  readonly hold?: (request: SeenRequest) => Promise<void> | void;
  /** Called when the server has answered, before the client sees it. */
  readonly answered?: () => void;
  /** Headers that are removed from responses. */
  readonly hides?: RegExp;
}

/** Forwards requests to an S3 server and breaks some of them. Signatures stay valid, because the Host header is kept. */
export async function startFaultProxy(target: string, rules: ProxyRules): Promise<FaultProxy> {
  const seen: SeenRequest[] = [];
  const server = createServer((incoming, outgoing) => {
    // Connections break on purpose.
    for (const one of [incoming, outgoing]) one.on('error', () => {});
    void handle(incoming, outgoing);
  });
  const { port: targetPort } = new URL(target);

  async function handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const entry: SeenRequest = { method: incoming.method!, path: incoming.url!, status: null };
    const index = seen.push(entry) - 1;
    const body = await readBody(incoming);
    await rules.hold?.(entry);
    const fault = rules.choose?.(index, entry) ?? null;
    const forced = rules.answer?.(entry, incoming.headers) ?? null;
    if (forced !== null) return answerError(outgoing, String(forced));
    if (fault === 'killed before') {
      rules.kill?.();
      return void incoming.socket.destroy();
    }
    if (fault !== null && /^\d+$/.test(fault)) return answerError(outgoing, fault);
    const cutsRequest = fault === 'body cut' && body.length > 1;
    const upstream = sendRequest(
      { host: '127.0.0.1', port: targetPort, method: entry.method, path: entry.path, headers: incoming.headers },
      async (response) => {
        entry.status = response.statusCode!;
        const bytes = await readBody(response);
        rules.answered?.();
        if (fault === 'time-out') return;
        if (fault === 'killed after') {
          rules.kill?.();
          return void incoming.socket.destroy();
        }
        const shown = Object.entries(response.headers).filter(([name]) => rules.hides?.test(name) !== true);
        outgoing.writeHead(response.statusCode!, Object.fromEntries(shown));
        if (fault === null) return void outgoing.end(bytes);
        outgoing.write(bytes.subarray(0, bytes.length >> 1), () => outgoing.destroy());
      },
    );
    upstream.on('error', () => incoming.socket.destroy());
    if (!cutsRequest) return void upstream.end(body);
    upstream.write(body.subarray(0, body.length >> 1), () => {
      upstream.destroy();
      incoming.socket.destroy();
    });
  }

  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function readBody(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of stream) chunks.push(chunk as Buffer);
  } catch {
    // The client was killed.
  }
  return Buffer.concat(chunks);
}

const codes: Readonly<Record<string, string>> = {
  '403': 'AccessDenied',
  '409': 'ConditionalRequestConflict',
  '412': 'PreconditionFailed',
  '500': 'InternalError',
  '501': 'NotImplemented',
  '503': 'SlowDown',
};

function answerError(outgoing: ServerResponse, status: string): void {
  // As a server that ignores a condition answers a write.
  if (status === '200') return void outgoing.writeHead(200, { etag: '"ignored"', 'content-length': 0 }).end();
  const text = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${codes[status]}</Code><Message>by the proxy</Message></Error>`;
  outgoing.writeHead(Number(status), { 'content-type': 'application/xml', 'content-length': text.length });
  outgoing.end(text);
}
