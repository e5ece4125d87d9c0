import type { Archive } from '../../archive/open-archive.ts';
import type { Random } from '../../core/clock.ts';
import type { BacktestAsked } from '../../research/backtest-request.ts';
import { gridPoints } from '../../research/bind-parameters.ts';
import { weightOf } from '../backtests/estimate-cost.ts';
import { boundAt, type Found } from '../backtests/run-backtest.ts';
import { readUniverse, spanOf } from '../backtests/select-symbols.ts';
import { openPinned } from '../pinned-query.ts';

const memoryBytesMax = 512 * 1024 ** 2;

/**
 * What a backtest weighs that is not to be run now. Only the symbols dataset is read for it.
 * @throws UnfitBacktest as it would be thrown for the run
 */
export async function ticksAsked(
  archive: Archive,
  asked: BacktestAsked,
  found: Found,
  random: Random,
  signal: AbortSignal,
): Promise<number> {
  const strategies = boundAt(gridPoints(asked.grid), asked, found);
  const { query, pinned, close } = await openPinned(archive, { names: ['symbols'], memoryBytesMax }, random);
  try {
    const universe = await readUniverse(query, asked, signal);
    const span = spanOf(universe.members, asked, pinned.manifest.created_at);
    return span === null ? 0 : weightOf(universe, span, strategies);
  } finally {
    await close();
  }
}
