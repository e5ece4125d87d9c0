import { type KnownLoss, lostWindows } from '../../state/data-loss.ts';
import type { Run } from '../run.ts';
import type { Restored } from '../summary.ts';
import { keyOf } from './track-lost-windows.ts';

export const lostTicks = ({ archive }: Run): KnownLoss[] =>
  lostWindows(archive.state.db).filter(({ dataset }) => dataset === 'ticks');

/** Does some work of a run, and counts the lost windows that are whole again after it, however it ends. */
export async function countRestored(run: Run, from: keyof Restored, work: () => Promise<void>): Promise<void> {
  const before = lostTicks(run);
  try {
    await work();
  } finally {
    const after = new Set(lostTicks(run).map(keyOf));
    const back = before.filter((loss) => !after.has(keyOf(loss)));
    const ticks = back.reduce((sum, loss) => sum + loss.ticks, 0);
    run.restored = { ...run.restored, [from]: { windows: back.length, ticks } };
  }
}
