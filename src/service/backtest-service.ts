import { startBacktestRunner } from '../reading/backtest-jobs/backtest-runner.ts';
import type { JobRunner } from '../reading/job-runner.ts';
import { type Backtests, backtests } from '../workspace/backtests.ts';
import type { OwnPlace } from './archive-lease.ts';
import type { ServiceContext } from './context.ts';
import type { App } from './fastify-types.ts';

/** What the routes of backtests share. */
export interface BacktestDesk {
  readonly jobs: Backtests;
  /** Works off what is to be kept, while the service runs. */
  readonly runner: Pick<JobRunner, 'wake' | 'breakOff'>;
}

export function openBacktestDesk(app: App, context: ServiceContext, { place, lost }: OwnPlace): BacktestDesk {
  const { archive, clock, log, settings, workspace } = context;
  const jobs = backtests(workspace.db, place);
  const { threads, ticksJobMax: ticksMax } = settings.service.research;
  let runner: JobRunner | undefined;
  app.addHook('onReady', async () => {
    runner = startBacktestRunner({ archive, jobs, clock, log, threads, ticksMax });
    lost.addEventListener('abort', () => void runner?.stop());
  });
  app.addHook('onClose', async () => runner?.stop());
  return { jobs, runner: { wake: () => runner?.wake(), breakOff: (id) => runner?.breakOff(id) } };
}
