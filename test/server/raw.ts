import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

// Requests as raw bytes, which no client library would send.

export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** A connection that is closed when the test ends. */
export function connected(url: string): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Everything received until the server closes the connection. */
export async function received(socket: Socket): Promise<string> {
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  await new Promise<void>((resolve) => {
    socket.once('end', resolve);
    socket.once('close', () => resolve());
  });
  socket.destroy();
  return Buffer.concat(pieces).toString('latin1');
}

/** Sends bytes, and returns everything received until the server closes the connection. */
export function sent(url: string, text: string): Promise<string> {
  const socket = connected(url);
  socket.write(Buffer.from(text, 'latin1'));
  return received(socket);
}

/** Parses consecutive responses; each has a Content-Length or no body. */
export function answersIn(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = text;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    const [line = '', ...lines] = rest.slice(0, end).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(line)?.[1]);
    if (end < 0 || Number.isNaN(status)) throw new Error(`not an answer: ${JSON.stringify(rest.slice(0, 200))}`);
    const headers = new Headers(lines.map((one) => [one.slice(0, one.indexOf(':')), one.slice(one.indexOf(':') + 1)]));
    const length = Number(headers.get('content-length') ?? 0);
    answers.push({ status, headers, body: rest.slice(end + 4, end + 4 + length) });
    rest = rest.slice(end + 4 + length);
  }
  return answers;
}

/** The response to a request that closes its connection. */
export async function rawAnswer(url: string, text: string): Promise<RawAnswer> {
  const answers = answersIn(await sent(url, text));
  if (answers.length !== 1) throw new Error(`${answers.length} answers`);
  return answers[0]!;
}

/** Head of a request that closes its connection. */
export const head = (target: string, method = 'GET', rest: readonly string[] = []): string =>
  [`${method} ${target} HTTP/1.1`, 'Host: here', 'Connection: close', ...rest, '\r\n'].join('\r\n');
