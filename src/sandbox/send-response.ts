import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Answer } from './response.ts';
import type { Exchange } from './stats.ts';

/** One request and the way to answer it. */
export interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly exchange: Exchange;
}

/** Below this many characters gzip gains nothing. */
const gzipCharactersMin = 1_000;

/** Sends a whole answer, if the client is still there. */
export function send({ request, response, exchange }: Call, answer: Answer, gzip: boolean): void {
  if (response.destroyed) {
    exchange.answered('gone');
    return;
  }
  const accepts = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const packed = gzip && accepts && answer.body.length >= gzipCharactersMin;
  const body = packed ? gzipSync(answer.body, { level: 1 }) : Buffer.from(answer.body);
  response.writeHead(answer.status, {
    ...answer.headers,
    ...(packed ? { 'content-encoding': 'gzip' } : {}),
    'content-length': body.length,
  });
  exchange.answered(String(answer.status), answer);
  response.end(body);
}

/** Sends half an answer, waits, and sends the rest if the client is still there. */
export async function sendSlowly(call: Call, answer: Answer, wait: () => Promise<void>): Promise<void> {
  const { response, exchange } = call;
  const body = Buffer.from(answer.body);
  response.writeHead(answer.status, { ...answer.headers, 'content-length': body.length });
  response.write(body.subarray(0, body.length >> 1));
  await wait();
  if (response.destroyed) return exchange.answered('gone');
  exchange.answered(String(answer.status), answer);
  response.end(body.subarray(body.length >> 1));
}
