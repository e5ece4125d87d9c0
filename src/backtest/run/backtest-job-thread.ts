import type { Archive } from '../../archive/archive.ts';
import { isDiskFullError, type JobContext, serveThreadTask } from '../../archive/job-thread.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import { DamageError } from '../../base/errors.ts';
import type { Random } from '../../base/ports.ts';
import { systemRandom } from '../../base/system.ts';
import type { BacktestSpec } from '../../contract/backtest-request.ts';
import { BacktestTooLargeError, computeSpan, estimateCost, memoryBytesMax, readUniverse } from '../data/batches.ts';
import { type StoredTrades, storeTrades } from '../data/stored-trades.ts';
import type { SortedTrades } from '../data/trade-files.ts';
import { bindGridPoints, InvalidBacktestError, type ResolvedStrategy } from '../resolve-strategy.ts';
import { expandGrid } from '../strategy/parse-strategy.ts';
import type { BacktestFailure, BacktestOutput, BacktestTask } from './backtest-job.ts';
import { runBacktest } from './run-backtest.ts';

// Entry point of a thread that runs one backtest.

async function runTask(
  archive: Archive,
  { spec, resolvedStrategy, threads, ticksMax, trades: target }: BacktestTask,
  context: JobContext,
): Promise<BacktestOutput> {
  if (threads === 0) {
    const ticks = await estimateTicks(archive, spec, resolvedStrategy, systemRandom, context.signal);
    if (ticks > ticksMax) throw new BacktestTooLargeError(`${ticks} ticks`);
    return { value: null, result: '', trades: null };
  }
  let trades: StoredTrades | null = null;
  const saveTrades = async (sorted: SortedTrades): Promise<void> => {
    trades = await storeTrades(archive.disk, target!, generateId(), sorted);
  };
  const result = await runBacktest(archive, spec, resolvedStrategy, {
    random: systemRandom,
    threads,
    ticksMax,
    ...(target !== null && { saveTrades }),
    ...context,
  });
  return { value: result.value, result: JSON.stringify(result), trades };
}

const generateId = (): string => Math.floor(systemRandom() * 36 ** 8).toString(36);

function toFailure(error: unknown): Omit<BacktestFailure, 'message'> {
  if (error instanceof InvalidBacktestError) return { why: 'invalid', faults: error.faults };
  if (error instanceof BacktestTooLargeError) return { why: 'too large', faults: [] };
  if (error instanceof DamageError) return { why: 'damaged', faults: [] };
  return { why: isDiskFullError(error) ? 'full' : 'unexpected', faults: [] };
}

/**
 * Estimates the cost of a backtest without running it. Reads only the symbols dataset.
 * @throws InvalidBacktestError in the same cases as runBacktest
 */
async function estimateTicks(
  archive: Archive,
  spec: BacktestSpec,
  resolved: ResolvedStrategy,
  random: Random,
  signal: AbortSignal,
): Promise<number> {
  const strategies = bindGridPoints(expandGrid(spec.grid), spec, resolved);
  const { query, pinned, close } = await openPinned(archive, { names: ['symbols'], memoryBytesMax }, random);
  try {
    const universe = await readUniverse(query, spec, signal);
    const span = computeSpan(universe.members, spec, pinned.manifest.created_at);
    return span === null ? 0 : estimateCost(universe, span, strategies);
  } finally {
    await close();
  }
}

await serveThreadTask(runTask, toFailure);
