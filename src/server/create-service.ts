import type { Server } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Log } from '../base/ports.ts';
import {
  countKeyUsage,
  createAuthenticationHook,
  registerSessionRoutes,
  registerUserRoutes,
  toNetworkPrefix,
} from './auth/authenticate.ts';
import { requireRequestedDatasets } from './auth/key-permissions.ts';
import { registerExportRoutes } from './exports/export-routes.ts';
import { openMetrics, registerMetricsRoutes } from './health/metrics.ts';
import { registerHealthRoutes, registerReadyRoutes } from './health/readiness.ts';
import { registerHistoricalRoutes } from './history/historical-routes.ts';
import { type CompressBody, createBodyCompressor, createCompressionHook } from './http/compress-response.ts';
import {
  allMethods,
  limitConnections,
  respondToClientError,
  type ServiceLimits,
  serviceLimits,
} from './http/connection-limits.ts';
import { acceptJsonBodies } from './http/json-body.ts';
import { createCommonHeaders, ProblemError, requireLocalState, sendProblem, setVary } from './http/problem-details.ts';
import { openResponseCache } from './http/response-cache.ts';
import type { App, ServiceContext } from './http/service-context.ts';
import { type DropReason, trackConnections } from './http/track-connections.ts';
import {
  coerceQuery,
  type ParsedQuery,
  parseQueryString,
  requireParsedQuery,
  requireValidBodyText,
  requireValidRequest,
} from './http/validate-request.ts';
import { holdArchiveLease } from './jobs/archive-lease.ts';
import { registerMarketsRoutes } from './live/markets-route.ts';
import { registerOrderBookRoutes } from './live/order-book-route.ts';
import { TickBroadcast } from './live/tick-broadcast.ts';
import { registerTicksRoutes } from './live/ticks-route.ts';
import { registerTickStreamRoutes } from './live/ticks-stream.ts';
import { openBacktestService, registerBacktestRoutes } from './objects/backtest-routes.ts';
import { registerBacktestTradesRoute } from './objects/backtest-trades-route.ts';
import { registerBotRoutes } from './objects/bot-routes.ts';
import { registerResearchRoutes } from './objects/research-route.ts';
import { registerStrategyRoutes } from './objects/strategy-routes.ts';
import { describeRoutes, registerDocumentationRoutes } from './openapi.ts';
import { registerCatalogueRoutes } from './web/catalogue.ts';
import { isPageRequest, registerProblemsPage, sendNotFoundPage } from './web/plain-pages.ts';
import { generateRandomId } from './workspace/tables.ts';

/** Creates the service with all its routes; it does not listen yet. */
export async function createService(context: ServiceContext, limits: ServiceLimits = serviceLimits): Promise<App> {
  const compress = createBodyCompressor();
  // A quarter of the cache: see live/ticks-route.ts for the rest.
  const responses = openResponseCache(context.settings.service.cacheBytesMax / 4, compress);
  context.current.onNewGeneration(({ generation, hashes }) => {
    responses.dropOthers(generation);
    context.files.dropReplaced(hashes);
  });
  const streams = new TickBroadcast(context);
  const metrics = openMetrics(context, responses, streams);
  const app = createApp(context, limits, metrics.recordDrop);
  const lease = await holdArchiveLease(app, context);
  // Before all routes, because these hooks apply only to routes that are added later.
  const methods = recordMethods(app as unknown as FastifyInstance);
  const loadDocument = await describeRoutes(app, context.version, compress);
  // These hooks come first, so that every request is counted.
  registerMetricsRoutes(app, metrics, context.settings.service.metricsKey);
  addHooks(app, context, limits, methods, compress);

  // One line per group of routes.
  registerHealthRoutes(app);
  registerReadyRoutes(app, context);
  registerMarketsRoutes(app, context);
  registerTicksRoutes(app, context);
  registerTickStreamRoutes(app, context, streams);
  registerOrderBookRoutes(app, context);
  registerHistoricalRoutes(app, context, responses);
  registerExportRoutes(app, context);
  const backtests = openBacktestService(app, context, lease, limits);
  registerResearchRoutes(app, context, backtests, limits);
  registerBacktestRoutes(app, context, backtests);
  registerBacktestTradesRoute(app, context, backtests);
  registerUserRoutes(app, context);
  registerStrategyRoutes(app, context, limits);
  registerBotRoutes(app, context, limits);
  registerCatalogueRoutes(app, context, compress);
  registerSessionRoutes(app, context);
  registerProblemsPage(app, compress);
  await registerDocumentationRoutes(app, loadDocument, compress);

  await app.ready();
  return app;
}

function createApp(context: ServiceContext, limits: ServiceLimits, onDrop: (reason: DropReason) => void): App {
  const { log, random } = context;
  const newId = (): string => generateRandomId(random);
  const app = fastify({
    loggerInstance: createFrameworkLog(log),
    bodyLimit: limits.bodyBytesMax,
    http: {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersMsMax,
      connectionsCheckingInterval: limits.checkIntervalMs,
      // requireValidRequest rejects a request without a host with a problem response.
      requireHostHeader: false,
    },
    requestTimeout: limits.requestMsMax,
    keepAliveTimeout: limits.idleMsMax,
    // While the service stops, requests on open connections are served, and the connections closed.
    return503OnClosing: false,
    genReqId: newId,
    // TLS is left to a proxy: trust the client address that a proxy on this machine passes on.
    trustProxy: 'loopback',
    routerOptions: { querystringParser: (text) => parseQueryString(text, limits.parametersMax) },
    // ajv's optimizer takes a quarter of the start-up time and makes no validator faster.
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        allErrors: true,
        useDefaults: true,
        // A repeatable parameter is a text or a list.
        allowUnionTypes: true,
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
  acceptJsonBodies(app as unknown as FastifyInstance);
  limitConnections(app.server as Server, limits, newId);
  const { connectionsPerAddressMax } = context.settings.service;
  trackConnections(app.server as Server, log, { ...limits, connectionsPerAddressMax }, toNetworkPrefix, onDrop);
  return app as unknown as App;
}

/**
 * Adds the hooks that process every request, in this order. Those that wait for nothing call `done`: a promise for each
 * of them takes a twentieth of the time of a request.
 */
function addHooks(
  app: App,
  context: ServiceContext,
  limits: ServiceLimits,
  methods: MethodRegistry,
  compress: CompressBody,
): void {
  const plain = app as unknown as FastifyInstance;
  const { log } = context;
  app.decorateRequest('principal', null);
  let stopping = false;
  app.setErrorHandler((error, request, reply) => sendProblem(log, error, request, reply));
  // JSON.stringify, because a schema-based serializer would silently drop fields that are not in the schema.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(createCommonHeaders(request.id));
    requireValidRequest(request, limits);
    done();
  });
  registerNotFoundHandler(plain, methods);
  countKeyUsage(app, context);
  app.addHook('onRequest', createAuthenticationHook(context));
  app.addHook('onRequest', ({ routeOptions }, _reply, done) => {
    if (routeOptions.config.access !== 'open') requireLocalState(context);
    done();
  });
  app.addHook('preValidation', (request, _reply, done) => {
    const schema = request.routeOptions.schema?.querystring as { properties?: Record<string, object> } | undefined;
    requireParsedQuery(request.query as ParsedQuery, schema?.properties);
    requireValidBodyText(request.body);
    if (schema?.properties !== undefined)
      request.query = coerceQuery(request.query as Record<string, unknown>, schema.properties);
    done();
  });
  app.addHook('preHandler', requireRequestedDatasets);
  app.addHook('onSend', createCompressionHook(compress));
  app.addHook('onSend', (request, reply, _payload, done) => {
    setVary(request, reply);
    if (stopping) reply.header('connection', 'close');
    done();
  });
  app.addHook('preClose', async () => {
    stopping = true;
  });
  app.addHook('onResponse', (request, reply, done) => {
    logRequest(context, request, reply, reply.statusCode);
    done();
  });
  app.addHook('onRequestAbort', async (request) => logRequest(context, request, null, null));
}

/** The methods of every path, for 405 and OPTIONS. */
type MethodRegistry = ReturnType<typeof recordMethods>;

/** Records every route that is added after this call. */
function recordMethods(app: FastifyInstance) {
  const routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    routes.push({ pattern: toPathPattern(url), methods: [method].flat() });
  });
  return {
    /** The value of an Allow header; null if there is no route for the path. */
    findAllowedMethods(path: string): string | null {
      const methods = routes.filter(({ pattern }) => pattern.test(path)).flatMap((route) => route.methods);
      return methods.length === 0 ? null : [...new Set([...methods, 'OPTIONS'])].sort().join(', ');
    },
  };
}

/** `/a/:b/*` as a regular expression; a parameter matches one segment, a star the rest. */
function toPathPattern(url: string): RegExp {
  const parts = url.split(/(:[A-Za-z_]\w*|\*)/).map((part) => {
    if (part === '*') return '.*';
    return part.startsWith(':') && part.length > 1 ? '[^/]+' : part.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('')}$`, 's');
}

/** Responses for requests without a route: 204 to OPTIONS, 405 with Allow, else 404, for browsers as a page. */
function registerNotFoundHandler(app: FastifyInstance, methods: MethodRegistry): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done();
    const allow = request.raw.url === '*' ? allMethods : methods.findAllowedMethods(toPath(request));
    if (allow === null) {
      if (isPageRequest(request, toPath(request))) return void sendNotFoundPage(reply);
      return done();
    }
    if (request.method === 'OPTIONS') return void reply.code(204).header('allow', allow).send();
    throw new ProblemError(405, `${request.method} is not supported at this path. Supported are ${allow}.`, {
      headers: { allow },
    });
  });
  app.setNotFoundHandler(() => {
    throw new ProblemError(404, 'There is no such path.');
  });
}

/** The path of a request, decoded as by the router. */
function toPath({ raw: { url = '' } }: FastifyRequest): string {
  const [path = ''] = url.split(/[?#]/, 1);
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

const pathLengthMax = 200;

/** Routes that monitoring requests every few seconds. */
const probePaths = new Set(['/healthz', '/readyz', '/metrics']);

/**
 * Logs one line per request. Query, headers and body are not logged, because they may contain secrets.
 * @param status null if the client disconnected before the response
 */
function logRequest(
  { log }: ServiceContext,
  request: FastifyRequest,
  reply: FastifyReply | null,
  status: number | null,
): void {
  const { id, method, principal, ip } = request;
  const [path = ''] = (request.raw.url ?? '').split('?', 1);
  const facts = {
    request_id: id,
    method,
    path: path.slice(0, pathLengthMax),
    status,
    ...(reply === null ? {} : { ms: Math.round(reply.elapsedTime * 10) / 10 }),
    client: ip,
    ...(principal?.kind === 'key' ? { [principal.visitor === undefined ? 'key' : 'visitor']: principal.id } : {}),
    ...(principal?.kind === 'user' ? { user: principal.user } : {}),
  };
  const note = status === null ? 'the client disconnected' : 'request';
  if (probePaths.has(path)) log.debug(facts, note);
  else log.info(facts, note);
}

/** A logger for the framework that passes on its warnings and errors only. */
function createFrameworkLog(log: Log): FastifyBaseLogger {
  const logAt =
    (level: 'warn' | 'error') =>
    (facts: unknown, message?: unknown): void => {
      if (typeof facts === 'string') log[level]({}, facts);
      else log[level]({ err: (facts as { err?: unknown }).err }, String(message ?? 'a response failed'));
    };
  const quiet = (): void => {};
  const logger = {
    level: 'warn',
    trace: quiet,
    debug: quiet,
    info: quiet,
    silent: quiet,
    warn: logAt('warn'),
    error: logAt('error'),
    fatal: logAt('error'),
    child: () => logger,
  };
  return logger as unknown as FastifyBaseLogger;
}
