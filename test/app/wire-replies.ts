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
