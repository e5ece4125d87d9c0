import type { Server } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { type FastifyInstance, fastify } from 'fastify';
import { holdArchiveLease } from './archive-lease.ts';
import { createAuthenticationHook } from './authenticate.ts';
import { openBacktestService } from './backtest-service.ts';
import { coerceQuery } from './coerce-query.ts';
import { limitConnections, respondToClientError } from './connection-limits.ts';
import type { ServiceContext } from './context.ts';
import type { App } from './fastify-types.ts';
import { type ServiceLimits, serviceLimits } from './http-limits.ts';
import { type MethodRegistry, recordMethods, registerNotFoundHandler } from './method-not-allowed.ts';
import { describeRoutes } from './openapi.ts';
import { sendProblem } from './problem-details.ts';
import { type ParsedQuery, parseQueryString, requireParsedQuery } from './query-string.ts';
import { createFrameworkLog, logRequest } from './request-log.ts';
import { requireLocalState } from './require-state.ts';
import { createCommonHeaders, setVary } from './response-headers.ts';
import { registerBacktestRoutes } from './routes/backtests.ts';
import { registerBotRoutes } from './routes/bots.ts';
import { registerCatalogueRoutes } from './routes/catalogue.ts';
import { registerDocumentationRoutes } from './routes/documentation.ts';
import { registerExportRoutes } from './routes/export.ts';
import { registerExportJobRoutes } from './routes/export-jobs.ts';
import { registerHealthRoutes } from './routes/health.ts';
import { registerHistoricalRoutes } from './routes/historical.ts';
import { registerMarketsRoutes } from './routes/markets.ts';
import { registerMetricsRoutes } from './routes/metrics.ts';
import { registerOrderBookRoutes } from './routes/orderbook.ts';
import { registerReadyRoutes } from './routes/ready.ts';
import { registerResearchRoutes } from './routes/research.ts';
import { registerStrategyRoutes } from './routes/strategies.ts';
import { registerTicksRoutes } from './routes/ticks.ts';
import { registerUserRoutes } from './routes/users.ts';
import { requireValidBodyText, requireValidRequest } from './validate-request.ts';

/** The service with every route, not listening yet. */
export async function createService(context: ServiceContext, limits: ServiceLimits = serviceLimits): Promise<App> {
  const app = createApp(context, limits);
  const own = await holdArchiveLease(app, context);
  // Before every route, as they are told of each.
  const methods = recordMethods(app as unknown as FastifyInstance);
  await describeRoutes(app, context.version);
  // Its hooks come before all others, so that nothing goes by uncounted.
  registerMetricsRoutes(app, context);
  addHooks(app, context, limits, methods);

  // The routes, one line a group.
  registerHealthRoutes(app);
  registerReadyRoutes(app, context);
  registerMarketsRoutes(app, context);
  registerTicksRoutes(app, context);
  registerOrderBookRoutes(app, context);
  registerHistoricalRoutes(app, context);
  registerExportRoutes(app, context);
  registerExportJobRoutes(app, context, own);
  const backtestDesk = openBacktestService(app, context, own);
  registerResearchRoutes(app, context, backtestDesk);
  registerBacktestRoutes(app, context, backtestDesk);
  registerUserRoutes(app, context);
  registerStrategyRoutes(app, context, limits);
  registerBotRoutes(app, context, limits);
  registerCatalogueRoutes(app, context);
  await registerDocumentationRoutes(app);

  await app.ready();
  return app;
}

function createApp(context: ServiceContext, limits: ServiceLimits): App {
  const { log, random } = context;
  const newId = (): string => Math.floor(random() * 36 ** 10).toString(36);
  const app = fastify({
    loggerInstance: createFrameworkLog(log),
    bodyLimit: limits.bodyBytesMax,
    http: {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersMsMax,
      connectionsCheckingInterval: limits.checkIntervalMs,
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
    clientErrorHandler: (error, socket) => respondToClientError(log, newId(), error, socket),
    frameworkErrors(error, request, reply) {
      reply.headers(createCommonHeaders(request.id));
      sendProblem(log, error, request, reply);
      logRequest(context, request, reply, reply.statusCode);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  // Bodies are JSON.
  app.removeContentTypeParser('text/plain');
  limitConnections(app.server as Server, log, limits, newId);
  return app as unknown as App;
}

/** What happens to every request, in this order. */
function addHooks(app: App, context: ServiceContext, limits: ServiceLimits, methods: MethodRegistry): void {
  const plain = app as unknown as FastifyInstance;
  const { log } = context;
  app.decorateRequest('principal', null);
  let stopping = false;
  app.setErrorHandler((error, request, reply) => sendProblem(log, error, request, reply));
  // Plain: what a schema does not name must not silently fall out of an answer.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(createCommonHeaders(request.id));
    requireValidRequest(request, limits);
  });
  registerNotFoundHandler(plain, methods);
  app.addHook('onRequest', createAuthenticationHook(context));
  app.addHook('onRequest', async ({ routeOptions }) => {
    if (routeOptions.config.access !== 'open') requireLocalState(context);
  });
  app.addHook('preValidation', async (request) => {
    requireParsedQuery(request.query as ParsedQuery);
    requireValidBodyText(request.body);
    const schema = request.routeOptions.schema?.querystring as { properties?: Record<string, object> } | undefined;
    if (schema?.properties !== undefined)
      request.query = coerceQuery(request.query as Record<string, unknown>, schema.properties);
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
