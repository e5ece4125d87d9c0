import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { minuteMs } from '../../base/window.ts';
import type { FairSemaphore } from './fair-semaphore.ts';
import { ProblemError } from './problem-details.ts';

/** Time without reading after which a client is disconnected, in milliseconds. */
const stallMsMax = minuteMs;

/** A signal that is aborted when the client disconnects or the service stops. */
export function createDisconnectSignal(reply: Pick<FastifyReply, 'raw'>, stopping: AbortSignal): AbortSignal {
  const disconnected = new AbortController();
  const end = (): void => {
    if (!reply.raw.writableFinished) disconnected.abort(new Error('the client disconnected'));
  };
  reply.raw.once('close', end);
  // The close event has already passed if the client disconnected during authentication.
  if (reply.raw.destroyed) end();
  return AbortSignal.any([disconnected.signal, stopping]);
}

/** The error of a request whose signal was aborted: neither a disconnect nor a stop is an internal error. */
export function toRequestError(error: unknown, signal: AbortSignal, stopping: AbortSignal): unknown {
  if (stopping.aborted) return new ProblemError(503, 'The service is stopping.');
  return signal.aborted ? new ProblemError(408, 'The client disconnected.') : error;
}

/** The chunks of a file, and how to close their source. */
export interface ChunkSource {
  readonly chunks: AsyncGenerator<Uint8Array>;
  /** Closes the source, even before its end; idempotent. */
  close(): Promise<void>;
}

interface PacingOptions {
  /** Held while a chunk is computed, and not while the client reads it. */
  readonly semaphore: FairSemaphore;
  readonly signal: AbortSignal;
  readonly stallMsMax?: number;
  /** Called when the client reads nothing for `stallMsMax`; no further chunk is computed then. */
  onStall(): void;
}

/**
 * Yields chunks as fast as the client reads them, without computing any in advance.
 * @returns once the first chunk is computed, so that errors before it can still become a proper response
 */
export async function paceChunks(source: ChunkSource, pacing: PacingOptions): Promise<AsyncGenerator<Uint8Array>> {
  const { semaphore, signal } = pacing;
  const next = async () => {
    const release = await semaphore.acquire(signal, false);
    try {
      return await source.chunks.next();
    } finally {
      release();
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
    for (let chunk = first; chunk.done !== true; chunk = await next()) {
      const stall = setTimeout(() => pacing.onStall(), pacing.stallMsMax ?? stallMsMax);
      try {
        yield chunk.value;
      } finally {
        clearTimeout(stall);
      }
    }
  } finally {
    await source.close();
  }
}

/**
 * The end of the connection ends the body of an HTTP/1.0 response. One that fails is therefore reset: proxies that use
 * HTTP/1.0 would pass it on as complete otherwise.
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

/**
 * Sends the chunks of a generator. An error resets the connection, so that the client detects the incomplete response.
 */
export function sendChunks(
  request: FastifyRequest,
  reply: FastifyReply,
  chunks: AsyncGenerator<Uint8Array>,
): FastifyReply {
  // HEAD has the headers of GET and no body.
  if (request.method === 'HEAD') {
    // Start the generator, so that its `finally` runs; its creator logs errors.
    void chunks
      .next()
      .then(() => chunks.return(undefined))
      .catch(() => {});
    return reply.send(Readable.from([]));
  }
  if (request.raw.httpVersion === '1.0') resetConnection(reply.raw);
  return reply.send(Readable.from(chunks, { objectMode: true, highWaterMark: 1 }));
}
