import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { SandboxResponse } from './response.ts';
import type { RequestTracker } from './stats.ts';

/** One request and the way to answer it. */
export interface HttpCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly tracker: RequestTracker;
}

/** Below this many characters gzip gains nothing. */
const gzipCharactersMin = 1_000;

/** Sends a whole answer, if the client is still there. */
export function sendResponse({ request, response, tracker }: HttpCall, answer: SandboxResponse, gzip: boolean): void {
  if (response.destroyed) {
    tracker.noteResponse('gone');
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
  tracker.noteResponse(String(answer.status), answer);
  response.end(body);
}

/** Sends half an answer, waits, and sends the rest if the client is still there. */
export async function sendSlowly(call: HttpCall, answer: SandboxResponse, wait: () => Promise<void>): Promise<void> {
  const { response, tracker } = call;
  const body = Buffer.from(answer.body);
  response.writeHead(answer.status, { ...answer.headers, 'content-length': body.length });
  response.write(body.subarray(0, body.length >> 1));
  await wait();
  if (response.destroyed) return tracker.noteResponse('gone');
  tracker.noteResponse(String(answer.status), answer);
  response.end(body.subarray(body.length >> 1));
}
