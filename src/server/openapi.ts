import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifyReply, FastifySchema, RouteOptions } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { closed } from '../contract/export-manifest.ts';
import { paths } from '../contract/paths.ts';
import { Problem, problemKinds, problemType } from '../contract/problem.ts';
import type { CompressBody } from './http/compress-response.ts';
import { dataTimeHeader } from './http/data-time.ts';
import { createProblem, pageContentSecurityPolicy } from './http/problem-details.ts';
import type { App } from './http/service-context.ts';
import { createStaticBody, type StaticBody, sendStaticBody } from './http/static-body.ts';
import { describeParameters, type JsonObject, nameSchemas, type Parameterized } from './openapi-components.ts';
import { loadAssets } from './web/catalogue.ts';
import { renderDocumentationPage } from './web/plain-pages.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Error statuses of this route in addition to the common ones: 406, 409, 412, 416, 422 … */
    problems?: readonly number[];
    /** Schema of a body that the route validates itself; for documentation only. */
    body?: TSchema;
    /** Schema of a query that the route validates further itself; for documentation only. */
    query?: TSchema;
  }
}

const tags = [
  {
    name: 'realtime',
    description:
      'Markets, ticks and order books as last polled, or with live reads as fresh as the upstream. Requires a market data key.',
  },
  {
    name: 'historical',
    description: 'All published data of the archive. Requires a market data key.',
  },
  { name: 'export', description: 'Whole files, as published or as slices on request. Requires a market data key.' },
  { name: 'operations', description: 'Operation of the service. Requires no credential.' },
  { name: 'users', description: 'Objects of users. Requires a user token.' },
];

const apiDescription = `An oddslake archive over HTTP: current and historical prediction-market data.

Times are epoch milliseconds in UTC, windows half-open: \`from <= t < to\`. Send a credential as
\`Authorization: Bearer <credential>\`. Every error is \`application/problem+json\`. A request is rejected with 400 if it has
an unknown parameter, repeats one, or has an invalid value. Every GET route also supports HEAD, and OPTIONS lists the
methods of a path. Limits of a request: 16 kB of request line and headers, 8 kB of path and query, 100 parameters, a
body of 64 kB without content encoding, 10 seconds for the headers and 30 seconds in all. The connection of a client that
reads none of its response for 30 seconds is closed.`;

/** Security requirements by access of a route. */
const securityRequirements: Readonly<Record<string, readonly Readonly<Record<string, readonly string[]>>[]>> = {
  open: [],
  any: [{ key: [] }, { token: [] }],
  key: [{ key: [] }],
  either: [{ key: [] }, {}],
  user: [{ token: [] }],
  research: [{ token: ['research'] }],
};

/**
 * Documents every route that is added after this call at /api/v1/openapi.json.
 * @returns the document; call it after all routes were added
 */
export async function describeRoutes(app: App, version: string, compress: CompressBody): Promise<() => StaticBody> {
  const problems = new Map<string, readonly number[]>();
  app.addHook('onRoute', (route) => {
    if (route.schema?.hide === true) return;
    route.schema = { ...route.schema };
    // Routes without parameters reject unknown ones, too.
    route.schema.querystring ??= closed({});
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
      servers: [{ url: '/', description: 'The server of this document' }],
      tags,
      components,
    },
    convertConstToEnum: false,
    transform: ({ schema, url, route }) => ({ schema: describeSchema(schema, route), url }),
    transformObject: (generated) => {
      const document = ('openapiObject' in generated
        ? generated.openapiObject
        : generated.swaggerObject) as unknown as OpenApiDocument;
      addProblems(document, problems);
      describeParameters(document.paths);
      nameSchemas([document.paths, document.components.responses!], document.components.schemas);
      return document as never;
    },
  });
  let document: StaticBody | undefined;
  const loadDocument = (): StaticBody => {
    document ??= createStaticBody(jsonType, JSON.stringify((app as unknown as FastifyInstance).swagger()));
    return document;
  };
  app.get(
    paths.openapi,
    {
      config: { access: 'open' },
      schema: {
        operationId: 'getOpenApiDocument',
        summary: 'This document',
        description: 'OpenAPI 3.1: every route with its parameters, responses and errors.',
        tags: ['operations'],
        response: documentResponses,
      },
    },
    async (request, reply) =>
      sendStaticBody(request, reply.header('cache-control', 'no-cache'), loadDocument(), compress),
  );
  return loadDocument;
}

const jsonType = 'application/json; charset=utf-8';

/** The types are for the OpenAPI document, not for the compiler. */
const documentResponses: Readonly<Record<number, unknown>> = {
  200: {
    description: 'The document.',
    headers: { etag: { description: 'Strong; it changes with the document.', type: 'string' } },
    content: {
      'application/json': {
        schema: Type.Object(
          { openapi: Type.String(), info: Type.Object({}, { additionalProperties: true }) },
          { title: 'OpenApiDocument', additionalProperties: true, description: 'An OpenAPI document.' },
        ),
      },
    },
  },
  304: Type.Null({ description: 'The client has the current document.' }),
};

/** Converts `/a/:b` to the notation of OpenAPI, `/a/{b}`. */
const toPathTemplate = (url: string): string => url.replace(/:([A-Za-z_]\w*)/g, '{$1}');

function describeSchema(schema: FastifySchema | undefined, route: RouteOptions): FastifySchema {
  const { access = 'key', body, query, data } = route.config ?? {};
  const scopes = access === 'key' && data?.scope != null ? [data.scope] : null;
  return {
    ...schema,
    ...(body === undefined ? {} : { body }),
    ...(query === undefined ? {} : { querystring: query }),
    security: (scopes === null ? securityRequirements[access] : [{ key: scopes }]) as never,
  };
}

interface OpenApiOperation extends Parameterized {
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly requestBody?: unknown;
  readonly tags?: readonly string[];
  responses: Record<string, { content?: Record<string, unknown>; headers?: JsonObject; $ref?: string }>;
}

/** The parts of an OpenAPI document that are used here. */
interface OpenApiDocument {
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: { schemas: JsonObject; responses?: JsonObject; headers?: JsonObject };
}

const createHeader = (description: string, schema: JsonObject, required = false): JsonObject => ({
  description,
  required,
  schema,
});

const headers: Readonly<Record<string, JsonObject>> = {
  RequestId: createHeader('ID of this request, also in the log.', { type: 'string' }, true),
  WwwAuthenticate: createHeader('How to authenticate: `Bearer`, with the error.', { type: 'string' }, true),
  RetryAfter: createHeader('Seconds to wait before the next request.', { type: 'integer', minimum: 0 }, true),
  RateLimit: createHeader('The remaining quota, `r`, and the seconds until it is reset, `t`.', {
    type: 'string',
  }),
  RateLimitPolicy: createHeader('The quota: `q` requests in `w` seconds.', { type: 'string' }),
  DataTime: createHeader(
    'Time of the data, epoch milliseconds UTC, as `data_time` of the response; absent if the archive has none.',
    { type: 'integer' },
  ),
};

const createRef = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });

const commonHeaders = { 'X-Request-Id': createRef('headers', 'RequestId') };
const rateLimitHeaders = {
  RateLimit: createRef('headers', 'RateLimit'),
  'RateLimit-Policy': createRef('headers', 'RateLimitPolicy'),
};

const listProblems = (status: number) => Object.entries(problemKinds).filter(([, kind]) => kind.status === status);

const toProblemName = (status: number): string => `Problem${status}`;

const createProblemResponse = (status: number): JsonObject => ({
  description: listProblems(status)
    .map(([code, { meaning }]) => `\`${code}\`: ${meaning}`)
    .join('\n\n'),
  headers: {
    ...commonHeaders,
    ...(status === 401 ? { 'WWW-Authenticate': createRef('headers', 'WwwAuthenticate') } : {}),
    ...(status === 429 ? { 'Retry-After': createRef('headers', 'RetryAfter'), ...rateLimitHeaders } : {}),
  },
  content: {
    [problemType]: {
      schema: Problem,
      example: createProblem(status, listProblems(status)[0]![1].meaning),
    },
  },
});

/** Components that routes refer to. */
const components = {
  securitySchemes: {
    key: {
      type: 'http',
      scheme: 'bearer',
      description: 'A market data key: `oddslake keys create`. Routes require a scope.',
    },
    token: {
      type: 'http',
      scheme: 'bearer',
      bearerFormat: 'JWT',
      description: 'A user token; some routes require a scope.',
    },
  },
} as const;

const commonStatuses = [400, 404, 408, 414, 417, 431, 500, 503];

/** Adds the error responses to every operation; `declared` contains the additional statuses of routes. */
function addProblems(document: OpenApiDocument, declared: ReadonlyMap<string, readonly number[]>): void {
  document.components.headers = headers;
  document.components.responses = Object.fromEntries(
    Object.values(problemKinds).map(({ status }) => [toProblemName(status), createProblemResponse(status)]),
  );
  for (const [path, operations] of Object.entries(document.paths)) {
    // Every GET route supports HEAD; the description of the document says so.
    delete operations.head;
    for (const [method, operation] of Object.entries(operations))
      addOperationProblems(operation, declared.get(`${method} ${path}`) ?? []);
  }
}

function addOperationProblems(operation: OpenApiOperation, declared: readonly number[]): void {
  const secured = (operation.security ?? []).length > 0;
  for (const response of Object.values(operation.responses))
    response.headers = { ...commonHeaders, ...(secured ? rateLimitHeaders : {}), ...response.headers };
  if (operation.tags?.includes('realtime') && operation.responses[200] !== undefined)
    operation.responses[200].headers = {
      ...operation.responses[200].headers,
      [dataTimeHeader]: createRef('headers', 'DataTime'),
    };
  for (const status of ['204', '304']) delete operation.responses[status]?.content;
  const types = Object.keys(operation.responses[200]?.content ?? {});
  const statuses = new Set([
    ...commonStatuses,
    ...declared,
    // A content encoding is rejected first, also on methods without a body.
    ...(operation.requestBody === undefined ? [] : [413]),
    415,
    ...(secured ? [401, 403, 429] : []),
    ...(types.length > 1 ? [406] : []),
    // Routes with ranges or 304 support preconditions.
    ...(operation.responses[206] === undefined ? [] : [412, 416]),
    ...(operation.responses[304] === undefined ? [] : [412]),
  ]);
  for (const status of [...statuses].sort((a, b) => a - b))
    operation.responses[status] ??= createRef('responses', toProblemName(status));
}

/** `/docs`: a page generated from the OpenAPI document; all its files come from this service. */
export async function registerDocumentationRoutes(
  app: App,
  loadDocument: () => StaticBody,
  compress: CompressBody,
): Promise<void> {
  const findFile = openPageFiles();
  let page: StaticBody | undefined;
  const isPage = (url = ''): boolean => url.replace(/\/$/, '') === paths.documentation;
  await app.register(async (inner) => {
    inner.addHook('onRoute', (route) => {
      route.config = { ...route.config, access: 'open' };
      route.schema = { ...route.schema, hide: true };
    });
    inner.addHook('onSend', async (_request, reply) => {
      // The ETag changes with every version of oddslake.
      if (reply.statusCode < 400) reply.header('cache-control', 'no-cache');
    });
    // In place of the plugin's handlers, which serialize the document and read and compress files for each request.
    inner.addHook('preHandler', async (request, reply): Promise<FastifyReply | undefined> => {
      const { '*': name } = request.params as { '*'?: string };
      if (isPage(request.routeOptions.url)) {
        page ??= createStaticBody('text/html; charset=utf-8', renderDocumentationPage(`/assets/${loadAssets().stamp}`));
        return sendStaticBody(request, reply, page, compress);
      }
      const isDocument = request.routeOptions.url === `${paths.documentation}/json`;
      const body = isDocument ? loadDocument() : name === undefined ? undefined : findFile(name);
      return body === undefined ? undefined : sendStaticBody(request, reply, body, compress);
    });
    await inner.register(swaggerUi, {
      routePrefix: paths.documentation,
      // The page has inline styles.
      staticCSP: pageContentSecurityPolicy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'"),
      theme: { title: 'oddslake' },
      // Without the top bar, in which users could load another document.
      uiConfig: {
        layout: 'BaseLayout',
        deepLinking: true,
        docExpansion: 'list',
        defaultModelsExpandDepth: 0,
        persistAuthorization: false,
        // Its colors have too little contrast.
        syntaxHighlight: false,
      },
    });
  });
}

const fileTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': jsonType,
  '.png': 'image/png',
  '.svg': 'image/svg+xml; charset=utf-8',
};

/** The files that the page loads. Each is read on its first use: the files of a program do not change while it runs. */
function openPageFiles(): (name: string) => StaticBody | undefined {
  const folder = join(dirname(createRequire(import.meta.url).resolve('@fastify/swagger-ui/package.json')), 'static');
  const names = new Set(readdirSync(folder));
  const bodies = new Map<string, StaticBody>();
  return (name) => {
    const type = names.has(name) ? fileTypes[extname(name)] : undefined;
    if (type === undefined) return undefined;
    const body = bodies.get(name) ?? createStaticBody(type, readFileSync(join(folder, name)));
    bodies.set(name, body);
    return body;
  };
}
