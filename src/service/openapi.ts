import swagger from '@fastify/swagger';
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { paths } from '../contract/paths.ts';
import { strategySchemas } from '../contract/strategies.ts';
import type { App } from './fastify-types.ts';
import { addProblems, components, type OpenApiDocument } from './openapi-problems.ts';

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
