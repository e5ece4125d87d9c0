import type { LostWindow } from '../../core/data-loss.ts';
import { covers, intersection, isEmpty, subtract } from '../../core/window.ts';
import type { Collected, Failure } from '../../ingest/collect-ticks.ts';
import type { SymbolPlan } from '../../ingest/plan.ts';
import { allLostTicks } from '../../state/data-loss.ts';
import type { Run } from '../run.ts';

/** What a run has to do with windows whose ticks were had once and are lost. */
export interface LostOfRun {
  /** Those that it asked for whole, by symbol. */
  readonly asked: Map<string, readonly LostWindow[]>;
  /** Keys of those for which no request of it failed. */
  readonly tried: Set<string>;
  /** Keys of those that answers covered wholly, with fewer ticks than were once had. */
  readonly answered: Set<string>;
}

/** Tells a lost window from all others. */
export const keyOf = ({ dataset, symbol, from }: LostWindow): string => `${dataset} ${from} ${symbol}`;

/** Notes which lost windows the plans ask for. */
export function noteAsked(run: Run, plans: readonly SymbolPlan[]): void {
  const known = allLostTicks(run.archive.state.db);
  for (const { symbol, windows } of plans) {
    const lost = known.get(symbol)?.filter((window) => covers(windows, window)) ?? [];
    if (lost.length > 0) run.lost.asked.set(symbol, lost);
  }
}

/** Notes windows that were answered and stay lost. */
export function noteAnswered(run: Run, windows: readonly LostWindow[]): void {
  for (const window of windows) run.lost.answered.add(keyOf(window));
}

/**
 * Which of the lost windows that were asked for were tried: all for which no request failed. Returns the failures of
 * the collection but for what the service does not bring of them, `lostStep` being the one to tell of that.
 */
export function settleAsked(run: Run, { failures, unbrought }: Pick<Collected, 'failures' | 'unbrought'>): Failure[] {
  const errors = Map.groupBy(
    failures.filter((failure) => !unbrought.has(failure)),
    (failure) => failure.symbol,
  );
  for (const [symbol, lost] of run.lost.asked) {
    const failed = errors.get(symbol) ?? [];
    for (const window of lost)
      if (failed.every((failure) => isEmpty(intersection(failure, window)))) run.lost.tried.add(keyOf(window));
  }
  return failures.flatMap((failure) => {
    const lost = run.lost.asked.get(failure.symbol);
    if (lost === undefined || !unbrought.has(failure)) return [failure];
    return subtract([failure], lost).map((rest) => ({ ...failure, ...rest }));
  });
}
