import { UpstreamError, type UpstreamFailure } from '../base/errors.ts';
import type { Window } from '../base/window.ts';
import type { UnreadableResponseError } from './json-response.ts';

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

/** Why one try of a request brought nothing usable. Thrown within this folder, never out of it. */
export class AttemptError extends Error {
  readonly failure: UpstreamFailure;
  readonly status: number | undefined;
  /** The service asked for a pause of this many milliseconds from now on. */
  readonly pauseMs: number | undefined;
  /** What the service said about it, in its own words; once weighed, fit to be shown. */
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

/** What a request was about, for its error. */
export interface RequestSubject {
  /** E.g. `ticks of KXBTC [2026-11-19T00:00:00.000Z, 2026-11-20T00:00:00.000Z)`. */
  readonly describe: () => string;
  readonly symbol?: string;
  readonly window?: Window;
}

/** Sums up the tries of one request, of which there is at least one; the last one gives failure and status. */
export function createUpstreamError(
  subject: RequestSubject,
  faults: readonly AttemptError[],
  note?: string,
): UpstreamError {
  const last = faults.at(-1)!;
  const reason = [formatAttempts(faults), ...(note === undefined ? [] : [note])].join('; ');
  const { describe, ...facts } = subject;
  const status = last.status === undefined ? {} : { status: last.status };
  const cause = last.cause === undefined ? {} : { cause: last.cause };
  return new UpstreamError(describe(), { ...facts, ...status, failure: last.failure, reason }, cause);
}

/** `answered 503 twice ("overloaded"), connection reset once`; a single try needs no count. */
function formatAttempts(faults: readonly AttemptError[]): string {
  const kinds = [...Map.groupBy(faults, (fault) => fault.message)];
  return kinds
    .map(([reason, alike]) => {
      const count = faults.length === 1 ? '' : ` ${formatTimes(alike.length)}`;
      // The words of one stand for all: they often differ by no more than a number of the request.
      const said = alike.findLast((fault) => fault.detail !== undefined)?.detail;
      return `${reason}${count}${said === undefined ? '' : ` (${JSON.stringify(said)})`}`;
    })
    .join(', ');
}

const timesWords = [
  'never',
  'once',
  'twice',
  ...['three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'].map((n) => `${n} times`),
];

const formatTimes = (count: number): string => timesWords[count] ?? `${count} times`;

/** Longest body in which an error's own words are looked for. */
export const detailBytesMax = 8 * 1024;
const detailCharsMax = 120;
const depthMax = 4;

/** Members that hold words for people, best first: RFC 9457, and what frameworks write in its place. */
const detailFieldNames = ['detail', 'title', 'message', 'msg', 'error', 'errors'];

/**
 * What the body of an error answer says: the words of a JSON object, or plain text. Undefined where it says nothing,
 * and always for HTML and redirects.
 */
export function extractErrorDetail(head: ResponseHead, bytes: Uint8Array): string | undefined {
  if (head.status < 400 || bytes.length > detailBytesMax) return undefined;
  const type = (getHeader(head, 'content-type') ?? '').split(';')[0]!.trim().toLowerCase();
  const isJson = /[/+]json$/.test(type);
  if (!isJson && type !== '' && type !== 'text/plain') return undefined;
  const text = decodeUtf8OrUndefined(bytes)?.trim() ?? '';
  const said = /^[{["]/.test(text) ? findDetailText(parseJsonOrUndefined(text), depthMax) : isJson ? undefined : text;
  return said === undefined || said === '' || looksLikeHtml(said) ? undefined : said;
}

/** Fit to be shown: one line, without the key, and short. */
export function sanitizeErrorDetail(said: string, apiKey: string): string {
  // Before the cut, which might leave a piece of the key; after the control characters, which might have hidden it.
  const line = said
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()
    .replaceAll(apiKey, '[key]');
  const characters = [...line];
  return characters.length <= detailCharsMax ? line : `${characters.slice(0, detailCharsMax).join('')}…`;
}

function findDetailText(value: unknown, depth: number): string | undefined {
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
 * Milliseconds that a Retry-After header asks to wait from its receipt, rounded up; undefined where it says nothing
 * usable. RFC 9110, 10.2.3: a number of seconds or an HTTP-date. A date is measured against the answer's own Date
 * header, for the two machines' clocks may be hours apart; without one, against `nowMs` (epoch milliseconds).
 */
export function parseRetryAfterMs(
  value: string | undefined,
  date: string | undefined,
  nowMs: number,
): number | undefined {
  const text = value?.trim() ?? '';
  // Whole seconds by the RFC; some servers send fractions.
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * 1000);
  const until = parseHttpDate(text);
  if (until === undefined) return undefined;
  return Math.max(0, until - (parseHttpDate(date?.trim() ?? '') ?? nowMs));
}

/** The three date formats of RFC 9110, 5.6.7, all in GMT whether they say so or not. */
export function parseHttpDate(text: string): number | undefined {
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return undefined;
  const time = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
