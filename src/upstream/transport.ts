import { type Dispatcher, Pool } from 'undici';
import type { Clock } from '../core/clock.ts';
import { type AnswerHead, header, judgeConnection, judgeUnreadable } from './classify-error.ts';
import { saidBytesMax, saidIn } from './error-detail.ts';
import { UnreadableAnswer } from './json-response.ts';
import { decompressBody, readBody } from './read-body.ts';
import { Fault } from './request-error.ts';

export interface WireOptions {
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly requestDeadlineMs: number;
  readonly responseBytesMax: number;
}

export interface Answer extends AnswerHead {
  /** Decompressed. */
  readonly bytes: Buffer;
  /** Length of the body as it came. */
  readonly bytesReceived: number;
}

/** One request, one answer: no retries, no redirects. */
export interface Wire {
  /**
   * @param onHead told of the answer's head at once; what it throws is thrown, and the body is let go
   * @throws Fault, or the signal's reason
   */
  get(path: string, signal: AbortSignal, onHead: (head: AnswerHead) => void): Promise<Answer>;
  /** Ends what is under way. */
  close(): Promise<void>;
}

export type OpenWire = (options: WireOptions, clock: Clock) => Wire;

/** Read of an unwanted body; longer ones are cut off with their connection. */
const unwantedBytesMax = 64 * 1024;

export function openWire(options: WireOptions, clock: Clock): Wire {
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

  function late(): Fault {
    const reason = `no whole answer within ${requestDeadlineMs / 1000} s`;
    return new Fault(hasConnected ? 'transient' : 'unreachable', reason);
  }

  async function exchange(path: string, signal: AbortSignal, onHead: (head: AnswerHead) => void): Promise<Answer> {
    const answer = await pool.request({ method: 'GET', path, headers: options.headers, signal });
    const head = { status: answer.statusCode, headers: answer.headers };
    try {
      onHead(head);
    } catch (unwanted) {
      const said = await wordsOf(answer, head);
      if (unwanted instanceof Fault) unwanted.said = said;
      throw unwanted;
    }
    try {
      return { ...head, ...(await readAll(answer, head)) };
    } catch (error) {
      throw error instanceof UnreadableAnswer ? judgeUnreadable(error, head) : error;
    }
  }

  /** What an unwanted body says of the error; read to keep its connection, too. Whatever goes wrong is no matter. */
  async function wordsOf({ body }: Dispatcher.ResponseData, head: AnswerHead): Promise<string | undefined> {
    try {
      const received = await readBody(body, unwantedBytesMax);
      return saidIn(head, await decompressBody(received, header(head, 'content-encoding') ?? '', saidBytesMax));
    } catch {
      return undefined;
    }
  }

  async function readAll({ body }: Dispatcher.ResponseData, head: AnswerHead) {
    const received = await readBody(body, responseBytesMax);
    const bytes = await decompressBody(received, header(head, 'content-encoding') ?? '', responseBytesMax);
    return { bytes, bytesReceived: received.length };
  }

  return {
    async get(path, signal, onHead) {
      try {
        return await withDeadline(requestDeadlineMs, clock, signal, late, (both) => exchange(path, both, onHead));
      } catch (error) {
        signal.throwIfAborted();
        throw error instanceof Fault ? error : (judgeConnection(error) ?? error);
      }
    },
    close: () => pool.destroy(),
  };
}

/** Why a clock is told to wait no longer; nobody sees it. One for all: making one takes longer than waiting. */
const inTime = new Error('there was an answer in time');

/** Runs with a signal that aborts for the outer signal's reason, or for `late()` when `ms` have passed. */
async function withDeadline<T>(
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
    done.abort(inTime);
    outer.removeEventListener('abort', forward);
  }
}
