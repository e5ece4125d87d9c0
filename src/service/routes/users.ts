import { paths } from '../../contract/paths.ts';
import { Problem, problemType } from '../../contract/problem.ts';
import { MeAnswer } from '../../contract/users.ts';
import type { Access } from '../access.ts';
import type { App } from '../app.ts';
import type { ServiceContext } from '../context.ts';
import { ProblemError } from '../problem.ts';

/** Users' objects, that a later version serves: method, path, who may, what. */
const coming: readonly (readonly ['GET' | 'POST', string, Access, string])[] = [
  ['GET', paths.backtest, 'user', 'The backtests of a user'],
  ['POST', paths.researchBacktest, 'research', 'Runs a strategy against the archive; needs the scope research'],
];

const notServed = 'This version does not serve the objects of users yet.';

/** `/api/v1/me`, and the routes of users' objects: their credentials are judged, and then it is said that they are to come. */
export function userRoutes(app: App, { settings, clock }: ServiceContext): void {
  app.get(
    paths.me,
    {
      config: { access: 'any' },
      schema: {
        summary: 'What the credential is and may do',
        tags: ['users'],
        security: [{ key: [] }, { user: [] }],
        response: { 200: MeAnswer },
      },
    },
    async ({ principal }): Promise<MeAnswer> => {
      const everybody = settings.service.requestsPerMinute;
      const generated_at = clock.nowMs();
      if (principal?.kind === 'key') {
        const { kind, id, name, requestsPerMinute } = principal;
        return { kind, key: { id, name }, requests_per_minute: requestsPerMinute ?? everybody, generated_at };
      }
      if (principal === null) throw new Error('a request without a credential came through');
      const { kind, user, workspace, scopes } = principal;
      return { kind, user, workspace, scopes: [...scopes], requests_per_minute: everybody, generated_at };
    },
  );
  for (const [method, url, access, summary] of coming) {
    app.route({
      ...{ method, url, config: { access } },
      schema: {
        ...{ summary, tags: ['users'], security: [{ user: [] }], description: notServed },
        response: { 501: { description: notServed, content: { [problemType]: { schema: Problem } } } },
      },
      // Before a body is read: nothing would be done with it.
      async preParsing() {
        throw new ProblemError(501, notServed);
      },
      async handler() {
        throw new ProblemError(501, notServed);
      },
    });
  }
}
