import type { Archive } from '../../archive/open-archive.ts';
import { addSpecDefaults } from '../../backtest/backtest-spec.ts';
import { failureMessages, runBacktestInThread, toBacktestFailure } from '../../backtest/run/backtest-job.ts';
import type { Strategy } from '../../backtest/strategy/strategy.ts';
import type { Clock, Log } from '../../base/ports.ts';
import type { BacktestStore } from '../workspace/backtests.ts';
import type { BacktestRow } from '../workspace/tables.ts';
import { type JobRunner, startJobRunner, tryJobLock } from './job-runner.ts';

interface BacktestRunnerOptions {
  readonly archive: Archive;
  readonly jobs: BacktestStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Threads per backtest, at least 1. */
  readonly threads: number;
  /** Cost limit of a started backtest, as `estimateCost` computes it: the archive may have grown since the request. */
  readonly ticksMax: number;
}

/** Runs saved backtests as jobs until it is stopped. */
export const startBacktestRunner = ({ archive, jobs, threads, ticksMax, ...ports }: BacktestRunnerOptions): JobRunner =>
  startJobRunner<BacktestRow>(
    {
      plural: 'backtests',
      jobs,
      tryLock: () => tryJobLock(archive, 'backtests'),
      async run({ request, strategy, strategy_version: version }, { signal, progress }) {
        let batches = 0;
        const reportProgress = (done: number, total: number): void => {
          batches = total;
          progress(done, total);
        };
        const spec = addSpecDefaults(JSON.parse(request));
        const resolvedStrategy = { strategy: JSON.parse(strategy) as Strategy, version };
        const task = { spec, resolvedStrategy, threads, ticksMax };
        const { value, result } = await runBacktestInThread(archive, task, { signal, progress: reportProgress });
        return { value, result, batches_done: batches, batches_total: batches };
      },
      describeFailure(error) {
        const { why, faults } = toBacktestFailure(error);
        if (why === 'invalid')
          return `The request is invalid: ${faults.map(({ name, reason }) => `${name} ${reason}`).join('; ')}.`;
        return failureMessages[why];
      },
    },
    ports,
  );
