import type { UnreadableResponseError } from './json-response.ts';
import { AttemptError } from './request-error.ts';
import { parseHttpDate, parseRetryAfterMs } from './retry-after.ts';

/** Head of an answer; names of headers in lower case. */
export interface ResponseHead {
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
export function getHeader(head: ResponseHead, name: string): string | undefined {
  const value = head.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** When an answer left the service or a cache on the way, by its own clock, in epoch ms; null where it does not say. */
export const parseServedAt = (head: ResponseHead): number | null =>
  parseHttpDate(getHeader(head, 'date')?.trim() ?? '') ?? null;

/** Whether the status asks for another try, or for none; undefined for 2xx. `nowMs` is epoch milliseconds. */
export function classifyStatus(head: ResponseHead, nowMs: number): AttemptError | undefined {
  const { status } = head;
  if (status >= 200 && status < 300) return undefined;
  const reason = `answered ${status}`;
  if (status === 401 || status === 403) return new AttemptError('credential', reason, { status });
  if (status >= 300 && status < 400)
    return new AttemptError('refused', `${reason}, ${describeRedirect(head)}`, { status });
  if (status === 429 || status === 503) {
    const pauseMs = parseRetryAfterMs(getHeader(head, 'retry-after'), getHeader(head, 'date'), nowMs);
    const pause = pauseMs === undefined ? {} : { pauseMs: pauseMs + retryAfterGuardMs };
    return new AttemptError('transient', reason, { status, ...pause });
  }
  if (status === 408 || status === 425 || status >= 500) return new AttemptError('transient', reason, { status });
  return new AttemptError('refused', reason, { status });
}

function describeRedirect(head: ResponseHead): string {
  const location = getHeader(head, 'location');
  if (location === undefined) return 'a redirect to nowhere';
  // A query may echo the key, and a cut would keep what is left of it from being recognised.
  const address = location.replace(/[?#].*$/s, '');
  return `a redirect to ${JSON.stringify(address.slice(0, locationCharsMax))}, which is not followed`;
}

/** An answer with a good status and a body that is not what was asked for. */
export function classifyUnreadable(
  error: UnreadableResponseError,
  head: ResponseHead,
  bytes?: Uint8Array,
): AttemptError {
  const isHtml = (getHeader(head, 'content-type') ?? '').includes('html') || startsLikeHtml(bytes);
  const what = isHtml && bytes !== undefined ? 'HTML where JSON was due' : error.message;
  return new AttemptError('transient', `answered ${head.status} with ${what}`, { status: head.status });
}

function startsLikeHtml(bytes: Uint8Array | undefined): boolean {
  return bytes !== undefined && Buffer.from(bytes.subarray(0, 64)).toString('latin1').trimStart().startsWith('<');
}

/** No connection came about; by code of the system, of TLS or of undici. */
const unreachableCodes: Record<string, string> = {
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

const brokenConnectionCodes: Record<string, string> = {
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
export function classifyConnectionError(error: unknown): AttemptError | undefined {
  // undici's, by name: not all of its parser's errors have a code.
  if (error instanceof Error && error.name === 'HTTPParserError')
    return new AttemptError('transient', 'no HTTP in the answer');
  const code = findErrorCode(error);
  if (code === undefined) return undefined;
  if (Object.hasOwn(unreachableCodes, code))
    return new AttemptError('unreachable', unreachableCodes[code]!, { cause: error });
  if (Object.hasOwn(brokenConnectionCodes, code))
    return new AttemptError('transient', brokenConnectionCodes[code]!, { cause: error });
  // Trust is decided before a byte is sent: to us the service is not there.
  if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO_|EPROTO/.test(code)) {
    return new AttemptError('unreachable', `no trusted connection (${code})`, { cause: error });
  }
  return new AttemptError('transient', `connection failed (${code})`);
}

function findErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code === 'string' && code !== '') return code;
  // Several addresses were tried: the first one stands for all.
  return error instanceof AggregateError ? findErrorCode(error.errors[0]) : undefined;
}
