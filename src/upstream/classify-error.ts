import type { UnreadableAnswer } from './json-response.ts';
import { Fault } from './request-error.ts';
import { parseHttpDate, retryAfterMs } from './retry-after.ts';

/** Head of an answer; names of headers in lower case. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
}

/**
 * Added to every Retry-After: its second may have begun before the header was written, and ours must not end before the
 * service's does.
 */
const retryAfterGuardMs = 25;
const locationCharsMax = 200;

/** The first value of a header. */
export function header(head: AnswerHead, name: string): string | undefined {
  const value = head.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** When an answer left the service or a cache on the way, by its own clock, in epoch ms; null where it does not say. */
export const servedAt = (head: AnswerHead): number | null => parseHttpDate(header(head, 'date')?.trim() ?? '') ?? null;

/** Whether the status asks for another try, or for none; undefined for 2xx. `nowMs` is epoch milliseconds. */
export function judgeStatus(head: AnswerHead, nowMs: number): Fault | undefined {
  const { status } = head;
  if (status >= 200 && status < 300) return undefined;
  const reason = `answered ${status}`;
  if (status === 401 || status === 403) return new Fault('credential', reason, { status });
  if (status >= 300 && status < 400) return new Fault('refused', `${reason}, ${whereTo(head)}`, { status });
  if (status === 429 || status === 503) {
    const pauseMs = retryAfterMs(header(head, 'retry-after'), header(head, 'date'), nowMs);
    const pause = pauseMs === undefined ? {} : { pauseMs: pauseMs + retryAfterGuardMs };
    return new Fault('transient', reason, { status, ...pause });
  }
  if (status === 408 || status === 425 || status >= 500) return new Fault('transient', reason, { status });
  return new Fault('refused', reason, { status });
}

function whereTo(head: AnswerHead): string {
  const location = header(head, 'location');
  if (location === undefined) return 'a redirect to nowhere';
  // A query may echo the key, and a cut would keep what is left of it from being recognised.
  const address = location.replace(/[?#].*$/s, '');
  return `a redirect to ${JSON.stringify(address.slice(0, locationCharsMax))}, which is not followed`;
}

/** An answer with a good status and a body that is not what was asked for. */
export function judgeUnreadable(error: UnreadableAnswer, head: AnswerHead, bytes?: Uint8Array): Fault {
  const isHtml = (header(head, 'content-type') ?? '').includes('html') || startsLikeHtml(bytes);
  const what = isHtml && bytes !== undefined ? 'HTML where JSON was due' : error.message;
  return new Fault('transient', `answered ${head.status} with ${what}`, { status: head.status });
}

function startsLikeHtml(bytes: Uint8Array | undefined): boolean {
  return bytes !== undefined && Buffer.from(bytes.subarray(0, 64)).toString('latin1').trimStart().startsWith('<');
}

/** No connection came about; by code of the system, of TLS or of undici. */
const unreachable: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not found for now',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  EHOSTDOWN: 'host is down',
  ENETDOWN: 'network is down',
  EADDRNOTAVAIL: 'no local address left',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
};

const broken: Record<string, string> = {
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_SOCKET: 'connection closed before the answer was whole',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'a body of another length than stated',
};

/**
 * An error of the connection rather than an answer; undefined for what is no such error, but a mistake of ours. Codes
 * are named and messages are not: they may quote what went over the wire.
 */
export function judgeConnection(error: unknown): Fault | undefined {
  // undici's, by name: not all of its parser's errors have a code.
  if (error instanceof Error && error.name === 'HTTPParserError')
    return new Fault('transient', 'no HTTP in the answer');
  const code = errorCode(error);
  if (code === undefined) return undefined;
  if (Object.hasOwn(unreachable, code)) return new Fault('unreachable', unreachable[code]!, { cause: error });
  if (Object.hasOwn(broken, code)) return new Fault('transient', broken[code]!, { cause: error });
  // Trust is decided before a byte is sent: to us the service is not there.
  if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO_|EPROTO/.test(code)) {
    return new Fault('unreachable', `no trusted connection (${code})`, { cause: error });
  }
  return new Fault('transient', `connection failed (${code})`);
}

function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code === 'string' && code !== '') return code;
  // Several addresses were tried: the first one stands for all.
  return error instanceof AggregateError ? errorCode(error.errors[0]) : undefined;
}
