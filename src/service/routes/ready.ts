import { paths } from '../../contract/paths.ts';
import { ReadyResponse } from '../../contract/ready.ts';
import type { ServiceContext } from '../context.ts';
import type { App } from '../fastify-types.ts';
import { ProblemError } from '../problem-details.ts';
import { checkReadiness } from '../readiness.ts';

/** `/readyz`: whether requests should come here. */
export function registerReadyRoutes(app: App, context: ServiceContext): void {
  app.get(
    paths.ready,
    {
      config: { access: 'open' },
      schema: {
        summary: 'Whether the archive can be read and is kept up to date',
        description: 'Otherwise 503, with what is wrong: the archive, its watermark, or the database of keys.',
        tags: ['operations'],
        security: [],
        response: { 200: ReadyResponse },
      },
    },
    async (_, reply) => {
      reply.header('cache-control', 'no-store');
      const { generation, lagSeconds, verdict, wrong } = await checkReadiness(context);
      if (wrong.length > 0 || generation === null || verdict === null) {
        const said = wrong.map(({ name, reason }) => `The ${name} ${reason}.`).join(' ');
        throw new ProblemError(503, said, { errors: [...wrong], headers: { 'cache-control': 'no-store' } });
      }
      return { status: 'ready' as const, generation, lag_seconds: lagSeconds, verdict };
    },
  );
}
