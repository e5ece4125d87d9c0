import type { Archive } from '../../archive/open-archive.ts';
import { DamageError } from '../../core/errors.ts';
import { systemRandom } from '../../system.ts';
import { TooManyAsked } from '../backtests/estimate-cost.ts';
import { UnfitBacktest } from '../backtests/invalid-backtest.ts';
import { runBacktest } from '../backtests/run-backtest.ts';
import { isFullDisk, type Watching, workAsked } from '../job-thread.ts';
import type { FailedBacktest, RunAsked, RunMade } from './backtest-in-thread.ts';
import { ticksAsked } from './count-ticks.ts';

// The entry of a thread of its own: one backtest.

async function run(
  archive: Archive,
  { asked, found, threads, ticksMax }: RunAsked,
  watching: Watching,
): Promise<RunMade> {
  if (threads === 0) {
    const ticks = await ticksAsked(archive, asked, found, systemRandom, watching.signal);
    if (ticks > ticksMax) throw new TooManyAsked(`${ticks} ticks`);
    return { value: null, result: '' };
  }
  const result = await runBacktest(archive, asked, found, { random: systemRandom, threads, ticksMax, ...watching });
  return { value: result.value, result: JSON.stringify(result) };
}

function failureOf(error: unknown): Omit<FailedBacktest, 'message'> {
  if (error instanceof UnfitBacktest) return { why: 'unfit', faults: error.faults };
  if (error instanceof TooManyAsked) return { why: 'too large', faults: [] };
  if (error instanceof DamageError) return { why: 'damaged', faults: [] };
  return { why: isFullDisk(error) ? 'full' : 'unexpected', faults: [] };
}

await workAsked(run, failureOf);
