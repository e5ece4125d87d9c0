import { isFullDisk, type JobContext, serveThreadTask } from '../../archive/job-thread.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import { DamageError } from '../../base/errors.ts';
import type { Random } from '../../base/ports.ts';
import { systemRandom } from '../../base/system.ts';
import type { BacktestSpec } from '../backtest-spec.ts';
import { BacktestTooLargeError, computeSpan, estimateCost, readUniverse } from '../data/batches.ts';
import { InvalidBacktestError } from '../invalid-backtest.ts';
import { expandGrid } from '../strategy/parse-strategy.ts';
import type { BacktestFailure, BacktestOutput, BacktestTask } from './backtest-in-thread.ts';
import { bindGridPoints, type ResolvedStrategy, runBacktest } from './run-backtest.ts';

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

const memoryBytesMax = 512 * 1024 ** 2;

/**
 * What a backtest weighs that is not to be run now. Only the symbols dataset is read for it.
 * @throws InvalidBacktestError as it would be thrown for the run
 */
async function estimateTicks(
  archive: Archive,
  asked: BacktestSpec,
  found: ResolvedStrategy,
  random: Random,
  signal: AbortSignal,
): Promise<number> {
  const strategies = bindGridPoints(expandGrid(asked.grid), asked, found);
  const { query, pinned, close } = await openPinned(archive, { names: ['symbols'], memoryBytesMax }, random);
  try {
    const universe = await readUniverse(query, asked, signal);
    const span = computeSpan(universe.members, asked, pinned.manifest.created_at);
    return span === null ? 0 : estimateCost(universe, span, strategies);
  } finally {
    await close();
  }
}

await serveThreadTask(runTask, toFailure);
