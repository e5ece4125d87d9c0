import { UpstreamError, type UpstreamFailure } from '../base/errors.ts';
import { formatCount } from '../base/format-quantity.ts';
import type { Window } from '../base/window.ts';
import type { UnreadableResponseError } from './response-body.ts';

/** Status and headers of a response. Header names are in lower case. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
}

/**
 * Added to each Retry-After, in ms: its second may have begun before the header was written, and the pause must not end
 * before the service's does.
 */
const retryAfterGuardMs = 25;
const locationCharsMax = 200;

/** The first value of a header. */
export function getHeader(head: ResponseHead, name: string): string | undefined {
  const value = head.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** The Date header of a response, in epoch ms by the clock of the service or of a cache. Null if absent. */
export const parseServedAt = (head: ResponseHead): number | null =>
  parseHttpDate(getHeader(head, 'date')?.trim() ?? '') ?? null;

/** Classifies a status as retryable or final. Undefined for 2xx. `nowMs` is epoch milliseconds. */
export function classifyStatus(head: ResponseHead, nowMs: number): AttemptError | undefined {
  const { status } = head;
  if (status >= 200 && status < 300) return undefined;
  const reason = `HTTP ${status}`;
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
  if (location === undefined) return 'a redirect without a location';
  // A query may contain the key, and a truncated key would not be redacted.
  const address = location.replace(/[?#].*$/s, '');
  return `a redirect to ${JSON.stringify(address.slice(0, locationCharsMax))}, which is not followed`;
}

/** Classifies a response with a success status and an unreadable body. */
export function classifyUnreadable(
  error: UnreadableResponseError,
  head: ResponseHead,
  bytes?: Uint8Array,
): AttemptError {
  const isHtml = (getHeader(head, 'content-type') ?? '').includes('html') || startsLikeHtml(bytes);
  const content = isHtml && bytes !== undefined ? 'HTML instead of JSON' : error.message;
  const attempt = new AttemptError('transient', `HTTP ${head.status} with ${content}`, { status: head.status });
  attempt.detail = error.detail;
  return attempt;
}

function startsLikeHtml(bytes: Uint8Array | undefined): boolean {
  return bytes !== undefined && Buffer.from(bytes.subarray(0, 64)).toString('latin1').trimStart().startsWith('<');
}

/** Error codes of the system or undici that mean that no connection was established. */
const unreachableCodes: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'temporary DNS failure',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  EHOSTDOWN: 'host is down',
  ENETDOWN: 'network is down',
  EADDRNOTAVAIL: 'no local address available',
  UND_ERR_CONNECT_TIMEOUT: 'connection attempt timed out',
};

const brokenConnectionCodes: Record<string, string> = {
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_SOCKET: 'connection closed before the end of the response',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'body length differs from Content-Length',
};

/** The first bytes of the response to a TLS handshake are not TLS. */
const plainHttpCodes: readonly string[] = ['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'];

/**
 * Classifies a connection error. Undefined for any other error, which is a bug. The text never contains the error's
 * message, which may quote transferred data.
 */
export function classifyConnectionError(error: unknown): AttemptError | undefined {
  // undici's error is identified by name: not all of its parser errors have a code.
  if (error instanceof Error && error.name === 'HTTPParserError')
    return new AttemptError('transient', 'invalid HTTP response');
  const code = findErrorCode(error);
  if (code === undefined) return undefined;
  if (Object.hasOwn(unreachableCodes, code))
    return new AttemptError('unreachable', unreachableCodes[code]!, { cause: error });
  if (Object.hasOwn(brokenConnectionCodes, code))
    return new AttemptError('transient', brokenConnectionCodes[code]!, { cause: error });
  if (plainHttpCodes.includes(code))
    return new AttemptError('unreachable', `it answers plain http: use http:// in its address (${code})`, {
      cause: error,
    });
  // Certificates are verified before any data is sent, so the service counts as unreachable.
  if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO_|EPROTO/.test(code)) {
    return new AttemptError('unreachable', `no trusted connection (${code})`, { cause: error });
  }
  return new AttemptError('transient', `connection failed (${code})`);
}

function findErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code === 'string' && code !== '') return code;
  // Several addresses failed: the first one is reported.
  return error instanceof AggregateError ? findErrorCode(error.errors[0]) : undefined;
}

/** Why one attempt of a request failed. Internal to this folder. */
export class AttemptError extends Error {
  readonly failure: UpstreamFailure;
  readonly status: number | undefined;
  /** Pause that the service requested, in ms from now. */
  readonly pauseMs: number | undefined;
  /** The service's own error text. After sanitizing, it may be shown. */
  detail: string | undefined;
  constructor(
    failure: UpstreamFailure,
    reason: string,
    facts: { status?: number; pauseMs?: number; cause?: unknown } = {},
  ) {
    super(reason, 'cause' in facts ? { cause: facts.cause } : {});
    this.name = 'AttemptError';
    this.failure = failure;
    this.status = facts.status;
    this.pauseMs = facts.pauseMs;
  }
}

/** What a request was for, as described in its error. */
export interface RequestSubject {
  /** E.g. `ticks of KXBTC [2026-11-19T00:00:00.000Z, 2026-11-20T00:00:00.000Z)`. */
  readonly describe: () => string;
  readonly symbol?: string;
  readonly window?: Window;
  /** What the reason of every error ends with. */
  readonly note?: string;
}

/** Builds the error of a request from its failed attempts, at least one. Failure and status are those of the last one. */
export function createUpstreamError(
  subject: RequestSubject,
  faults: readonly AttemptError[],
  note?: string,
): UpstreamError {
  const last = faults.at(-1)!;
  const reason = [formatAttempts(faults), note, subject.note].filter((part) => part !== undefined).join('; ');
  const { describe, ...facts } = subject;
  const status = last.status === undefined ? {} : { status: last.status };
  const cause = last.cause === undefined ? {} : { cause: last.cause };
  return new UpstreamError(describe(), { ...facts, ...status, failure: last.failure, reason }, cause);
}

/** Formats e.g. `HTTP 503 ("overloaded"), 2 attempts; connection reset, 1 attempt`. A single attempt has no count. */
function formatAttempts(faults: readonly AttemptError[]): string {
  const kinds = [...Map.groupBy(faults, (fault) => fault.message)];
  return kinds
    .map(([reason, alike]) => {
      const count = faults.length === 1 ? '' : `, ${formatCount(alike.length, 'attempt')}`;
      // The detail of one attempt is shown for all: they often differ only in a request number.
      const detail = alike.findLast((fault) => fault.detail !== undefined)?.detail;
      return `${reason}${detail === undefined ? '' : ` (${JSON.stringify(detail)})`}${count}`;
    })
    .join('; ');
}

/** Maximum size of a body that is searched for an error text. */
export const detailBytesMax = 8 * 1024;
const detailCharsMax = 120;
const depthMax = 4;

/** Members that may hold an error text, in order of preference: those of RFC 9457, and those of common frameworks. */
const detailFieldNames = ['detail', 'title', 'message', 'msg', 'error', 'errors'];

/**
 * Extracts the error text of a response: from a JSON object, or plain text. Undefined if there is none, and always for HTML
 * and redirects.
 */
export function extractErrorDetail(head: ResponseHead, bytes: Uint8Array): string | undefined {
  if (head.status < 400 || bytes.length > detailBytesMax) return undefined;
  const type = (getHeader(head, 'content-type') ?? '').split(';')[0]!.trim().toLowerCase();
  const isJson = /[/+]json$/.test(type);
  if (!isJson && type !== '' && type !== 'text/plain') return undefined;
  const text = decodeUtf8OrUndefined(bytes)?.trim() ?? '';
  const detail = /^[{["]/.test(text) ? findDetailText(parseJsonOrUndefined(text)) : isJson ? undefined : text;
  return detail === undefined || detail === '' || looksLikeHtml(detail) ? undefined : detail;
}

/** Makes an error text safe to show: one line, short, and without the key. */
export function sanitizeErrorDetail(detail: string, apiKey: string): string {
  // The key is removed before the text is truncated, which might leave part of the key, and after control characters,
  // which might hide the key.
  const line = detail
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()
    .replaceAll(apiKey, '[key]');
  const characters = [...line];
  return characters.length <= detailCharsMax ? line : `${characters.slice(0, detailCharsMax).join('')}…`;
}

/** The error text in a parsed body; undefined if there is none. */
export function findDetailText(value: unknown, depth: number = depthMax): string | undefined {
  if (typeof value === 'string') return value.trim() === '' ? undefined : value;
  if (typeof value !== 'object' || value === null || depth === 0) return undefined;
  const members = Array.isArray(value)
    ? value.slice(0, 1)
    : detailFieldNames.map((name) =>
        Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined,
      );
  for (const member of members) {
    const words = findDetailText(member, depth - 1);
    if (words !== undefined) return words;
  }
  return undefined;
}

const looksLikeHtml = (text: string): boolean => text.trimStart().startsWith('<') || /<[/!]?[a-z][^<>]*>/i.test(text);

function decodeUtf8OrUndefined(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function parseJsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Converts a Retry-After header (RFC 9110, 10.2.3), a number of seconds or an HTTP date, to milliseconds from its
 * receipt, rounded up. Undefined if invalid. A date is relative to the Date header of the response, because the clocks
 * may differ by hours; without one, to `nowMs` (epoch milliseconds).
 */
export function parseRetryAfterMs(
  value: string | undefined,
  date: string | undefined,
  nowMs: number,
): number | undefined {
  const text = value?.trim() ?? '';
  // RFC 9110 allows whole seconds only. Some servers send fractions.
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * 1000);
  const until = parseHttpDate(text);
  if (until === undefined) return undefined;
  return Math.max(0, until - (parseHttpDate(date?.trim() ?? '') ?? nowMs));
}

/** Parses the three date formats of RFC 9110, 5.6.7. They are in GMT even if they do not say so. */
export function parseHttpDate(text: string): number | undefined {
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return undefined;
  const time = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
