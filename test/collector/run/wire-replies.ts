import { gzipSync } from 'node:zlib';
import type { Reply } from './scripted-service.ts';

// Answers whose fault lies in how they go over the wire.

export const headers =
  (status: number, fields: Readonly<Record<string, string>>, body: string): Reply =>
  (response) =>
    void response.writeHead(status, fields).end(body);

export const sends =
  (bytes: Buffer): Reply =>
  (response) =>
    void response.setHeader('content-type', 'application/json').end(bytes);

/** Half of an answer, and the end of the connection; `stated`: its length was told. */
export function half(value: unknown, stated: boolean): Reply {
  const body = Buffer.from(JSON.stringify(value));
  const length = stated ? `content-length: ${body.length}\r\n` : '';
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${length}connection: close\r\n\r\n`;
  // To the socket itself: ServerResponse would mend what is to be broken.
  return (response) =>
    void response.socket!.end(Buffer.concat([Buffer.from(head), body.subarray(0, body.length >> 1)]));
}

/** As JSON text, with a placeholder of the text replaced: JSON.stringify writes no NaN and no 1e400. */
export const asText = (value: unknown, from: string, to: string): string => JSON.stringify(value).replaceAll(from, to);

/** So many zeros, packed to a thousandth. */
export const bomb = (bytes: number): Reply => {
  const packed = gzipSync(Buffer.alloc(bytes));
  return (response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed);
};

/** Goes on for as long as somebody listens. */
export const endless: Reply = (response) => {
  const chunk = Buffer.alloc(64 * 1024, ' ');
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  };
  response.writeHead(200, { 'content-type': 'application/json' }).on('drain', more);
  more();
};

/** Header after header. */
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
