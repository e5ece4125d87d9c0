import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { DamageError, UsageError } from '../../base/errors.ts';
import type { Log } from '../../base/ports.ts';
import { type Problem, problemErrorsMax, problemType } from '../../contract/problem.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';
import type { ServiceContext } from './context.ts';

/** An answer that is an error; what is thrown as anything else tells the client nothing but that it was ours. */
export class ProblemError extends Error {
  readonly status: number;
  readonly errors: Problem['errors'];
  readonly headers: Readonly<Record<string, string>>;
  constructor(
    status: number,
    detail: string,
    rest: { readonly errors?: Problem['errors']; readonly headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(detail);
    this.name = 'ProblemError';
    this.status = status;
    this.errors = rest.errors;
    this.headers = rest.headers ?? {};
  }
}

const problemTitles: Readonly<Record<number, string>> = {
  400: 'Bad request',
  401: 'Credential missing or bad',
  403: 'Not allowed',
  404: 'Not found',
  405: 'Method not allowed',
  406: 'Not acceptable',
  408: 'Request timeout',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition failed',
  413: 'Content too large',
  414: 'URI too long',
  415: 'Unsupported media type',
  416: 'Range not satisfiable',
  417: 'Expectation failed',
  422: 'Unprocessable content',
  429: 'Too many requests',
  431: 'Request header fields too large',
  500: 'Internal error',
  501: 'Not implemented',
  503: 'Service unavailable',
};

/** The body of an error; without a detail its title says all. */
export const createProblem = (status: number, detail?: string, errors?: Problem['errors']): Problem => ({
  type: 'about:blank',
  title: problemTitles[status] ?? 'Error',
  status,
  ...(detail === undefined ? {} : { detail }),
  ...(errors === undefined ? {} : { errors: errors.slice(0, problemErrorsMax) }),
});

/** Sends what was thrown as problem+json. Nothing of an error that is ours reaches the client: it is in the log. */
export function sendProblem(log: Log, error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const problem = toProblem(error);
  if (problem.status >= 500 && !(error instanceof ProblemError)) {
    const facts = { err: error, request_id: request.id, method: request.method, route: request.routeOptions.url };
    log.error(facts, 'a request failed');
  }
  // What was set for the answer that was not to be says nothing of this one.
  for (const name of ['etag', 'content-length', 'content-encoding', 'content-disposition', 'accept-ranges'])
    reply.removeHeader(name);
  reply.header('cache-control', 'no-store');
  if (error instanceof ProblemError) reply.headers(error.headers);
  if (error instanceof WorkspaceUnavailableError) reply.header('retry-after', '5');
  return reply.code(problem.status).type(problemType).send(JSON.stringify(problem));
}

/** What the framework refuses, in our words: its own tell of its insides. */
const frameworkErrors: Readonly<Record<string, readonly [status: number, detail: string]>> = {
  FST_ERR_BAD_URL: [400, 'The path is not percent-encoded UTF-8.'],
  FST_ERR_MAX_PARAM_LENGTH: [414, 'A part of the path is longer than any that there is.'],
  FST_ERR_CTP_BODY_TOO_LARGE: [413, 'The body is larger than the service takes.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [415, 'A body is sent as application/json.'],
  FST_ERR_CTP_EMPTY_JSON_BODY: [400, 'The body is empty.'],
  FST_ERR_CTP_INVALID_JSON_BODY: [400, 'The body is not JSON.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [400, 'The body is not as long as the request says.'],
};

function toProblem(error: unknown): Problem {
  if (error instanceof ProblemError) return createProblem(error.status, error.message, error.errors);
  if (error instanceof UsageError) return createProblem(400, error.message);
  if (error instanceof DamageError)
    return createProblem(503, 'What was asked for is damaged in the archive and is not served until it is repaired.');
  if (error instanceof WorkspaceUnavailableError)
    return createProblem(
      503,
      'What the service keeps of credentials and jobs cannot be asked at the moment; try again.',
    );
  const { validation, validationContext, statusCode = 500, code } = (error ?? {}) as FastifyError;
  if (validation !== undefined) {
    const errors = validation.slice(0, problemErrorsMax).map(({ instancePath, params, message, keyword }) => {
      const name = toFieldName(instancePath, params);
      return { name, reason: formatValidationReason(name, keyword, params, message) };
    });
    return createProblem(
      400,
      `The ${requestParts[validationContext ?? ''] ?? 'request'} is not as documented.`,
      errors,
    );
  }
  const [status, detail] = frameworkErrors[code] ?? [];
  if (status !== undefined) return createProblem(status, detail);
  if (error instanceof SyntaxError && statusCode === 400)
    return createProblem(400, 'The body is not JSON that is taken.');
  if (statusCode >= 400 && statusCode < 500) return createProblem(statusCode);
  return createProblem(500, 'Something went wrong here; the request may be tried again.');
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
  if (keyword === 'additionalProperties') return 'is not known here';
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
  // As everywhere where a field is named: rules[0].entry.
  return parts.reduce((at, part) => (at === '' ? part : /^\d+$/.test(part) ? `${at}[${part}]` : `${at}.${part}`), '');
}

// What several routes refuse, in the same words.

/** @throws ProblemError 400 where both ends are given and the window holds nothing */
export function requireWindow(from: number | null | undefined, to: number | null | undefined): void {
  if (from == null || to == null || from < to) return;
  throw new ProblemError(400, 'The window is empty: from must be before to.', {
    errors: [{ name: 'from', reason: 'must be before to' }],
  });
}

/** 404 for a symbol that the archive has never heard of. */
export const createUnknownSymbolError = (): ProblemError =>
  new ProblemError(404, 'No such symbol is known here. /api/v1/historical/markets?q= looks for ones by words.', {
    errors: [{ name: 'symbol', reason: 'is not known' }],
  });

/** What a browser may do with an answer that is no page: nothing. */
const apiContentSecurityPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** For pages of our own: their scripts, styles, images and requests are this service's. */
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

/** Headers of every answer. @param id a name for the request */
export const createCommonHeaders = (id: string): Readonly<Record<string, string>> => ({
  'x-request-id': id,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': apiContentSecurityPolicy,
  // What a credential was asked for is for its holder; a route that knows better says so.
  'cache-control': 'no-store',
});

/** Names what an answer depended on, beside what its route named. */
export function setVary(request: FastifyRequest, reply: FastifyReply): void {
  if (request.routeOptions.config?.access === 'open') return;
  const named = String(reply.getHeader('vary') ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '');
  reply.header('vary', [...new Set([...named, 'authorization'])].join(', '));
}

/**
 * Throws 503 where the archive's state was removed or replaced since it was opened: other processes write to another one
 * by now, and what is remembered here would be told as current for good.
 */
export function requireLocalState({ archive }: Pick<ServiceContext, 'archive'>): void {
  if (archive.state.isFileCurrent()) return;
  throw new ProblemError(
    503,
    'The state of the archive was removed or replaced under the service. Its operator has to start it again.',
  );
}
