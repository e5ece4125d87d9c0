import { startBacktestRunner } from '../reading/backtest-jobs/backtest-runner.ts';
import type { JobRunner } from '../reading/job-runner.ts';
import { type BacktestStore, createBacktestStore } from '../workspace/backtests.ts';
import type { HeldArchiveLease } from './archive-lease.ts';
import type { ServiceContext } from './context.ts';
import type { App } from './fastify-types.ts';

/** What the routes of backtests share. */
export interface BacktestService {
  readonly jobs: BacktestStore;
  /** Works off what is to be kept, while the service runs. */
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
