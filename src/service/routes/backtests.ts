import { Type } from 'typebox';
import { BacktestsQuery, BacktestsResponse, KeptBacktest } from '../../contract/backtests.ts';
import { paths } from '../../contract/paths.ts';
import { ObjectPath } from '../../contract/strategies.ts';
import { toOwnerColumns } from '../../workspace/owner.ts';
import type { PageRequest } from '../../workspace/pagination.ts';
import type { BacktestRow } from '../../workspace/tables.ts';
import { toListedBacktest, toSavedBacktest } from '../backtest-response.ts';
import type { BacktestService } from '../backtest-service.ts';
import type { ServiceContext } from '../context.ts';
import type { App } from '../fastify-types.ts';
import { ProblemError } from '../problem-details.ts';
import { requireUser } from '../route-access.ts';
import { readListPage } from '../user-resource.ts';
import { toUntypedExchange } from './export.ts';

/** `/api/v1/backtest`: the backtests that a user keeps. */
export function registerBacktestRoutes(app: App, { clock }: ServiceContext, { jobs, runner }: BacktestService): void {
  const ownBacktest = async (request: Parameters<typeof requireUser>[0], id: string): Promise<BacktestRow> => {
    const row = await jobs.get(toOwnerColumns(requireUser(request)), id);
    if (row === null) throw new ProblemError(404, 'There is no such backtest of this user.');
    return row;
  };

  app.get(
    paths.backtest,
    {
      config: { access: 'user' },
      schema: {
        summary: 'The backtests of a user, newest first',
        tags: ['users'],
        querystring: BacktestsQuery,
        response: { 200: BacktestsResponse },
      },
    },
    async (request, reply) => {
      const load = (page: PageRequest) =>
        jobs.list(toOwnerColumns(requireUser(toUntypedExchange(request, reply)[0])), page);
      const { objects, ...page } = await readListPage('backtests', request.query, load, toListedBacktest);
      return { backtests: objects, ...page, generated_at: clock.nowMs() };
    },
  );

  app.get(
    `${paths.backtest}/:id`,
    {
      config: { access: 'user' },
      schema: {
        summary: 'A backtest, with its result once it is done',
        tags: ['users'],
        params: ObjectPath,
        response: { 200: KeptBacktest },
      },
    },
    async (request, reply) =>
      toSavedBacktest(await ownBacktest(toUntypedExchange(request, reply)[0], request.params.id)),
  );

  app.delete(
    `${paths.backtest}/:id`,
    {
      config: { access: 'user' },
      schema: {
        summary: 'Removes a backtest; one that is not finished is broken off',
        tags: ['users'],
        params: ObjectPath,
        response: { 204: Type.Null({ description: 'It is removed.' }) },
      },
    },
    async (request, reply) => {
      const row = await ownBacktest(toUntypedExchange(request, reply)[0], request.params.id);
      await jobs.remove(row.id);
      runner.cancel(row.id);
      return reply.code(204).send(null);
    },
  );
}
