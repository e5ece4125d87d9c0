import { join } from 'node:path';
import { tryLock } from '../../archive/journal/lock.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { BacktestSpec } from '../../backtest/backtest-spec.ts';
import {
  type BacktestTask,
  failureMessages,
  runBacktestInThread,
  toBacktestFailure,
} from '../../backtest/run/backtest-in-thread.ts';
import type { Strategy } from '../../backtest/strategy/strategy.ts';
import type { Clock, Log } from '../../base/ports.ts';
import type { BacktestStore } from '../workspace/backtests.ts';
import type { BacktestRow } from '../workspace/tables.ts';
import { type JobRunner, startJobRunner } from './job-runner.ts';

export interface BacktestRunnerOptions {
  readonly archive: Archive;
  readonly jobs: BacktestStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Threads that play one backtest, at least 1. */
  readonly threads: number;
  /** Ticks of one that is begun, weighed as `estimateCost` does: the archive may have grown since it was asked for. */
  readonly ticksMax: number;
}

/** Works off the backtests that are to be kept. Begins at once, and goes on until it is stopped. */
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
      take: (me) => jobs.take(me, clock.nowMs()),
      progress: jobs.progress,
      release: jobs.release,
      async run(row, { signal, progress }) {
        let batches = 0;
        const told = (done: number, total: number): void => {
          batches = total;
          progress(done, total);
        };
        const asked = { ...toBacktestTask(row), threads, ticksMax };
        const made = await runBacktestInThread(archive, asked, { signal, progress: told });
        return async (me) => {
          await jobs.finish(row.id, me, { state: 'done', at: clock.nowMs(), batches, ...made });
        };
      },
      async fail({ id }, me, error) {
        await jobs.finish(id, me, { state: 'failed', at: clock.nowMs(), error: toErrorMessage(error) });
      },
    },
    { clock, log },
  );
}

const toBacktestTask = ({
  asked,
  strategy,
  strategy_version,
}: BacktestRow): Pick<BacktestTask, 'spec' | 'resolvedStrategy'> => ({
  spec: JSON.parse(asked) as BacktestSpec,
  resolvedStrategy: { strategy: JSON.parse(strategy) as Strategy, version: strategy_version },
});

function toErrorMessage(error: unknown): string {
  const { why, faults } = toBacktestFailure(error);
  if (why === 'unfit')
    return `It cannot be run as asked: ${faults.map(({ name, reason }) => `${name} ${reason}`).join('; ')}.`;
  return failureMessages[why];
}
