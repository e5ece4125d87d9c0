import type { LostWindow } from '../../archive/format/coverage.ts';
import { type RecordedLoss, readAllLostTicks, readLostWindows } from '../../archive/journal/gap-records.ts';
import type { RestoredCounts } from '../../archive/journal/run-summary.ts';
import { isSymbolOf } from '../../base/source-name.ts';
import { covers, intersectTwo, isEmpty, subtract } from '../../base/window.ts';
import type { FetchFailure, TickCollectOutcome } from '../paging/collect-ticks.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import type { Run } from '../run/run.ts';

export const toLossKey = ({ dataset, symbol, from }: LostWindow): string => `${dataset} ${from} ${symbol}`;

export function noteRequestedLosses(run: Run, plans: readonly SymbolPlan[]): void {
  const known = readAllLostTicks(run.archive.state.db);
  for (const { symbol, windows } of plans) {
    const lost = known.get(symbol)?.filter((window) => covers(windows, window)) ?? [];
    if (lost.length > 0) run.lostWindows.requested.set(symbol, lost);
  }
}

/** Records windows that were requested and remain lost. */
export function noteConfirmedLosses(run: Run, windows: readonly LostWindow[]): void {
  for (const window of windows) run.lostWindows.confirmedLost.add(toLossKey(window));
}

/**
 * Records which requested lost windows were tried, which means that no request for them failed. Returns the failures of
 * the collection, except for lost windows that the service does not have: `reportDataLoss` reports those.
 */
export function settleRequestedLosses(
  run: Run,
  { failures, notServed }: Pick<TickCollectOutcome, 'failures' | 'notServed'>,
): FetchFailure[] {
  const errors = Map.groupBy(
    failures.filter((failure) => !notServed.has(failure)),
    (failure) => failure.symbol,
  );
  for (const [symbol, lost] of run.lostWindows.requested) {
    const failed = errors.get(symbol) ?? [];
    for (const window of lost)
      if (failed.every((failure) => isEmpty(intersectTwo(failure, window))))
        run.lostWindows.tried.add(toLossKey(window));
  }
  return failures.flatMap((failure) => {
    const lost = run.lostWindows.requested.get(failure.symbol);
    if (lost === undefined || !notServed.has(failure)) return [failure];
    return subtract([failure], lost).map((rest) => ({ ...failure, ...rest }));
  });
}

export const listLostTickWindows = ({ archive, source }: Run): RecordedLoss[] =>
  readLostWindows(archive.state.db).filter(({ dataset, symbol }) => dataset === 'ticks' && isSymbolOf(source, symbol));

/** Runs `work` and counts the lost windows that it restores, even if it throws. */
export async function countRestored(run: Run, from: keyof RestoredCounts, work: () => Promise<void>): Promise<void> {
  const before = listLostTickWindows(run);
  try {
    await work();
  } finally {
    const after = new Set(listLostTickWindows(run).map(toLossKey));
    const restored = before.filter((loss) => !after.has(toLossKey(loss)));
    const ticks = restored.reduce((sum, loss) => sum + loss.ticks, 0);
    run.restored = { ...run.restored, [from]: { windows: restored.length, ticks } };
  }
}
