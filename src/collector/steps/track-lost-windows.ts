import type { LostWindow } from '../../archive/format/coverage.ts';
import { type RecordedLoss, readAllLostTicks, readLostWindows } from '../../archive/journal/gap-records.ts';
import { covers, intersectTwo, isEmpty, subtract } from '../../base/window.ts';
import type { FetchFailure, TickCollectOutcome } from '../paging/collect-ticks.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import type { Run } from '../run/run.ts';
import type { RestoredCounts } from '../run/summary.ts';

/** What a run has to do with windows whose ticks were had once and are lost. */
export interface LostWindowState {
  /** Those that it asked for whole, by symbol. */
  readonly requested: Map<string, readonly LostWindow[]>;
  /** Keys of those for which no request of it failed. */
  readonly tried: Set<string>;
  /** Keys of those that answers covered wholly, with fewer ticks than were once had. */
  readonly confirmedLost: Set<string>;
}

/** Tells a lost window from all others. */
export const toLossKey = ({ dataset, symbol, from }: LostWindow): string => `${dataset} ${from} ${symbol}`;

/** Notes which lost windows the plans ask for. */
export function noteRequestedLosses(run: Run, plans: readonly SymbolPlan[]): void {
  const known = readAllLostTicks(run.archive.state.db);
  for (const { symbol, windows } of plans) {
    const lost = known.get(symbol)?.filter((window) => covers(windows, window)) ?? [];
    if (lost.length > 0) run.lostWindows.requested.set(symbol, lost);
  }
}

/** Notes windows that were answered and stay lost. */
export function noteConfirmedLosses(run: Run, windows: readonly LostWindow[]): void {
  for (const window of windows) run.lostWindows.confirmedLost.add(toLossKey(window));
}

/**
 * Which of the lost windows that were asked for were tried: all for which no request failed. Returns the failures of
 * the collection but for what the service does not bring of them, `reportDataLoss` being the one to tell of that.
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
