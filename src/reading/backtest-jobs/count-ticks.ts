import type { Archive } from '../../archive/open-archive.ts';
import type { Random } from '../../core/clock.ts';
import type { BacktestSpec } from '../../research/backtest-request.ts';
import { expandGrid } from '../../research/bind-parameters.ts';
import { estimateCost } from '../backtests/estimate-cost.ts';
import { bindGridPoints, type ResolvedStrategy } from '../backtests/run-backtest.ts';
import { computeSpan, readUniverse } from '../backtests/select-symbols.ts';
import { openPinned } from '../pinned-query.ts';

const memoryBytesMax = 512 * 1024 ** 2;

/**
 * What a backtest weighs that is not to be run now. Only the symbols dataset is read for it.
 * @throws UnfitBacktest as it would be thrown for the run
 */
export async function estimateTicks(
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
