import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { paths } from '../contract/paths.ts';
import { Problem, problemType } from '../contract/problem.ts';
import { strategySchemas } from '../contract/strategies.ts';
import type { App } from './http/context.ts';
import { createProblem, pageContentSecurityPolicy } from './http/problem-details.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Statuses from 400 on that this route answers beside those that every route may: 406, 409, 412, 416, 422 … */
    problems?: readonly number[];
    /** What the document says of a body that the route judges itself: no schema says it all, or says it well. */
    body?: TSchema;
  }
}

const tags = [
  { name: 'realtime', description: 'Markets, ticks and order books as last polled. A market data key.' },
  { name: 'historical', description: 'What the archive keeps, over all of its time. A market data key.' },
  { name: 'export', description: 'Whole files, as published or made to measure. A market data key.' },
  { name: 'operations', description: 'The service itself. Open.' },
  { name: 'users', description: "Users' own objects. A user token." },
];

const apiDescription = `The archive of an oddslake over HTTP: prediction-market data as it is now, and all that was kept of it.

Times are epoch milliseconds in UTC, windows half-open: \`from <= t < to\`. Send a credential as
\`Authorization: Bearer <credential>\`. Every error is \`application/problem+json\`. A parameter that a route does not
name, is given twice, or is not as described is refused with 400. Every GET answers HEAD too, and OPTIONS names the
methods of a path. A request has at most 16 kB of line and headers, 8 kB of path and query, 100 parameters, and a
body of 64 kB without content encoding; its headers arrive within 10 seconds, all of it within 30. A client that takes
nothing of its answer for 30 seconds is cut off.`;

/** The security requirement that follows from who may use a route. */
const securityRequirements: Readonly<Record<string, readonly Readonly<Record<string, readonly string[]>>[]>> = {
  open: [],
  any: [{ key: [] }, { token: [] }],
  key: [{ key: [] }],
  either: [{ key: [] }, {}],
  user: [{ token: [] }],
  research: [{ token: ['research'] }],
};

/** Describes every route that is added from now on in the document at /api/v1/openapi.json. */
export async function describeRoutes(app: App, version: string): Promise<void> {
  const problems = new Map<string, readonly number[]>();
  app.addHook('onRoute', (route) => {
    if (route.schema?.hide === true) return;
    route.schema = { ...route.schema };
    // What no schema names is refused, on the routes that name nothing too.
    route.schema.querystring ??= Type.Object({}, { additionalProperties: false });
    for (const method of [route.method].flat())
      problems.set(`${method.toLowerCase()} ${toPathTemplate(route.url)}`, route.config?.problems ?? []);
  });
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'oddslake',
        version,
        description: apiDescription,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/', description: 'Where this document was found' }],
      tags,
      components,
    },
    convertConstToEnum: false,
    transform: ({ schema, url, route }) => ({ schema: describeSchema(schema, route), url }),
    transformObject: (given) => {
      const document = ('openapiObject' in given
        ? given.openapiObject
        : given.swaggerObject) as unknown as OpenApiDocument;
      Object.assign(document.components.schemas, strategySchemas);
      return addProblems(document, problems) as never;
    },
  });
  app.get(
    paths.openapi,
    {
      config: { access: 'open' },
      schema: {
        summary: 'This document',
        description: 'OpenAPI 3.1: every route with its parameters, answers and errors.',
        tags: ['operations'],
        response: {
          200: Type.Object(
            { openapi: Type.String(), info: Type.Object({}, { additionalProperties: true }) },
            { additionalProperties: true, description: 'An OpenAPI document.' },
          ),
        },
      },
    },
    async (_request, reply) =>
      reply.header('cache-control', 'no-cache').send((app as unknown as FastifyInstance).swagger() as never),
  );
}

/** `/a/:b` as documents write it: `/a/{b}`. */
export const toPathTemplate = (url: string): string => url.replace(/:([A-Za-z_]\w*)/g, '{$1}');

function describeSchema(schema: FastifySchema | undefined, route: RouteOptions): FastifySchema {
  const { access = 'key', body } = route.config ?? {};
  return {
    ...schema,
    ...(body === undefined ? {} : { body }),
    operationId: schema?.operationId ?? toOperationId(String([route.method].flat()[0]), route.url),
    security: securityRequirements[access] as never,
  };
}

/** `GET /api/v1/historical/ticks` → `getHistoricalTicks` */
function toOperationId(method: string, url: string): string {
  const words = url
    .replace(/^\/api\/v1/, '')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '');
  const named = words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('');
  return method.toLowerCase() + (named === '' ? 'Root' : named);
}

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

/** `/docs`: a page made of the OpenAPI document; everything that it needs comes from here. */
export async function registerDocumentationRoutes(app: App): Promise<void> {
  await app.register(async (inner) => {
    inner.addHook('onRoute', (route) => {
      route.config = { ...route.config, access: 'open' };
      route.schema = { ...route.schema, hide: true };
    });
    inner.addHook('onSend', async (_request, reply) => {
      // An ETag tells a browser whether its copy still is this version's.
      if (reply.statusCode < 400) reply.header('cache-control', 'no-cache');
    });
    await inner.register(swaggerUi, {
      routePrefix: paths.documentation,
      // The page styles its elements one by one, in the markup too.
      staticCSP: pageContentSecurityPolicy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'"),
      theme: { title: 'oddslake' },
      // Without the bar at the top, which asks for the address of another document.
      uiConfig: { layout: 'BaseLayout', deepLinking: true, docExpansion: 'list', persistAuthorization: false },
    });
  });
}
