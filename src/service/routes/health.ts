import { Type } from 'typebox';
import { paths } from '../../contract/paths.ts';
import type { App } from '../fastify-types.ts';

/** `/healthz`: the process answers. */
export function registerHealthRoutes(app: App): void {
  app.get(
    paths.health,
    {
      config: { access: 'open' },
      schema: {
        summary: 'Whether the process answers',
        tags: ['operations'],
        response: { 200: Type.Object({ status: Type.Literal('ok') }) },
      },
    },
    async () => ({ status: 'ok' as const }),
  );
}
