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
import { UnreadableResponseError } from './json-response.ts';
import { decompressBody, readBody } from './read-body.ts';

export interface TransportOptions {
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly requestDeadlineMs: number;
  readonly responseBytesMax: number;
}

export interface TransportResponse extends ResponseHead {
  /** Decompressed. */
  readonly bytes: Buffer;
  /** Length of the body as it came. */
  readonly bytesReceived: number;
}

/** One request, one answer: no retries, no redirects. */
export interface Transport {
  /**
   * @param onHead told of the answer's head at once; what it throws is thrown, and the body is let go
   * @throws Fault, or the signal's reason
   */
  get(path: string, signal: AbortSignal, onHead: (head: ResponseHead) => void): Promise<TransportResponse>;
  /** Ends what is under way. */
  close(): Promise<void>;
}

export type OpenTransport = (options: TransportOptions, clock: Clock) => Transport;

/** Read of an unwanted body; longer ones are cut off with their connection. */
const unwantedBytesMax = 64 * 1024;

export function openTransport(options: TransportOptions, clock: Clock): Transport {
  const { requestDeadlineMs, responseBytesMax } = options;
  // The deadline below covers everything; undici's own clocks start anew with each phase and each chunk.
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

  function late(): AttemptError {
    const reason = `no whole answer within ${requestDeadlineMs / 1000} s`;
    return new AttemptError(hasConnected ? 'transient' : 'unreachable', reason);
  }

  async function exchange(
    path: string,
    signal: AbortSignal,
    onHead: (head: ResponseHead) => void,
  ): Promise<TransportResponse> {
    const answer = await pool.request({ method: 'GET', path, headers: options.headers, signal });
    const head = { status: answer.statusCode, headers: answer.headers };
    try {
      onHead(head);
    } catch (unwanted) {
      const said = await wordsOf(answer, head);
      if (unwanted instanceof AttemptError) unwanted.detail = said;
      throw unwanted;
    }
    try {
      return { ...head, ...(await readAll(answer, head)) };
    } catch (error) {
      throw error instanceof UnreadableResponseError ? classifyUnreadable(error, head) : error;
    }
  }

  /** What an unwanted body says of the error; read to keep its connection, too. Whatever goes wrong is no matter. */
  async function wordsOf({ body }: Dispatcher.ResponseData, head: ResponseHead): Promise<string | undefined> {
    try {
      const received = await readBody(body, unwantedBytesMax);
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
    async get(path, signal, onHead) {
      try {
        return await runWithDeadline(requestDeadlineMs, clock, signal, late, (both) => exchange(path, both, onHead));
      } catch (error) {
        signal.throwIfAborted();
        throw error instanceof AttemptError ? error : (classifyConnectionError(error) ?? error);
      }
    },
    close: () => pool.destroy(),
  };
}

/** Why a clock is told to wait no longer; nobody sees it. One for all: making one takes longer than waiting. */
const completedInTime = new Error('there was an answer in time');

/** Runs with a signal that aborts for the outer signal's reason, or for `late()` when `ms` have passed. */
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
