import type { Socket } from 'node:net';
import type { FaultKind } from './faults.ts';
import type { SandboxResponse } from './response.ts';
import type { HttpCall } from './send-response.ts';

/** Faults that lie in how an answer goes over the wire. */
export const truncationFaults = ['reset', 'reset-body', 'half-body', 'half-body-close'] as const satisfies FaultKind[];

export type TruncationFault = (typeof truncationFaults)[number];

export function isTruncationFault(kind: FaultKind | undefined): kind is TruncationFault {
  return (truncationFaults as readonly (FaultKind | undefined)[]).includes(kind);
}

/** Long enough for the half to leave before the reset, which would discard it. */
const resetDelayMs = 20;

/**
 * Sends part of an answer and ends the connection. Written to the socket itself, as ServerResponse would mend what is
 * to be broken: it adds a chunked end, and it refuses a body shorter than its content-length.
 */
export async function sendTruncated(
  { response, tracker }: HttpCall,
  answer: SandboxResponse,
  kind: TruncationFault,
  sleep: (ms: number) => Promise<void>,
): Promise<void> {
  const socket = response.socket;
  if (socket === null) return tracker.noteResponse('gone');
  tracker.noteResponse(kind === 'reset' ? 'reset' : String(answer.status));
  if (kind === 'reset') {
    socket.resetAndDestroy();
    return;
  }
  const body = Buffer.from(answer.body);
  const length = kind === 'half-body-close' ? [] : [`content-length: ${body.length}`];
  const fields = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
  const head = [`HTTP/1.1 ${answer.status} Torn`, ...fields, ...length, 'connection: close', '', ''].join('\r\n');
  await writeBytes(socket, Buffer.concat([Buffer.from(head), body.subarray(0, body.length >> 1)]));
  if (kind === 'reset-body') {
    await sleep(resetDelayMs);
    socket.resetAndDestroy();
  } else {
    socket.end();
  }
}

function writeBytes(socket: Socket, bytes: Buffer): Promise<void> {
  // The client may be gone before it: that is its affair, so the error is not looked at.
  return new Promise((resolve) => {
    socket.write(bytes, () => resolve());
  });
}
