import swagger from '@fastify/swagger';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { type FastifyInstance, fastify, type RawServerDefault } from 'fastify';
import { admission } from './admission.ts';
import type { ServiceContext } from './context.ts';
import { refuseUnknown, sendProblem } from './problem.ts';
import { readQuery } from './query-values.ts';
import { healthRoutes } from './routes/health.ts';
import { ticksRoutes } from './routes/ticks.ts';
import { userRoutes } from './routes/users.ts';
import { marketsRoutes } from './routes/markets.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { orderbookRoutes } from './routes/orderbook.ts';
import { readyRoutes } from './routes/ready.ts';
import { historicalRoutes } from './routes/historical.ts';

export type App = FastifyInstance<
  RawServerDefault,
  import('node:http').IncomingMessage,
  import('node:http').ServerResponse,
  import('fastify').FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** Bytes of a request's line and headers, and of its body. */
const headerBytesMax = 16 * 1024;
const bodyBytesMax = 64 * 1024;

/** The service with every route, not listening yet. */
export async function createService(context: ServiceContext): Promise<App> {
  const app = fastify({
    logger: false,
    bodyLimit: bodyBytesMax,
    // TLS is a proxy's work: one on this machine tells whom a request came from.
    trustProxy: 'loopback',
    http: { maxHeaderSize: headerBytesMax },
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, allErrors: true, useDefaults: true } },
  }).withTypeProvider<TypeBoxTypeProvider>();
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'oddslake', version: context.version },
      components: {
        securitySchemes: {
          key: { type: 'http', scheme: 'bearer' },
          user: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
        },
      },
      security: [{ key: [] }],
    },
  });
  app.decorateRequest('principal', null);
  app.setErrorHandler((error, request, reply) => sendProblem(context.log, error, request, reply));
  // Plain: what a schema does not name must not silently fall out of an answer.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  app.addHook('onRequest', admission(context));
  metricsRoutes(app, context);
  app.addHook('onRequest', (request) => requireAccess(context, request));
  app.addHook('preValidation', async (request) => {
    const schema = request.routeOptions.schema?.querystring as { properties?: Record<string, object> } | undefined;
    if (schema?.properties === undefined) return;
    const query = request.query as Record<string, unknown>;
    request.query = readQuery(query, schema.properties);
  });
  refuseUnknown(app as unknown as FastifyInstance);
  healthRoutes(app);
  ticksRoutes(app, context);
  userRoutes(app, context);
  readyRoutes(app, context);
  marketsRoutes(app, context);
  orderbookRoutes(app, context);
  historicalRoutes(app, context);
  await app.ready();
  return app;
}
