import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { DamageError, UsageError } from '../../base/errors.ts';
import type { Log } from '../../base/ports.ts';
import {
  findDefaultProblemCode,
  findProblemTitle,
  type Problem,
  type ProblemCode,
  problemErrorsMax,
  problemKinds,
  problemType,
  toProblemType,
} from '../../contract/problem.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';
import type { ServiceContext } from './service-context.ts';

interface ProblemOptions {
  /** A code of this status; the default of the status if absent. */
  readonly code?: ProblemCode;
  readonly errors?: Problem['errors'];
  readonly headers?: Readonly<Record<string, string>>;
}

/** An error response. All other errors are reported to clients only as internal errors. */
export class ProblemError extends Error {
  readonly status: number;
  readonly code: ProblemCode;
  readonly errors: Problem['errors'];
  readonly headers: Readonly<Record<string, string>>;
  constructor(status: number, detail: string, rest: ProblemOptions = {}) {
    super(detail);
    this.name = 'ProblemError';
    this.status = status;
    this.code = rest.code ?? findDefaultProblemCode(status);
    this.errors = rest.errors;
    this.headers = rest.headers ?? {};
  }
}

/** The body of an error. */
export function createProblem(
  status: number,
  detail?: string,
  { code = findDefaultProblemCode(status), errors }: Omit<ProblemOptions, 'headers'> = {},
): Problem {
  return {
    type: toProblemType(code),
    code,
    title: findProblemTitle(problemKinds[code].status),
    status,
    ...(detail === undefined ? {} : { detail }),
    ...(errors === undefined ? {} : { errors: errors.slice(0, problemErrorsMax) }),
  };
}

/** Sends an error as problem+json. Details of internal errors are logged and not sent. */
export function sendProblem(log: Log, error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const problem = toProblem(error);
  if (problem.status >= 500 && !(error instanceof ProblemError)) {
    const facts = { err: error, request_id: request.id, method: request.method, route: request.routeOptions.url };
    log.error(facts, 'a request failed');
  }
  // Remove headers that were set for the intended response.
  for (const name of ['etag', 'content-length', 'content-encoding', 'content-disposition', 'accept-ranges'])
    reply.removeHeader(name);
  reply.header('cache-control', 'no-store');
  if (error instanceof ProblemError) reply.headers(error.headers);
  if (error instanceof WorkspaceUnavailableError) reply.header('retry-after', '5');
  return reply.code(problem.status).type(problemType).send(JSON.stringify(problem));
}

/** Messages for framework errors, because the framework's own messages expose internals. */
const frameworkErrors: Readonly<Record<string, readonly [status: number, detail: string]>> = {
  FST_ERR_BAD_URL: [400, 'The path is not percent-encoded UTF-8.'],
  FST_ERR_MAX_PARAM_LENGTH: [414, 'A segment of the path is too long.'],
  FST_ERR_CTP_BODY_TOO_LARGE: [413, 'The body is too large.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [415, 'The Content-Type of a body must be application/json.'],
  FST_ERR_CTP_EMPTY_JSON_BODY: [400, 'The body is empty.'],
  FST_ERR_CTP_INVALID_JSON_BODY: [400, 'The body is not JSON.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [400, 'The length of the body differs from Content-Length.'],
};

function toProblem(error: unknown): Problem {
  if (error instanceof ProblemError) return createProblem(error.status, error.message, error);
  if (error instanceof UsageError) return createProblem(400, error.message);
  if (error instanceof DamageError)
    return createProblem(
      503,
      'The requested data is damaged in the archive. It is not served until the archive is repaired.',
      { code: 'damaged_data' },
    );
  if (error instanceof WorkspaceUnavailableError)
    return createProblem(503, 'The database of credentials and jobs is unavailable at the moment. Try again.', {
      code: 'database_unavailable',
    });
  const { validation, validationContext, statusCode = 500, code } = (error ?? {}) as FastifyError;
  if (validation !== undefined) {
    const errors = validation.slice(0, problemErrorsMax).map(({ instancePath, params, message, keyword }) => {
      const name = toFieldName(instancePath, params);
      return { name, reason: formatValidationReason(name, keyword, params, message) };
    });
    return createProblem(400, `The ${requestParts[validationContext ?? ''] ?? 'request'} is invalid.`, {
      code: validationContext === 'body' ? 'invalid_body' : 'invalid_parameter',
      errors,
    });
  }
  const [status, detail] = frameworkErrors[code] ?? [];
  if (status !== undefined)
    return createProblem(
      status,
      detail,
      status === 400 && code.startsWith('FST_ERR_CTP_') ? { code: 'invalid_body' } : {},
    );
  if (error instanceof SyntaxError && statusCode === 400)
    return createProblem(400, 'The body is not acceptable JSON.', { code: 'invalid_body' });
  if (statusCode >= 400 && statusCode < 500) return createProblem(statusCode);
  return createProblem(500, 'Internal error. You can retry the request.');
}

function formatValidationReason(
  name: string,
  keyword: string,
  params: Record<string, unknown>,
  message = 'is not valid',
): string {
  if (keyword === 'required') return 'is missing';
  if (keyword === 'type' && params.type === 'integer')
    return name === 'from' || name === 'to' ? 'must be a whole number, epoch milliseconds' : 'must be a whole number';
  if (keyword === 'additionalProperties') return 'is unknown';
  if (keyword === 'enum' && Array.isArray(params.allowedValues))
    return `must be one of ${params.allowedValues.join(', ')}`;
  return message;
}

const requestParts: Readonly<Record<string, string>> = {
  querystring: 'query',
  params: 'path',
  body: 'body',
  headers: 'set of headers',
};

function toFieldName(instancePath: string, params: Record<string, unknown>): string {
  const inner = params.missingProperty ?? params.additionalProperty;
  const parts = [...instancePath.split('/').slice(1), ...(inner === undefined ? [] : [String(inner)])];
  // The notation of all field names: rules[0].entry.
  return parts.reduce((at, part) => (at === '' ? part : /^\d+$/.test(part) ? `${at}[${part}]` : `${at}.${part}`), '');
}

// Errors that several routes share.

/** @throws ProblemError 400 if both ends are given and the window is empty */
export function requireWindow(from: number | null | undefined, to: number | null | undefined): void {
  if (from == null || to == null || from < to) return;
  throw new ProblemError(400, 'The window is empty: from must be before to.', {
    code: 'empty_window',
    errors: [{ name: 'from', reason: 'must be before to' }],
  });
}

/** 422 for an idempotency key that was used with another request. */
export const createIdempotencyConflictError = (): ProblemError =>
  new ProblemError(422, 'This Idempotency-Key was used with another body. Send a new one.', {
    code: 'idempotency_conflict',
  });

/** 404 for a symbol that the archive does not know. */
export const createUnknownSymbolError = (): ProblemError =>
  new ProblemError(404, 'The archive does not know this symbol. Search by words with /api/v1/historical/markets?q=', {
    code: 'unknown_symbol',
    errors: [{ name: 'symbol', reason: 'is unknown' }],
  });

/** 400 for `csv_safe` with another format. */
export const createNotCsvError = (): ProblemError =>
  new ProblemError(400, 'Only CSV can be made safe for spreadsheets: omit csv_safe, or request format csv.', {
    code: 'invalid_parameter',
    errors: [{ name: 'csv_safe', reason: 'requires format csv' }],
  });

/** 400 for a parameter of pages in a request for a file. */
export const createNotPagedError = (name: 'cursor' | 'limit'): ProblemError =>
  new ProblemError(400, `Only JSON has pages: omit the ${name}.`, {
    code: 'invalid_parameter',
    errors: [{ name, reason: 'requires format json' }],
  });

/** Content-Security-Policy of responses that are not pages. It forbids the browser to execute or embed them. */
const apiContentSecurityPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Content-Security-Policy of our pages: scripts, styles, images and requests only from this service. */
export const pageContentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Headers of every response. @param id the request ID */
export const createCommonHeaders = (id: string): Readonly<Record<string, string>> => ({
  'x-request-id': id,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': apiContentSecurityPolicy,
  // Responses are for the holder of the credential only; a route may override this.
  'cache-control': 'no-store',
});

/** Adds `authorization` to the Vary header of a response that depends on the credential. */
export function setVary(request: FastifyRequest, reply: FastifyReply): void {
  if (request.routeOptions.config?.access !== 'open') addVary(reply, 'authorization');
}

/** Adds a header name, in lower case, to the Vary header. */
export function addVary(reply: FastifyReply, name: string): void {
  const before = reply.getHeader('vary');
  if (before === undefined) {
    reply.header('vary', name);
    return;
  }
  const names = String(before)
    .split(',')
    .map((one) => one.trim().toLowerCase());
  if (!names.includes(name)) reply.header('vary', [...names, name].join(', '));
}

/**
 * Throws 503 if the archive's state database was removed or replaced since it was opened. Other processes then write to
 * the new one, and this process would serve outdated state forever.
 */
export function requireLocalState({ archive }: Pick<ServiceContext, 'archive'>): void {
  if (archive.state.isFileCurrent()) return;
  throw new ProblemError(
    503,
    'The state of the archive was removed or replaced while the service ran. The operator must restart the service.',
  );
}
