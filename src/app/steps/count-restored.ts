import { type RecordedLoss, readLostWindows } from '../../state/data-loss.ts';
import type { Run } from '../run.ts';
import type { RestoredCounts } from '../summary.ts';
import { toLossKey } from './track-lost-windows.ts';

export const listLostTickWindows = ({ archive }: Run): RecordedLoss[] =>
  readLostWindows(archive.state.db).filter(({ dataset }) => dataset === 'ticks');

/** Does some work of a run, and counts the lost windows that are whole again after it, however it ends. */
export async function countRestored(run: Run, from: keyof RestoredCounts, work: () => Promise<void>): Promise<void> {
  const before = listLostTickWindows(run);
  try {
    await work();
  } finally {
    const after = new Set(listLostTickWindows(run).map(toLossKey));
    const back = before.filter((loss) => !after.has(toLossKey(loss)));
    const ticks = back.reduce((sum, loss) => sum + loss.ticks, 0);
    run.restored = { ...run.restored, [from]: { windows: back.length, ticks } };
  }
}
