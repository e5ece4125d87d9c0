import type { Archive } from '../../archive/open-archive.ts';
import { DamageError } from '../../core/errors.ts';
import { systemRandom } from '../../system.ts';
import { BacktestTooLargeError } from '../backtests/estimate-cost.ts';
import { InvalidBacktestError } from '../backtests/invalid-backtest.ts';
import { runBacktest } from '../backtests/run-backtest.ts';
import { isFullDisk, type JobContext, serveThreadTask } from '../job-thread.ts';
import type { BacktestFailure, BacktestOutput, BacktestTask } from './backtest-in-thread.ts';
import { estimateTicks } from './count-ticks.ts';

// The entry of a thread of its own: one backtest.

async function runTask(
  archive: Archive,
  { spec, resolvedStrategy, threads, ticksMax }: BacktestTask,
  watching: JobContext,
): Promise<BacktestOutput> {
  if (threads === 0) {
    const ticks = await estimateTicks(archive, spec, resolvedStrategy, systemRandom, watching.signal);
    if (ticks > ticksMax) throw new BacktestTooLargeError(`${ticks} ticks`);
    return { value: null, result: '' };
  }
  const result = await runBacktest(archive, spec, resolvedStrategy, {
    random: systemRandom,
    threads,
    ticksMax,
    ...watching,
  });
  return { value: result.value, result: JSON.stringify(result) };
}

function toFailure(error: unknown): Omit<BacktestFailure, 'message'> {
  if (error instanceof InvalidBacktestError) return { why: 'unfit', faults: error.faults };
  if (error instanceof BacktestTooLargeError) return { why: 'too large', faults: [] };
  if (error instanceof DamageError) return { why: 'damaged', faults: [] };
  return { why: isFullDisk(error) ? 'full' : 'unexpected', faults: [] };
}

await serveThreadTask(runTask, toFailure);
