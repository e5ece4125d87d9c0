import { type Dispatcher, Pool } from 'undici';
import type { Clock } from '../base/ports.ts';
import {
  AttemptError,
  classifyConnectionError,
  classifyUnreadable,
  detailBytesMax,
  extractErrorDetail,
  getHeader,
  type ResponseHead,
} from './classify-error.ts';
import { decompressBody, readBody, UnreadableResponseError } from './response-body.ts';

interface TransportOptions {
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly requestDeadlineMs: number;
  readonly responseBytesMax: number;
}

interface TransportResponse extends ResponseHead {
  /** Decompressed. */
  readonly bytes: Buffer;
  /** Length of the body as received, in bytes. */
  readonly bytesReceived: number;
}

export type OpenTransport = (options: TransportOptions, clock: Clock) => Transport;

/** Maximum size of a discarded body. If it is longer, the connection is closed. */
const discardedBytesMax = 64 * 1024;

/** Sends single requests: no retries, no redirects. */
export type Transport = ReturnType<typeof openTransport>;

export function openTransport(options: TransportOptions, clock: Clock) {
  const { requestDeadlineMs, responseBytesMax } = options;
  // The deadline below covers the full request. undici's timeouts restart with each phase and chunk.
  const pool = new Pool(options.origin, {
    connections: options.connections,
    connect: { timeout: requestDeadlineMs },
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false,
  });
  let hasConnected = false;
  pool.on('connect', () => {
    hasConnected = true;
  });

  function createDeadlineError(): AttemptError {
    const reason = `no complete response within ${requestDeadlineMs / 1000} s`;
    return new AttemptError(hasConnected ? 'transient' : 'unreachable', reason);
  }

  async function exchange(
    path: string,
    signal: AbortSignal,
    onHead: (head: ResponseHead) => void,
  ): Promise<TransportResponse> {
    const response = await pool.request({ method: 'GET', path, headers: options.headers, signal });
    const head = { status: response.statusCode, headers: response.headers };
    try {
      onHead(head);
    } catch (headError) {
      const detail = await readErrorDetail(response, head);
      if (headError instanceof AttemptError) headError.detail = detail;
      throw headError;
    }
    try {
      return { ...head, ...(await readAll(response, head)) };
    } catch (error) {
      throw error instanceof UnreadableResponseError ? classifyUnreadable(error, head) : error;
    }
  }

  /**
   * Extracts the error text from the body of an error response. Reading the body also keeps the connection. Errors are
   * ignored.
   */
  async function readErrorDetail({ body }: Dispatcher.ResponseData, head: ResponseHead): Promise<string | undefined> {
    try {
      const received = await readBody(body, discardedBytesMax);
      return extractErrorDetail(
        head,
        await decompressBody(received, getHeader(head, 'content-encoding') ?? '', detailBytesMax),
      );
    } catch {
      return undefined;
    }
  }

  async function readAll({ body }: Dispatcher.ResponseData, head: ResponseHead) {
    const received = await readBody(body, responseBytesMax);
    const bytes = await decompressBody(received, getHeader(head, 'content-encoding') ?? '', responseBytesMax);
    return { bytes, bytesReceived: received.length };
  }

  return {
    /**
     * @param onHead called with the response head. If it throws, the error is thrown and the body discarded
     * @throws AttemptError, or the signal's reason
     */
    async get(path: string, signal: AbortSignal, onHead: (head: ResponseHead) => void): Promise<TransportResponse> {
      try {
        return await runWithDeadline(requestDeadlineMs, clock, signal, createDeadlineError, (joined) =>
          exchange(path, joined, onHead),
        );
      } catch (error) {
        signal.throwIfAborted();
        throw error instanceof AttemptError ? error : (classifyConnectionError(error) ?? error);
      }
    },
    /** Aborts all requests. */
    close: () => pool.destroy(),
  };
}

/** Abort reason of the deadline timer. Shared, because creating an error takes longer than the timer. */
const completedInTime = new Error('completed in time');

/** Runs with a signal that aborts with the outer signal's reason, or with `late()` after `ms`. */
async function runWithDeadline<T>(
  ms: number,
  clock: Clock,
  outer: AbortSignal,
  late: () => Error,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  outer.throwIfAborted();
  const stop = new AbortController();
  const done = new AbortController();
  const forward = () => stop.abort(outer.reason);
  outer.addEventListener('abort', forward, { once: true });
  clock.sleep(ms, done.signal).then(
    () => stop.abort(late()),
    () => {},
  );
  try {
    return await run(stop.signal);
  } finally {
    done.abort(completedInTime);
    outer.removeEventListener('abort', forward);
  }
}
