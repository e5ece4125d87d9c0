import type { Archive } from '../../archive/archive.ts';
import type { Random } from '../../core/clock.ts';
import type { BacktestAsked } from '../../research/asked.ts';
import { countPoints } from '../../research/bind.ts';
import { ticksIn } from '../backtests/batches.ts';
import { readUniverse, spanOf } from '../backtests/universe.ts';
import { openPinned } from '../pinned.ts';

const memoryBytesMax = 512 * 1024 ** 2;

/**
 * About how many ticks a backtest plays, those of each point of a grid counted. Only the symbols dataset is read for it.
 * @throws UnfitBacktest as it would be thrown for the run
 */
export async function ticksAsked(
  archive: Archive,
  asked: BacktestAsked,
  random: Random,
  signal: AbortSignal,
): Promise<number> {
  const { query, pinned, close } = await openPinned(archive, { names: ['symbols'], memoryBytesMax }, random);
  try {
    const { members } = await readUniverse(query, asked, signal);
    const span = spanOf(members, asked, pinned.manifest.created_at);
    if (span === null) return 0;
    return members.reduce((sum, member) => sum + ticksIn(member, span), 0) * countPoints(asked.grid);
  } finally {
    await close();
  }
}
