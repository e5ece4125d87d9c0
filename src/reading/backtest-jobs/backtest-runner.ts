import { join } from 'node:path';
import type { Archive } from '../../archive/open-archive.ts';
import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { BacktestAsked } from '../../research/backtest-request.ts';
import type { Strategy } from '../../research/strategy.ts';
import { tryLock } from '../../state/lock.ts';
import type { Backtests } from '../../workspace/backtests.ts';
import type { BacktestRow } from '../../workspace/tables.ts';
import { type JobRunner, startJobRunner } from '../job-runner.ts';
import { backtestInThread, failedBacktest, type RunAsked, reasons } from './backtest-in-thread.ts';

export interface RunnerParts {
  readonly archive: Archive;
  readonly jobs: Backtests;
  readonly clock: Clock;
  readonly log: Log;
  /** Threads that play one backtest, at least 1. */
  readonly threads: number;
  /** Ticks of one that is begun, weighed as `weightOf` does: the archive may have grown since it was asked for. */
  readonly ticksMax: number;
}

/** Works off the backtests that are to be kept. Begins at once, and goes on until it is stopped. */
export function startBacktestRunner({ archive, jobs, clock, log, threads, ticksMax }: RunnerParts): JobRunner {
  const { disk, layout } = archive;
  return startJobRunner<BacktestRow>(
    {
      plural: 'backtests',
      tryLock() {
        disk.makeFolder(layout.private);
        return tryLock(join(layout.private, 'backtests.lock'));
      },
      releaseAll: () => jobs.releaseAll(clock.nowMs()),
      tidy: async () => {},
      take: (me) => jobs.take(me, clock.nowMs()),
      progress: jobs.progress,
      release: jobs.release,
      async make(row, { signal, progress }) {
        let batches = 0;
        const told = (done: number, total: number): void => {
          batches = total;
          progress(done, total);
        };
        const asked = { ...askedOf(row), threads, ticksMax };
        const made = await backtestInThread(archive, asked, { signal, progress: told });
        return async (me) => {
          await jobs.finish(row.id, me, { state: 'done', at: clock.nowMs(), batches, ...made });
        };
      },
      async fail({ id }, me, error) {
        await jobs.finish(id, me, { state: 'failed', at: clock.nowMs(), error: toldOf(error) });
      },
    },
    { clock, log },
  );
}

const askedOf = ({ asked, strategy, strategy_version }: BacktestRow): Pick<RunAsked, 'asked' | 'found'> => ({
  asked: JSON.parse(asked) as BacktestAsked,
  found: { strategy: JSON.parse(strategy) as Strategy, version: strategy_version },
});

function toldOf(error: unknown): string {
  const { why, faults } = failedBacktest(error);
  if (why === 'unfit')
    return `It cannot be run as asked: ${faults.map(({ name, reason }) => `${name} ${reason}`).join('; ')}.`;
  return reasons[why];
}
