import { Type } from 'typebox';
import { paths } from '../../contract/paths.ts';
import type { ServiceContext } from '../context.ts';
import type { App } from '../fastify-types.ts';
import { openMetrics } from '../metrics.ts';

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
