import type { Archive } from '../../archive/archive.ts';
import { failureMessages, runBacktestInThread, toBacktestFailure } from '../../backtest/run/backtest-job.ts';
import type { Clock, Log } from '../../base/ports.ts';
import { minuteMs } from '../../base/window.ts';
import type { BacktestSpec } from '../../contract/backtest-request.ts';
import type { Strategy } from '../../contract/strategy-language.ts';
import type { BacktestStore } from '../workspace/backtest-store.ts';
import type { BacktestRow } from '../workspace/tables.ts';
import { type JobRunner, startJobRunner, tryJobLock } from './job-runner.ts';
import { prepareTradesTarget, removeOrphanTrades, removeTrades, toTradesColumns } from './trades-files.ts';

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
export function startBacktestRunner(options: BacktestRunnerOptions): JobRunner {
  const { archive, jobs, threads, ticksMax, tradesBytesMax, ...ports } = options;
  let nextSearchMs = Number.NEGATIVE_INFINITY;
  return startJobRunner<BacktestRow>(
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
