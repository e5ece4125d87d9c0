import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { paths } from '../../contract/paths.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { expositionContentType, formatExposition, openRequestMetrics } from '../../metrics/prometheus.ts';
import { toArchiveSamples } from '../../metrics/samples.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { ResponseCache } from '../http/response-cache.ts';
import { type App, readServiceFacts, type ServiceContext } from '../http/service-context.ts';
import { dropReasons } from '../http/track-connections.ts';

/** Figures of the streams of ticks since the start. */
interface StreamCounts {
  readonly open: number;
  readonly ticks: number;
  readonly ended: Readonly<Record<string, number>>;
}

/** Route label of requests that match no route, because the number of their paths is unlimited. */
const unmatchedRoute = 'none';

/** The metrics of one service; a process may have several services. */
export function openMetrics(
  context: ServiceContext,
  responses: ResponseCache,
  streams: { readonly counts: StreamCounts },
) {
  const metrics = openRequestMetrics(() => {
    const { hit, miss, shared, notModified } = responses.getCounts();
    return { hit, miss, shared, not_modified: notModified };
  }, dropReasons);
  const { clock } = context;
  // A connection carries several responses: remember how many of its bytes have already been counted.
  const counted = new WeakMap<object, number>();
  return {
    contentType: expositionContentType,
    /** Records a request, from this call until its response ends or its client disconnects. */
    observeRequest(request: FastifyRequest, reply: FastifyReply): void {
      const { socket } = request.raw;
      const startedMs = clock.monotonicMs();
      metrics.recordStart();
      reply.raw.once('close', () => {
        const sent = socket.bytesWritten;
        metrics.recordEnd({
          route: request.routeOptions.url ?? unmatchedRoute,
          method: request.method,
          status: reply.raw.writableFinished ? String(reply.raw.statusCode) : 'aborted',
          seconds: (clock.monotonicMs() - startedMs) / 1000,
          bytes: Math.max(0, sent - (counted.get(socket) ?? 0)),
        });
        counted.set(socket, sent);
      });
    },
    recordDrop: metrics.recordDrop,
    /** Formats the metrics in the Prometheus text format. */
    render: async (): Promise<string> =>
      (await metrics.formatText()) + (await formatExposition(collectSamples(context, responses, streams.counts))),
    close: () => metrics.close(),
  };
}

function collectSamples(context: ServiceContext, responses: ResponseCache, streams: StreamCounts): Sample[] {
  const { files, live } = context;
  const { bytes, files: count } = files.getCacheSize();
  return [
    { name: 'oddslake_cache_bytes', labels: {}, value: bytes },
    { name: 'oddslake_cache_files', labels: {}, value: count },
    { name: 'oddslake_response_cache_bytes', labels: {}, value: responses.getCounts().bytes },
    ...Object.entries(live?.getCounts() ?? {}).map(([outcome, value]) => ({
      name: 'oddslake_live_requests',
      labels: { outcome },
      value,
    })),
    { name: 'oddslake_streams_open', labels: {}, value: streams.open },
    { name: 'oddslake_stream_ticks', labels: {}, value: streams.ticks },
    ...Object.entries(streams.ended).map(([reason, value]) => ({
      name: 'oddslake_streams_ended',
      labels: { reason },
      value,
    })),
    ...toArchiveSamples(readServiceFacts(context)),
  ];
}

/**
 * Requires the key of `service.metrics_key` as a Bearer credential. Digests are compared, so that the time reveals nothing.
 * @throws ProblemError 401
 */
function requireMetricsKey(key: string, authorization: string | undefined): void {
  const challenge = { headers: { 'www-authenticate': 'Bearer realm="metrics"' } };
  if (authorization === undefined)
    throw new ProblemError(401, 'Send the key of service.metrics_key in the form Bearer KEY.', {
      code: 'missing_credential',
      ...challenge,
    });
  const [, sent = ''] = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization) ?? [];
  const [expected, actual] = [key, sent].map((text) => createHash('sha256').update(text).digest());
  if (!timingSafeEqual(expected!, actual!)) throw new ProblemError(401, 'This is not the key for metrics.', challenge);
}

/** `/metrics` and its hooks. Register it before all other routes and hooks, so that every request is counted. */
export function registerMetricsRoutes(app: App, metrics: ReturnType<typeof openMetrics>, key: string | null): void {
  app.addHook('onRequest', (request, reply, done) => {
    metrics.observeRequest(request, reply);
    done();
  });
  app.addHook('onClose', async () => metrics.close());
  app.get(
    paths.metrics,
    {
      config: { access: 'open', problems: [401] },
      schema: {
        operationId: 'getMetrics',
        summary: 'Metrics in the Prometheus text format',
        description:
          'Requests by route, method and status, durations, bytes sent, dropped connections, the state of the archive, and the process. Requires no credential, unless the service has a key for metrics.',
        tags: ['operations'],
        response: { 200: { description: 'Metrics.', content: { 'text/plain': { schema: Type.String() } } } },
      },
    },
    async (request, reply) => {
      if (key !== null) requireMetricsKey(key, request.headers.authorization);
      return reply.type(metrics.contentType).send((await metrics.render()) as never);
    },
  );
}
