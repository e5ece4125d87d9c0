import { gzipSync } from 'node:zlib';
import type { Reply } from './scripted-service.ts';

// Responses with faults of the transport.

export const headers =
  (status: number, fields: Readonly<Record<string, string>>, body: string): Reply =>
  (response) =>
    void response.writeHead(status, fields).end(body);

export const sends =
  (bytes: Buffer): Reply =>
  (response) =>
    void response.setHeader('content-type', 'application/json').end(bytes);

/** Half of a response, then the end of the connection. `stated`: with Content-Length. */
export function half(value: unknown, stated: boolean): Reply {
  const body = Buffer.from(JSON.stringify(value));
  const length = stated ? `content-length: ${body.length}\r\n` : '';
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${length}connection: close\r\n\r\n`;
  // Writes to the socket, because ServerResponse would correct the fault.
  return (response) =>
    void response.socket!.end(Buffer.concat([Buffer.from(head), body.subarray(0, body.length >> 1)]));
}

/** As JSON text, with a placeholder of the text replaced: JSON.stringify writes no NaN and no 1e400. */
export const asText = (value: unknown, from: string, to: string): string => JSON.stringify(value).replaceAll(from, to);

/** Compressed zeros, at a ratio of 1000. */
export const bomb = (bytes: number): Reply => {
  const packed = gzipSync(Buffer.alloc(bytes));
  return (response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed);
};

/** Sends until the client disconnects. */
export const endless: Reply = (response) => {
  const chunk = Buffer.alloc(64 * 1024, ' ');
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  };
  response.writeHead(200, { 'content-type': 'application/json' }).on('drain', more);
  more();
};

/** Sends endless headers. */
export const endlessHead: Reply = (response) => {
  const socket = response.socket!;
  const fields = Buffer.from('x-more: 0123456789\r\n'.repeat(1000));
  const more = (): void => {
    while (!socket.destroyed && socket.write(fields));
  };
  socket.write('HTTP/1.1 200 OK\r\n');
  socket.on('drain', more).on('error', () => {});
  more();
};
