import type { Socket } from 'node:net';
import type { FaultKind } from './faults.ts';
import type { Answer } from './response.ts';
import type { Call } from './send-response.ts';

/** Faults that lie in how an answer goes over the wire. */
export const tornKinds = ['reset', 'reset-body', 'half-body', 'half-body-close'] as const satisfies FaultKind[];

export type TornKind = (typeof tornKinds)[number];

export function isTorn(kind: FaultKind | undefined): kind is TornKind {
  return (tornKinds as readonly (FaultKind | undefined)[]).includes(kind);
}

/** Long enough for the half to leave before the reset, which would discard it. */
const resetDelayMs = 20;

/**
 * Sends part of an answer and ends the connection. Written to the socket itself, as ServerResponse would mend what is
 * to be broken: it adds a chunked end, and it refuses a body shorter than its content-length.
 */
export async function tear(
  { response, exchange }: Call,
  answer: Answer,
  kind: TornKind,
  sleep: (ms: number) => Promise<void>,
): Promise<void> {
  const socket = response.socket;
  if (socket === null) return exchange.answered('gone');
  exchange.answered(kind === 'reset' ? 'reset' : String(answer.status));
  if (kind === 'reset') {
    socket.resetAndDestroy();
    return;
  }
  const body = Buffer.from(answer.body);
  const length = kind === 'half-body-close' ? [] : [`content-length: ${body.length}`];
  const fields = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
  const head = [`HTTP/1.1 ${answer.status} Torn`, ...fields, ...length, 'connection: close', '', ''].join('\r\n');
  await written(socket, Buffer.concat([Buffer.from(head), body.subarray(0, body.length >> 1)]));
  if (kind === 'reset-body') {
    await sleep(resetDelayMs);
    socket.resetAndDestroy();
  } else {
    socket.end();
  }
}

function written(socket: Socket, bytes: Buffer): Promise<void> {
  // The client may be gone before it: that is its affair, so the error is not looked at.
  return new Promise((resolve) => {
    socket.write(bytes, () => resolve());
  });
}
