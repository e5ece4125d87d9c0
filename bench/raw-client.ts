import { once } from 'node:events';
import { connect } from 'node:net';

/** One connection that asks one question after the other; as little of a client as HTTP allows, so that the service is measured. */
export interface RawClient {
  /** The body of a 200; throws for any other answer. */
  get(path: string): Promise<Buffer>;
  close(): void;
}

export async function openRawClient(url: string, key: string): Promise<RawClient> {
  const { hostname, port, host } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  let pieces: Buffer[] = [];
  let length = 0;
  let wanted = -1;
  let bodyAt = 0;
  let settle: { resolve(body: Buffer): void; reject(error: Error): void } | undefined;
  socket.on('error', (error) => settle?.reject(error));
  socket.on('close', () => settle?.reject(new Error('the connection was closed')));
  socket.on('data', (piece: Buffer) => {
    pieces.push(piece);
    length += piece.length;
    if (wanted < 0) {
      const text = Buffer.concat(pieces);
      const end = text.indexOf('\r\n\r\n');
      if (end < 0) return;
      bodyAt = end + 4;
      wanted = bodyAt + Number(/\r\ncontent-length: (\d+)/i.exec(text.toString('latin1', 0, end + 2))?.[1]);
    }
    if (length < wanted) return;
    const answer = Buffer.concat(pieces);
    pieces = [];
    length = 0;
    wanted = -1;
    const done = settle;
    settle = undefined;
    const status = answer.toString('latin1', 9, 12);
    if (status === '200') done?.resolve(answer.subarray(bodyAt));
    else done?.reject(new Error(`answered ${status}: ${answer.toString('utf8', bodyAt, bodyAt + 200)}`));
  });
  return {
    get(path) {
      return new Promise((resolve, reject) => {
        settle = { resolve, reject };
        socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`);
      });
    },
    close: () => socket.destroy(),
  };
}
