import type { Server } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { type FastifyInstance, fastify } from 'fastify';
import { takePlace } from './archive-lease.ts';
import { admission } from './authenticate.ts';
import { openBacktestDesk } from './backtest-service.ts';
import { readQuery } from './coerce-query.ts';
import { answerClientError, boundConnections } from './connection-limits.ts';
import type { ServiceContext } from './context.ts';
import type { App } from './fastify-types.ts';
import { type ServiceLimits, serviceLimits } from './http-limits.ts';
import { answerUnrouted, type Methods, noteMethods } from './method-not-allowed.ts';
import { describeRoutes } from './openapi.ts';
import { sendProblem } from './problem-details.ts';
import { parseQueryString, type Query, requireReadable } from './query-string.ts';
import { frameworkLog, logRequest } from './request-log.ts';
import { requireOwnState } from './require-state.ts';
import { setVary, usualHeaders } from './response-headers.ts';
import { backtestRoutes } from './routes/backtests.ts';
import { botRoutes } from './routes/bots.ts';
import { catalogueRoutes } from './routes/catalogue.ts';
import { documentationRoutes } from './routes/documentation.ts';
import { exportRoutes } from './routes/export.ts';
import { exportJobRoutes } from './routes/export-jobs.ts';
import { healthRoutes } from './routes/health.ts';
import { historicalRoutes } from './routes/historical.ts';
import { marketsRoutes } from './routes/markets.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { orderbookRoutes } from './routes/orderbook.ts';
import { readyRoutes } from './routes/ready.ts';
import { researchRoutes } from './routes/research.ts';
import { strategyRoutes } from './routes/strategies.ts';
import { ticksRoutes } from './routes/ticks.ts';
import { userRoutes } from './routes/users.ts';
import { refuseUnfit, requireCleanBody } from './validate-request.ts';

/** The service with every route, not listening yet. */
export async function createService(context: ServiceContext, limits: ServiceLimits = serviceLimits): Promise<App> {
  const app = createApp(context, limits);
  const own = await takePlace(app, context);
  // Before every route, as they are told of each.
  const methods = noteMethods(app as unknown as FastifyInstance);
  await describeRoutes(app, context.version);
  // Its hooks come before all others, so that nothing goes by uncounted.
  metricsRoutes(app, context);
  addHooks(app, context, limits, methods);

  // The routes, one line a group.
  healthRoutes(app);
  readyRoutes(app, context);
  marketsRoutes(app, context);
  ticksRoutes(app, context);
  orderbookRoutes(app, context);
  historicalRoutes(app, context);
  exportRoutes(app, context);
  exportJobRoutes(app, context, own);
  const backtestDesk = openBacktestDesk(app, context, own);
  researchRoutes(app, context, backtestDesk);
  backtestRoutes(app, context, backtestDesk);
  userRoutes(app, context);
  strategyRoutes(app, context, limits);
  botRoutes(app, context, limits);
  catalogueRoutes(app, context);
  await documentationRoutes(app);

  await app.ready();
  return app;
}

function createApp(context: ServiceContext, limits: ServiceLimits): App {
  const { log, random } = context;
  const newId = (): string => Math.floor(random() * 36 ** 10).toString(36);
  const app = fastify({
    loggerInstance: frameworkLog(log),
    bodyLimit: limits.bodyBytesMax,
    http: {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersMsMax,
      connectionsCheckingInterval: limits.checkEveryMs,
      // A request without a host is refused with an answer of ours.
      requireHostHeader: false,
    },
    requestTimeout: limits.requestMsMax,
    keepAliveTimeout: limits.idleMsMax,
    // While it stops, what still arrives on open connections is answered as ever, and the connection then closed.
    return503OnClosing: false,
    genReqId: newId,
    // TLS is a proxy's work: one on this machine tells whom a request came from.
    trustProxy: 'loopback',
    routerOptions: { querystringParser: (text) => parseQueryString(text, limits.parametersMax) },
    // ajv's optimizer takes a quarter of the start and makes no validator faster.
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        allErrors: true,
        useDefaults: true,
        code: { optimize: false },
      },
    },
    clientErrorHandler: (error, socket) => answerClientError(log, newId(), error, socket),
    frameworkErrors(error, request, reply) {
      reply.headers(usualHeaders(request.id));
      sendProblem(log, error, request, reply);
      logRequest(context, request, reply, reply.statusCode);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  // Bodies are JSON.
  app.removeContentTypeParser('text/plain');
  boundConnections(app.server as Server, log, limits, newId);
  return app as unknown as App;
}

/** What happens to every request, in this order. */
function addHooks(app: App, context: ServiceContext, limits: ServiceLimits, methods: Methods): void {
  const plain = app as unknown as FastifyInstance;
  const { log } = context;
  app.decorateRequest('principal', null);
  let stopping = false;
  app.setErrorHandler((error, request, reply) => sendProblem(log, error, request, reply));
  // Plain: what a schema does not name must not silently fall out of an answer.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(usualHeaders(request.id));
    refuseUnfit(request, limits);
  });
  answerUnrouted(plain, methods);
  app.addHook('onRequest', admission(context));
  app.addHook('onRequest', async ({ routeOptions }) => {
    if (routeOptions.config.access !== 'open') requireOwnState(context);
  });
  app.addHook('preValidation', async (request) => {
    requireReadable(request.query as Query);
    requireCleanBody(request.body);
    const schema = request.routeOptions.schema?.querystring as { properties?: Record<string, object> } | undefined;
    if (schema?.properties !== undefined)
      request.query = readQuery(request.query as Record<string, unknown>, schema.properties);
  });
  app.addHook('onSend', async (request, reply) => {
    setVary(request, reply);
    if (stopping) reply.header('connection', 'close');
  });
  app.addHook('preClose', async () => {
    stopping = true;
  });
  app.addHook('onResponse', async (request, reply) => logRequest(context, request, reply, reply.statusCode));
  app.addHook('onRequestAbort', async (request) => logRequest(context, request, null, null));
}
