import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FairSemaphore } from './fair-semaphore.ts';
import { ProblemError } from './problem-details.ts';

/** How long a client may take nothing before it is let go, in milliseconds. */
const stallMsMax = 60_000;

/** Aborted once whoever asked is gone, or the service stops. */
export function createDisconnectSignal(reply: FastifyReply, stopping: AbortSignal): AbortSignal {
  const gone = new AbortController();
  const end = (): void => {
    if (!reply.raw.writableFinished) gone.abort(new Error('the client went away'));
  };
  reply.raw.once('close', end);
  // Gone while the credential was looked at: that is not told again.
  if (reply.raw.destroyed) end();
  return AbortSignal.any([gone.signal, stopping]);
}

/** What a request whose signal that is ends with: that it broke off because it was to end is no failure of ours. */
export function toRequestError(error: unknown, signal: AbortSignal, stopping: AbortSignal): unknown {
  if (stopping.aborted) return new ProblemError(503, 'The service is stopping.');
  return signal.aborted ? new ProblemError(408, 'The client went away.') : error;
}

/** Pieces of a file, and what is to be done when they are over. */
export interface ChunkSource {
  readonly chunks: AsyncGenerator<Uint8Array>;
  /** Ends them, wherever they are, and what they need; again: nothing. */
  close(): Promise<void>;
}

export interface PacingOptions {
  /** Only inside is a piece computed; while the client takes it, others are. */
  readonly semaphore: FairSemaphore;
  readonly signal: AbortSignal;
  readonly stallMsMax?: number;
  /** Told when nothing was taken for so long; nobody asks for another piece after it. */
  onStall(): void;
}

/**
 * Pieces as fast as they are taken, one being computed ahead of none.
 * @returns once the first piece is there: what goes wrong before it can still be told properly
 */
export async function paceChunks(source: ChunkSource, pacing: PacingOptions): Promise<AsyncGenerator<Uint8Array>> {
  const { semaphore, signal } = pacing;
  const next = async () => {
    const leave = await semaphore.acquire(signal, false);
    try {
      return await source.chunks.next();
    } finally {
      leave();
    }
  };
  let first: IteratorResult<Uint8Array, unknown>;
  try {
    first = await next();
  } catch (error) {
    await source.close();
    throw error;
  }
  return yieldRemainingChunks(first, next, source, pacing);
}

async function* yieldRemainingChunks(
  first: IteratorResult<Uint8Array, unknown>,
  next: () => Promise<IteratorResult<Uint8Array, unknown>>,
  source: ChunkSource,
  pacing: PacingOptions,
): AsyncGenerator<Uint8Array> {
  try {
    for (let piece = first; piece.done !== true; piece = await next()) {
      const stall = setTimeout(() => pacing.onStall(), pacing.stallMsMax ?? stallMsMax);
      try {
        yield piece.value;
      } finally {
        clearTimeout(stall);
      }
    }
  } finally {
    await source.close();
  }
}

/**
 * The body of an HTTP/1.0 answer ends with its connection: one that is broken off must not end as a whole one does, and
 * proxies that speak no later version would pass it on as complete.
 */
function resetConnection(response: ServerResponse): void {
  const { socket } = response;
  if (socket === null) return;
  const destroy = socket.destroy.bind(socket);
  socket.destroy = (error) => {
    socket.destroy = destroy;
    return response.writableFinished ? destroy(error) : socket.resetAndDestroy();
  };
}

/** Sends a generator's pieces; one that fails on the way breaks the connection, so that nobody takes it for the whole. */
export function sendChunks(
  request: FastifyRequest,
  reply: FastifyReply,
  pieces: AsyncGenerator<Uint8Array>,
): FastifyReply {
  // HEAD is answered as GET would be, and nobody reads what follows.
  if (request.method === 'HEAD') {
    // One that was never begun does not come by its own end; whoever made it has told what went wrong in it.
    void pieces
      .next()
      .then(() => pieces.return(undefined))
      .catch(() => {});
    return reply.send(Readable.from([]));
  }
  if (request.raw.httpVersion === '1.0') resetConnection(reply.raw);
  return reply.send(Readable.from(pieces, { objectMode: true, highWaterMark: 1 }));
}
