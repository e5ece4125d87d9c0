import { Problem, problemType } from '../contract/problem.ts';
import { createProblem } from './problem-details.ts';

type JsonObject = Record<string, unknown>;

export interface OpenApiOperation {
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly requestBody?: unknown;
  responses: Record<string, { content?: Record<string, unknown>; headers?: JsonObject; $ref?: string }>;
}

/** As much of an OpenAPI document as is looked at here. */
export interface OpenApiDocument {
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: { schemas: JsonObject; responses?: JsonObject; headers?: JsonObject };
}

const createHeader = (description: string, schema: JsonObject, required = false): JsonObject => ({
  description,
  required,
  schema,
});

const headers: Readonly<Record<string, JsonObject>> = {
  RequestId: createHeader('A name for this request, which stands in the log too.', { type: 'string' }, true),
  WwwAuthenticate: createHeader('How to authenticate: `Bearer`, with what was wrong.', { type: 'string' }, true),
  RetryAfter: createHeader('Seconds after which to ask again.', { type: 'integer', minimum: 0 }, true),
  RateLimit: createHeader('What is left of the quota, `r`, and the seconds until it is whole again, `t`.', {
    type: 'string',
  }),
  RateLimitPolicy: createHeader('The quota: `q` requests in `w` seconds.', { type: 'string' }),
};

const createRef = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });

const commonHeaders = { 'X-Request-Id': createRef('headers', 'RequestId') };
const rateLimitHeaders = {
  RateLimit: createRef('headers', 'RateLimit'),
  'RateLimit-Policy': createRef('headers', 'RateLimitPolicy'),
};

/** What each error means, on whatever route. */
const statusDescriptions: Readonly<Record<number, string>> = {
  400: 'The request is not as documented; `errors` names the parameters or fields.',
  401: 'There is no credential, or not one that is good here and now.',
  403: 'The credential is good, but not for this.',
  404: 'There is no such thing.',
  405: 'The path has no such method; `Allow` names those it has.',
  406: 'None of the types in `Accept` is one that this route gives.',
  408: 'The request did not arrive in time.',
  409: 'What is there already is in the way.',
  410: 'It was there and is gone.',
  412: 'What is there is not what `If-Match` names any more.',
  413: 'The body is larger than 64 kB.',
  414: 'The path, or path and query, is too long.',
  415: 'The body is not plain application/json.',
  416: 'The file has no such range.',
  417: 'An expectation other than 100-continue.',
  422: 'The body is well-formed, but cannot be done.',
  429: 'Too many requests under this credential.',
  431: 'The line and the headers of the request have more than 16 kB.',
  500: 'Something went wrong in the service.',
  501: 'Not served yet.',
  503: 'Not at the moment: what was asked for is damaged, or the service is busy or stopping.',
};

const toProblemName = (status: number): string => `Problem${status}`;

const createProblemResponse = (status: number): JsonObject => ({
  description: statusDescriptions[status],
  headers: {
    ...commonHeaders,
    ...(status === 401 ? { 'WWW-Authenticate': createRef('headers', 'WwwAuthenticate') } : {}),
    ...(status === 429 ? { 'Retry-After': createRef('headers', 'RetryAfter'), ...rateLimitHeaders } : {}),
  },
  content: {
    [problemType]: {
      schema: createRef('schemas', 'Problem'),
      example: createProblem(status, statusDescriptions[status]),
    },
  },
});

/** Everything of the document that routes refer to. */
export const components = {
  securitySchemes: {
    key: { type: 'http', scheme: 'bearer', description: 'A market data key: `oddslake keys create`.' },
    token: {
      type: 'http',
      scheme: 'bearer',
      bearerFormat: 'JWT',
      description: 'A user token; some routes ask for a scope in it.',
    },
  },
} as const;

const commonStatuses = [400, 404, 408, 414, 417, 431, 500, 503];

/** Adds to every operation the errors that it may answer; `named` are those that a route says of itself. */
export function addProblems(document: OpenApiDocument, named: ReadonlyMap<string, readonly number[]>): OpenApiDocument {
  const { $id: _, ...schema } = Problem as typeof Problem & { $id?: string };
  document.components.schemas.Problem = schema;
  document.components.headers = headers;
  document.components.responses = Object.fromEntries(
    Object.keys(statusDescriptions).map((status) => [
      toProblemName(Number(status)),
      createProblemResponse(Number(status)),
    ]),
  );
  for (const [path, operations] of Object.entries(document.paths)) {
    // Every GET answers HEAD; said once, for all.
    delete operations.head;
    for (const [method, operation] of Object.entries(operations))
      addOperationProblems(operation, named.get(`${method} ${path}`) ?? []);
  }
  return document;
}

function addOperationProblems(operation: OpenApiOperation, named: readonly number[]): void {
  const secured = (operation.security ?? []).length > 0;
  for (const response of Object.values(operation.responses))
    response.headers = { ...commonHeaders, ...(secured ? rateLimitHeaders : {}), ...response.headers };
  for (const status of ['204', '304']) delete operation.responses[status]?.content;
  const types = Object.keys(operation.responses[200]?.content ?? {});
  const statuses = new Set([
    ...commonStatuses,
    ...named,
    // A body on a method that takes none may be encoded too, and is refused for that first.
    ...(operation.requestBody === undefined ? [] : [413]),
    415,
    ...(secured ? [401, 403, 429] : []),
    ...(types.length > 1 ? [406] : []),
    // What is given in parts, or only where it changed, is asked for under conditions.
    ...(operation.responses[206] === undefined ? [] : [412, 416]),
    ...(operation.responses[304] === undefined ? [] : [412]),
  ]);
  for (const status of [...statuses].sort((a, b) => a - b))
    operation.responses[status] ??= createRef('responses', toProblemName(status));
}
