import { paths } from '../../contract/paths.ts';
import { MeResponse } from '../../contract/service.ts';
import type { App, ServiceContext } from '../http/context.ts';

/** `/api/v1/me`. */
export function registerUserRoutes(app: App, { settings, clock }: ServiceContext): void {
  app.get(
    paths.me,
    {
      config: { access: 'any' },
      schema: {
        summary: 'The credential and its permissions',
        tags: ['users'],
        response: { 200: MeResponse },
      },
    },
    async ({ principal }): Promise<MeResponse> => {
      const defaultQuota = settings.service.requestsPerMinute;
      const generated_at = clock.nowMs();
      if (principal?.kind === 'key') {
        const { kind, id, name, requestsPerMinute } = principal;
        return { kind, key: { id, name }, requests_per_minute: requestsPerMinute ?? defaultQuota, generated_at };
      }
      if (principal === null) throw new Error('a request without a credential passed authentication');
      const { kind, user, workspace, scopes } = principal;
      return { kind, user, workspace, scopes: [...scopes], requests_per_minute: defaultQuota, generated_at };
    },
  );
}
