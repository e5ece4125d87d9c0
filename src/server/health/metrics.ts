import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { readArchiveStatus } from '../../archive/read/archive-status.ts';
import { paths } from '../../contract/paths.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { expositionContentType, formatExposition, openRequestMetrics } from '../../metrics/prometheus.ts';
import { readArchiveSamples } from '../../metrics/samples.ts';
import type { App, ServiceContext } from '../http/context.ts';

interface MetricsEndpoint {
  /** Counts a request from now until its response ends or its client disconnects. */
  observeRequest(request: FastifyRequest, reply: FastifyReply): void;
  /** Formats the metrics in the Prometheus text format. */
  render(): Promise<string>;
  readonly contentType: string;
  close(): void;
}

/** The route label of requests that match no route: the number of their paths is unlimited. */
const unmatchedRoute = 'none';

/** The metrics of one service; a process may have several services. */
function openMetrics(context: ServiceContext): MetricsEndpoint {
  const metrics = openRequestMetrics();
  const { clock } = context;
  // A connection carries several responses: remember how many of its bytes are counted already.
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

/** `/metrics` and its hooks. Register it before all other routes and hooks, so that every request is counted. */
export function registerMetricsRoutes(app: App, context: ServiceContext): void {
  const metrics = openMetrics(context);
  app.addHook('onRequest', async (request, reply) => metrics.observeRequest(request, reply));
  app.addHook('onClose', async () => metrics.close());
  app.get(
    paths.metrics,
    {
      config: { access: 'open' },
      schema: {
        summary: 'Metrics in the Prometheus text format',
        description:
          'Requests by route, method and status, durations, bytes sent, the state of the archive, and the process.',
        tags: ['operations'],
        response: { 200: { description: 'Metrics.', content: { 'text/plain': { schema: Type.String() } } } },
      },
    },
    async (_, reply) => reply.type(metrics.contentType).send((await metrics.render()) as never),
  );
}
