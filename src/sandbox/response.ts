import { paths as service } from '../contract/paths.ts';

/** A complete response before it is sent, so that faults can truncate it. */
export interface SandboxResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Usable ticks in the body, duplicates included. */
  readonly rows?: number;
  /** Retry-After of the response, milliseconds from now. */
  readonly holdMs?: number;
}

const statusTitles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  425: 'Too Early',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
};

export function createJsonResponse(body: string, rows = 0): SandboxResponse {
  return { status: 200, headers: { 'content-type': 'application/json' }, body, rows };
}

/** An error as problem details (RFC 9457). */
export function createProblem(
  status: number,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): SandboxResponse {
  const body = JSON.stringify({ type: 'about:blank', title: statusTitles[status] ?? 'Error', status, detail });
  return { status, headers: { 'content-type': 'application/problem+json', ...headers }, body };
}

/**
 * A problem with a Retry-After of `waitMs`, rounded up to whole seconds; as a date (RFC 9110) it is the first whole
 * second after it.
 */
export function createRetryAfterProblem(
  status: number,
  waitMs: number,
  form: 'seconds' | 'date' | 'none',
  nowMs: number,
): SandboxResponse {
  const detail = 'slow down';
  if (form === 'none') return createProblem(status, detail);
  if (form === 'seconds') {
    const seconds = Math.max(1, Math.ceil(waitMs / 1000));
    return { ...createProblem(status, detail, { 'retry-after': String(seconds) }), holdMs: seconds * 1000 };
  }
  const untilMs = Math.ceil((nowMs + waitMs) / 1000) * 1000;
  return {
    ...createProblem(status, detail, { 'retry-after': new Date(untilMs).toUTCString() }),
    holdMs: untilMs - nowMs,
  };
}

/** Routes of the sandbox: the read routes of the service interface, and one of its own. */
export const sandboxPaths = {
  markets: service.markets,
  ticks: service.ticks,
  orderbook: service.orderbook,
  /** Counters of this sandbox. Needs no key and is never counted, limited or faulted. */
  stats: '/sandbox/stats',
} as const;
