import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { compressStream } from './compress-response.ts';
import type { FairSemaphore } from './fair-semaphore.ts';
import { ProblemError } from './problem-details.ts';

/** A signal that is aborted when the client disconnects, or is disconnected because the service stops. */
export function createDisconnectSignal(reply: Pick<FastifyReply, 'raw'>): AbortSignal {
  const disconnected = new AbortController();
  const end = (): void => {
    if (!reply.raw.writableFinished) disconnected.abort(new Error('the client disconnected'));
  };
  reply.raw.once('close', end);
  // The close event has already passed if the client disconnected during authentication.
  if (reply.raw.destroyed) end();
  return disconnected.signal;
}

/** The error of a request whose signal was aborted: a disconnect is not an internal error. */
export const toRequestError = (error: unknown, signal: AbortSignal): unknown =>
  signal.aborted ? new ProblemError(408, 'The client disconnected.') : error;

/** The chunks of a file, and how to close their source. */
export interface ChunkSource {
  readonly chunks: AsyncGenerator<Uint8Array>;
  /** Closes the source, even before its end; idempotent. */
  close(): Promise<void>;
}

interface PacingOptions {
  /** Held while a chunk is computed, and not while the client reads it. */
  readonly semaphore: FairSemaphore;
  /** Aborted when the client has disconnected. */
  readonly signal: AbortSignal;
}

interface ResponseChunksOptions extends PacingOptions {
  /** The source is closed when this response ends. */
  readonly reply: Pick<FastifyReply, 'raw'>;
  /** Called with an error after the first chunk, unless the client has disconnected; `note` is the end of a sentence. */
  onError(error: unknown, note: string): void;
}

/**
 * The chunks of a response, computed as fast as the client reads them.
 * @returns once the first chunk is computed, so that errors before it can still become a proper response
 */
export async function openPacedChunks(
  source: ChunkSource,
  { reply, onError, ...pacing }: ResponseChunksOptions,
): Promise<AsyncGenerator<Uint8Array>> {
  const chunks = await paceChunks(source, pacing);
  // A generator that was never started does not run its `finally`.
  const close = (): void => void source.close().catch((error: unknown) => onError(error, 'cannot be closed'));
  reply.raw.once('close', close);
  // The close event has already passed if the client left while the first chunk was computed.
  if (reply.raw.destroyed) close();
  return reportStreamErrors(chunks, (error) => {
    if (!pacing.signal.aborted) onError(error, 'failed before its end');
  });
}

async function* reportStreamErrors(
  chunks: AsyncGenerator<Uint8Array>,
  onError: (error: unknown) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    onError(error);
    throw error;
  }
}

/** Yields chunks as fast as the client reads them, without computing any in advance. */
async function paceChunks(source: ChunkSource, pacing: PacingOptions): Promise<AsyncGenerator<Uint8Array>> {
  const { semaphore, signal } = pacing;
  const next = async () => {
    using _permit = await semaphore.acquire(signal, false);
    return await source.chunks.next();
  };
  let first: IteratorResult<Uint8Array, unknown>;
  try {
    first = await next();
  } catch (error) {
    await source.close();
    throw error;
  }
  return yieldRemainingChunks(first, next, source);
}

async function* yieldRemainingChunks(
  first: IteratorResult<Uint8Array, unknown>,
  next: () => Promise<IteratorResult<Uint8Array, unknown>>,
  source: ChunkSource,
): AsyncGenerator<Uint8Array> {
  try {
    for (let chunk = first; chunk.done !== true; chunk = await next()) yield chunk.value;
  } finally {
    await source.close();
  }
}

/**
 * The body of an HTTP/1.0 response ends when the connection closes. If the response fails, the connection is therefore
 * reset; otherwise an HTTP/1.0 proxy would pass the response on as complete.
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
 * Sends the chunks of a generator; a text is compressed if the client accepts that. An error resets the connection, so
 * that the client detects the incomplete response.
 */
export function sendChunks(
  request: FastifyRequest,
  reply: FastifyReply,
  chunks: AsyncGenerator<Uint8Array>,
): FastifyReply {
  const stream = compressStream(request, reply, () => Readable.from(chunks, { objectMode: true, highWaterMark: 1 }));
  // HEAD has the headers of GET and no body.
  if (stream === null) {
    // Start the generator, so that its `finally` runs; its creator logs errors.
    void chunks
      .next()
      .then(() => chunks.return(undefined))
      .catch(() => {});
    return reply.send(Readable.from([]));
  }
  if (request.raw.httpVersion === '1.0') resetConnection(reply.raw);
  return reply.send(stream);
}
