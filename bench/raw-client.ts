import { once } from 'node:events';
import { connect } from 'node:net';

/** One connection that sends one request after another with the least client code, so that the service is measured. */
interface RawClient {
  /** The body of a 200 response; throws for any other status. */
  get(path: string): Promise<Buffer>;
  close(): void;
}

/** @param more further headers of every request */
export async function openRawClient(
  url: string,
  key: string,
  more: Readonly<Record<string, string>> = {},
): Promise<RawClient> {
  const { hostname, port, host } = new URL(url);
  const headers = Object.entries({ Host: host, Authorization: `Bearer ${key}`, ...more });
  const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  let pieces: Buffer[] = [];
  let length = 0;
  let bytesExpected = -1;
  let bodyAt = 0;
  let settle: { resolve(body: Buffer): void; reject(error: Error): void } | undefined;
  socket.on('error', (error) => settle?.reject(error));
  socket.on('close', () => settle?.reject(new Error('connection closed')));
  socket.on('data', (piece: Buffer) => {
    pieces.push(piece);
    length += piece.length;
    if (bytesExpected < 0) {
      const text = Buffer.concat(pieces);
      const end = text.indexOf('\r\n\r\n');
      if (end < 0) return;
      bodyAt = end + 4;
      bytesExpected = bodyAt + Number(/\r\ncontent-length: (\d+)/i.exec(text.toString('latin1', 0, end + 2))?.[1]);
    }
    if (length < bytesExpected) return;
    const response = Buffer.concat(pieces);
    pieces = [];
    length = 0;
    bytesExpected = -1;
    const resolve = settle;
    settle = undefined;
    const status = response.toString('latin1', 9, 12);
    if (status === '200') resolve?.resolve(response.subarray(bodyAt));
    else resolve?.reject(new Error(`HTTP status ${status}: ${response.toString('utf8', bodyAt, bodyAt + 200)}`));
  });
  return {
    get(path) {
      return new Promise((resolve, reject) => {
        settle = { resolve, reject };
        socket.write(`GET ${path} HTTP/1.1\r\n${head}\r\n`);
      });
    },
    close: () => socket.destroy(),
  };
}
