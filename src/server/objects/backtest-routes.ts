import type { Type } from 'typebox';
import type { Archive } from '../../archive/archive.ts';
import { failureMessages, runBacktestInThread, toBacktestFailure } from '../../backtest/run/backtest-job.ts';
import type { Clock, Log } from '../../base/ports.ts';
import { minuteMs } from '../../base/window.ts';
import type { BacktestSpec } from '../../contract/backtest-request.ts';
import {
  type BacktestResult,
  BacktestsQuery,
  BacktestsResponse,
  type ListedBacktest as Listed,
  SavedBacktest,
} from '../../contract/backtests.ts';
import { paths } from '../../contract/paths.ts';
import type { Strategy } from '../../contract/strategy-language.ts';
import type { ServiceLimits } from '../http/connection-limits.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import type { HeldArchiveLease } from '../jobs/archive-lease.ts';
import { JobRunner, runWithService, tryJobLock } from '../jobs/job-runner.ts';
import { prepareTradesTarget, removeOrphanTrades, removeTrades, toTradesColumns } from '../jobs/trades-files.ts';
import { BacktestStore, type ListedBacktest } from '../workspace/backtest-store.ts';
import type { BacktestRow } from '../workspace/tables.ts';
import { registerUserResource } from './user-resource.ts';

/** Shared state of the backtest routes. */
export interface BacktestService {
  readonly jobs: BacktestStore;
  /** Runs saved backtests while the service runs. */
  readonly runner: Pick<JobRunner, 'wake' | 'cancel'>;
}

export function openBacktestService(
  app: App,
  context: ServiceContext,
  lease: HeldArchiveLease,
  { backtestTicksJobMax: ticksMax, tradesBytesMax }: ServiceLimits,
): BacktestService {
  const { archive, clock, log, settings, workspace } = context;
  const jobs = new BacktestStore(workspace.db, lease.leaseId);
  const { threads } = settings.service.research;
  const start = () => startBacktestRunner({ archive, jobs, clock, log, threads, ticksMax, tradesBytesMax });
  return { jobs, runner: runWithService(app, lease, start) };
}

interface BacktestRunnerOptions {
  readonly archive: Archive;
  readonly jobs: BacktestStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Threads per backtest, at least 1. */
  readonly threads: number;
  /** Cost limit of a started backtest, as `estimateCost` computes it: the archive may have grown since the request. */
  readonly ticksMax: number;
  /** Maximum total size of the files with all trades of a user, bytes. */
  readonly tradesBytesMax: number;
}

/** Interval between two searches for orphans. */
const orphanIntervalMs = 10 * minuteMs;

/** Runs saved backtests as jobs until it is stopped. */
function startBacktestRunner(options: BacktestRunnerOptions): JobRunner {
  const { archive, jobs, threads, ticksMax, tradesBytesMax, ...ports } = options;
  let nextSearchMs = Number.NEGATIVE_INFINITY;
  return new JobRunner(
    {
      jobs,
      tryLock: () => tryJobLock(archive),
      async cleanUp() {
        const at = ports.clock.monotonicMs();
        if (at < nextSearchMs) return;
        nextSearchMs = at + orphanIntervalMs;
        await removeOrphanTrades(archive, jobs, ports.clock.nowMs());
      },
      async run({ id, owner, request, strategy, strategy_version: version }, { signal, progress }) {
        let batches = 0;
        const reportProgress = (done: number, total: number): void => {
          batches = total;
          progress(done, total);
        };
        const spec = JSON.parse(request) as BacktestSpec;
        const resolvedStrategy = { strategy: JSON.parse(strategy) as Strategy, version };
        const trades = await prepareTradesTarget(archive, jobs, { id, owner }, tradesBytesMax);
        const task = { spec, resolvedStrategy, threads, ticksMax, trades };
        try {
          const output = await runBacktestInThread(archive, task, { signal, progress: reportProgress });
          const { value, result } = output;
          return { value, result, batches_done: batches, batches_total: batches, ...toTradesColumns(output.trades) };
        } catch (error) {
          removeTrades(archive, id);
          throw error;
        }
      },
      describeFailure(error) {
        const { why, faults } = toBacktestFailure(error);
        if (why === 'invalid')
          return `The request is invalid: ${faults.map(({ name, reason }) => `${name} ${reason}`).join('; ')}.`;
        return failureMessages[why];
      },
      discard: ({ id }) => removeTrades(archive, id),
    },
    ports,
  );
}

/** URL of a saved backtest, relative to the service. */
export const toBacktestUrl = ({ id }: Pick<BacktestRow, 'id'>): string => `${paths.backtest}/${id}`;

function toTradesFile(row: ListedBacktest) {
  const { trades_bytes: bytes, trades_rows: rows, trades_sha256: sha256 } = row;
  if (bytes === null || rows === null || sha256 === null) return null;
  return { url: `${toBacktestUrl(row)}/trades?format=parquet`, bytes, sha256, rows };
}

/** A backtest as an item of a list. */
const toListedBacktest = (row: ListedBacktest): Type.Static<typeof Listed> => ({
  id: row.id,
  state: row.state,
  request: JSON.parse(row.request) as Type.Static<typeof Listed>['request'],
  strategy_version: row.strategy_version,
  value: row.value,
  progress: { batches_done: row.batches_done, batches_total: row.batches_total },
  created_at: row.created_at,
  started_at: row.started_at,
  finished_at: row.finished_at,
  trades_file: toTradesFile(row),
  error: row.error,
});

export const toSavedBacktest = (row: BacktestRow): Type.Static<typeof SavedBacktest> => ({
  ...toListedBacktest(row),
  // The types of the contract are mutable.
  result: row.result === null ? null : (JSON.parse(row.result) as Type.Static<typeof BacktestResult>),
});

/** `/api/v1/backtest`: the saved backtests of a user. */
export function registerBacktestRoutes(app: App, context: ServiceContext, { jobs, runner }: BacktestService): void {
  registerUserResource(app, context, {
    path: paths.backtest,
    noun: 'backtest',
    plural: 'backtests',
    querystring: BacktestsQuery,
    listResponse: BacktestsResponse,
    itemResponse: SavedBacktest,
    summaries: {
      list: 'The backtests of a user, newest first',
      get: 'A backtest, with its result once it is done',
      remove: 'Removes a backtest and its trades; cancels it if it is not finished',
    },
    list: (owner, page) => jobs.list(owner, page),
    get: (owner, id) => jobs.get(owner, id),
    async remove(owner, id) {
      if ((await jobs.get(owner, id)) === null) return false;
      await jobs.remove(id);
      runner.cancel(id);
      removeTrades(context.archive, id);
      return true;
    },
    toItem: toSavedBacktest,
    toListedItem: toListedBacktest,
  });
}
