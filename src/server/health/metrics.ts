import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { readArchiveStatus } from '../../archive/read/archive-status.ts';
import { paths } from '../../contract/paths.ts';
import { readArchiveSamples } from '../../metrics/archive-metrics.ts';
import { expositionContentType, formatExposition } from '../../metrics/exposition-format.ts';
import { openRequestMetrics } from '../../metrics/http-metrics.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import type { App, ServiceContext } from '../http/context.ts';

export interface MetricsEndpoint {
  /** Counts a request from now until its answer is over, or its client gone. */
  observeRequest(request: FastifyRequest, reply: FastifyReply): void;
  /** In the text format of Prometheus. */
  render(): Promise<string>;
  readonly contentType: string;
  close(): void;
}

/** The route of requests for which there is none: their paths are without end. */
const unmatchedRoute = 'none';

/** The metrics of one service: a process may hold several. */
export function openMetrics(context: ServiceContext): MetricsEndpoint {
  const metrics = openRequestMetrics();
  const { clock } = context;
  // A connection carries many answers: what it had sent before the last one ended is counted.
  const counted = new WeakMap<object, number>();
  return {
    contentType: expositionContentType,
    observeRequest(request, reply) {
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
    render: async () => (await metrics.formatText()) + (await formatExposition(collectSamples(context))),
    close: () => metrics.close(),
  };
}

function collectSamples({ archive, files, clock, log }: ServiceContext): Sample[] {
  const { bytes, files: count } = files.getCacheSize();
  return [
    { name: 'oddslake_cache_bytes', labels: {}, value: bytes },
    { name: 'oddslake_cache_files', labels: {}, value: count },
    ...readArchiveSamples(() => readArchiveStatus(archive, clock.nowMs()), clock.nowMs(), log),
  ];
}

/** `/metrics`, and what counts for it. Before every other route and hook, so that nothing goes by uncounted. */
export function registerMetricsRoutes(app: App, context: ServiceContext): void {
  const metrics = openMetrics(context);
  app.addHook('onRequest', async (request, reply) => metrics.observeRequest(request, reply));
  app.addHook('onClose', async () => metrics.close());
  app.get(
    paths.metrics,
    {
      config: { access: 'open' },
      schema: {
        summary: 'Metrics in the text format of Prometheus',
        description:
          'Requests by route, method and status, their durations, bytes sent, how the archive stands, the process.',
        tags: ['operations'],
        security: [],
        response: { 200: { description: 'Metrics.', content: { 'text/plain': { schema: Type.String() } } } },
      },
    },
    async (_, reply) => {
      reply.header('cache-control', 'no-store').type(metrics.contentType);
      return reply.send((await metrics.render()) as never);
    },
  );
}
