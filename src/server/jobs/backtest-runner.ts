import { join } from 'node:path';
import { tryLock } from '../../archive/journal/lock.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { BacktestSpec } from '../../backtest/backtest-spec.ts';
import {
  type BacktestTask,
  failureMessages,
  runBacktestInThread,
  toBacktestFailure,
} from '../../backtest/run/backtest-job.ts';
import type { Strategy } from '../../backtest/strategy/strategy.ts';
import type { Clock, Log } from '../../base/ports.ts';
import type { BacktestStore } from '../workspace/backtests.ts';
import type { BacktestRow } from '../workspace/tables.ts';
import { type JobRunner, startJobRunner } from './job-runner.ts';

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
export function startBacktestRunner({
  archive,
  jobs,
  clock,
  log,
  threads,
  ticksMax,
}: BacktestRunnerOptions): JobRunner {
  const { disk, layout } = archive;
  return startJobRunner<BacktestRow>(
    {
      plural: 'backtests',
      tryLock() {
        disk.makeFolder(layout.privateFolder);
        return tryLock(join(layout.privateFolder, 'backtests.lock'));
      },
      releaseAll: () => jobs.releaseAll(clock.nowMs()),
      cleanUp: async () => {},
      take: (runner) => jobs.take(runner, clock.nowMs()),
      progress: jobs.progress,
      release: jobs.release,
      async run(row, { signal, progress }) {
        let batches = 0;
        const reportProgress = (done: number, total: number): void => {
          batches = total;
          progress(done, total);
        };
        const task = { ...toBacktestTask(row), threads, ticksMax };
        const output = await runBacktestInThread(archive, task, { signal, progress: reportProgress });
        return async (runner) => {
          await jobs.finish(row.id, runner, { state: 'done', at: clock.nowMs(), batches, ...output });
        };
      },
      async fail({ id }, runner, error) {
        await jobs.finish(id, runner, { state: 'failed', at: clock.nowMs(), error: toErrorMessage(error) });
      },
    },
    { clock, log },
  );
}

const toBacktestTask = ({
  request: specJson,
  strategy,
  strategy_version,
}: BacktestRow): Pick<BacktestTask, 'spec' | 'resolvedStrategy'> => ({
  spec: JSON.parse(specJson) as BacktestSpec,
  resolvedStrategy: { strategy: JSON.parse(strategy) as Strategy, version: strategy_version },
});

function toErrorMessage(error: unknown): string {
  const { why, faults } = toBacktestFailure(error);
  if (why === 'invalid')
    return `The request is invalid: ${faults.map(({ name, reason }) => `${name} ${reason}`).join('; ')}.`;
  return failureMessages[why];
}
