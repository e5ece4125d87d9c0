import { startBacktestRunner } from '../reading/backtest-jobs/backtest-runner.ts';
import { placeOf } from '../reading/export-jobs/export-folder.ts';
import type { JobRunner } from '../reading/job-runner.ts';
import { type Backtests, backtests } from '../workspace/backtests.ts';
import type { App } from './app.ts';
import type { ServiceContext } from './context.ts';

/** What the routes of backtests share. */
export interface BacktestDesk {
  readonly jobs: Backtests;
  /** Works off what is to be kept, while the service runs. */
  readonly runner: Pick<JobRunner, 'wake' | 'breakOff'>;
}

export function openBacktestDesk(app: App, { archive, clock, log, random, settings, workspace }: ServiceContext) {
  const jobs = backtests(workspace.db, placeOf(archive, random));
  const { threads, ticksJobMax: ticksMax } = settings.service.research;
  let runner: JobRunner | undefined;
  app.addHook('onReady', async () => {
    runner = startBacktestRunner({ archive, jobs, clock, log, threads, ticksMax });
  });
  app.addHook('onClose', async () => runner?.stop());
  const desk: BacktestDesk = { jobs, runner: { wake: () => runner?.wake(), breakOff: (id) => runner?.breakOff(id) } };
  return desk;
}
