import { STATUS_CODES } from 'node:http';
import { drawAt } from '../base/random.ts';
import { paths as service } from '../contract/paths.ts';
import type { FaultKind, SandboxOptions } from './sandbox-options.ts';

/** A complete response before it is sent, so that faults can truncate it. */
export interface SandboxResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Usable ticks in the body, duplicates included. */
  readonly rows?: number;
  /** Retry-After of the response, milliseconds from now. */
  readonly retryAfterMs?: number;
}

export function createJsonResponse(body: string, rows = 0): SandboxResponse {
  return { status: 200, headers: { 'content-type': 'application/json' }, body, rows };
}

/** An error as problem details (RFC 9457). */
export function createProblem(
  status: number,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): SandboxResponse {
  const body = JSON.stringify({ type: 'about:blank', title: STATUS_CODES[status], status, detail });
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
    return { ...createProblem(status, detail, { 'retry-after': String(seconds) }), retryAfterMs: seconds * 1000 };
  }
  const untilMs = Math.ceil((nowMs + waitMs) / 1000) * 1000;
  return {
    ...createProblem(status, detail, { 'retry-after': new Date(untilMs).toUTCString() }),
    retryAfterMs: untilMs - nowMs,
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

export type RouteName = 'markets' | 'ticks' | 'orderbook';

/** The fault of the nth request, determined by the seed. Kinds that do not apply to the resource are skipped. */
export function drawFault(
  n: number,
  resource: RouteName,
  options: Pick<SandboxOptions, 'seed' | 'faultShare' | 'faults'>,
) {
  if (options.faultShare === 0 || drawAt(options.seed ^ 0x0fa17, n) >= options.faultShare) return undefined;
  const kinds = options.faults.filter(
    (kind) =>
      (kind !== 'wrong-symbol' || resource !== 'markets') && (kind !== 'wrong-count' || resource !== 'orderbook'),
  );
  return kinds[Math.floor(drawAt(options.seed ^ 0x0c1d, n) * kinds.length)];
}

/** The same bytes without the last one, which closes the JSON. */
export function garbleBody(reply: SandboxResponse): SandboxResponse {
  return { ...reply, body: reply.body.replace(/\}$/, ']'), rows: 0 };
}

const emptyLists = { ticks: [], markets: [], bids: [], asks: [] };

/** An error with status 200, which looks like an empty response of any route. */
export const createErrorAsSuccess = (): SandboxResponse =>
  createJsonResponse(JSON.stringify({ error: 'the backend timed out', ...emptyLists, count: 0, total: 0 }));

/** The response that a fault puts in place of the correct one; undefined for other faults. */
export function createFaultResponse(fault: FaultKind | undefined, nowMs: number): SandboxResponse | undefined {
  switch (fault) {
    case '429-seconds':
      return createRetryAfterProblem(429, 1000, 'seconds', nowMs);
    case '429-date':
      return createRetryAfterProblem(429, 1000, 'date', nowMs);
    case '503':
      return createRetryAfterProblem(503, 1000, 'seconds', nowMs);
    case '408':
    case '425':
    case '500':
    case '502':
    case '504':
      return createProblem(Number(fault), 'injected fault');
    case 'html':
      return {
        status: 200,
        headers: { 'content-type': 'text/html' },
        body: '<!doctype html><title>One moment</title>\n',
      };
    case 'error-200':
      return createErrorAsSuccess();
    case 'bare-200':
      return createJsonResponse(JSON.stringify(emptyLists));
    default:
      return undefined;
  }
}

/** A route's response with the changes of `reshape` applied; see SandboxOptions. */
export function reshapeResponse(
  route: RouteName,
  reply: SandboxResponse,
  { reshape }: SandboxOptions,
): SandboxResponse {
  const changes = Object.entries(reshape).filter(([field]) => field.startsWith(`${route}:`));
  if (changes.length === 0 || reply.status !== 200) return reply;
  const body: unknown = JSON.parse(reply.body);
  for (const [field, change] of changes) changeField(body, field.slice(route.length + 1).split('/'), change);
  return { ...reply, body: JSON.stringify(body) };
}

function changeField(value: unknown, [name, ...rest]: string[], change: string): void {
  if (typeof value !== 'object' || value === null || name === undefined) return;
  const members = value as Record<string, unknown>;
  for (const key of name === '*' ? Object.keys(members) : [name]) {
    if (!Object.hasOwn(members, key)) continue;
    if (rest.length > 0) changeField(members[key], rest, change);
    else if (change === 'null') members[key] = null;
    else if (change === 'text') members[key] = String(members[key]);
    else {
      if (change.startsWith('=')) members[change.slice(1)] = members[key];
      delete members[key];
    }
  }
}
