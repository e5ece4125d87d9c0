import { Type } from 'typebox';
import {
  type BacktestResult,
  BacktestsQuery,
  BacktestsResponse,
  type ListedBacktest as Listed,
  SavedBacktest,
} from '../../contract/backtests.ts';
import { paths } from '../../contract/paths.ts';
import { ObjectPath } from '../../contract/strategies.ts';
import { requireUser } from '../auth/authenticate.ts';
import { toUntypedExchange } from '../exports/published-files.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { HeldArchiveLease } from '../jobs/archive-lease.ts';
import { startBacktestRunner } from '../jobs/backtest-runner.ts';
import type { JobRunner } from '../jobs/job-runner.ts';
import { type BacktestStore, createBacktestStore, type ListedBacktest } from '../workspace/backtests.ts';
import { toOwnerColumns } from '../workspace/owner.ts';
import type { BacktestRow, PageRequest } from '../workspace/tables.ts';
import { readListPage } from './user-resource.ts';

/** Shared state of the backtest routes. */
export interface BacktestService {
  readonly jobs: BacktestStore;
  /** Runs saved backtests while the service runs. */
  readonly runner: Pick<JobRunner, 'wake' | 'cancel'>;
}

export function openBacktestService(
  app: App,
  context: ServiceContext,
  { leaseId, lostSignal }: HeldArchiveLease,
): BacktestService {
  const { archive, clock, log, settings, workspace } = context;
  const jobs = createBacktestStore(workspace.db, leaseId);
  const { threads, ticksJobMax: ticksMax } = settings.service.research;
  let runner: JobRunner | undefined;
  app.addHook('onReady', async () => {
    runner = startBacktestRunner({ archive, jobs, clock, log, threads, ticksMax });
    lostSignal.addEventListener('abort', () => void runner?.stop());
  });
  app.addHook('onClose', async () => runner?.stop());
  return { jobs, runner: { wake: () => runner?.wake(), cancel: (id) => runner?.cancel(id) } };
}

/** URL of a saved backtest, relative to the service. */
export const toBacktestUrl = ({ id }: Pick<BacktestRow, 'id'>): string => `${paths.backtest}/${id}`;

/** A backtest as an item of a list. */
const toListedBacktest = (row: ListedBacktest): Type.Static<typeof Listed> => ({
  id: row.id,
  state: row.state,
  request: JSON.parse(row.request),
  strategy_version: row.strategy_version,
  value: row.value,
  progress: { batches_done: row.batches_done, batches_total: row.batches_total },
  created_at: row.created_at,
  started_at: row.started_at,
  finished_at: row.finished_at,
  error: row.error,
});

/** A backtest with its result. */
export const toSavedBacktest = (row: BacktestRow): Type.Static<typeof SavedBacktest> => ({
  ...toListedBacktest(row),
  result: row.result === null ? null : (JSON.parse(row.result) as Type.Static<typeof BacktestResult>),
});

/** `/api/v1/backtest`: the saved backtests of a user. */
export function registerBacktestRoutes(app: App, { clock }: ServiceContext, { jobs, runner }: BacktestService): void {
  const ownBacktest = async (request: Parameters<typeof requireUser>[0], id: string): Promise<BacktestRow> => {
    const row = await jobs.get(toOwnerColumns(requireUser(request)), id);
    if (row === null) throw new ProblemError(404, 'This user has no such backtest.');
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
        response: { 200: SavedBacktest },
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
        summary: 'Removes a backtest; cancels it if it is not finished',
        tags: ['users'],
        params: ObjectPath,
        response: { 204: Type.Null({ description: 'The backtest was removed.' }) },
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
