import { countPublishedTicks } from '../../archive/count-lost-ticks.ts';
import { union } from '../../core/window.ts';
import type { SymbolPlan } from '../../ingest/plan.ts';
import type { RecordedLoss } from '../../state/data-loss.ts';
import type { Run } from '../run.ts';
import { listLostTickWindows } from './count-restored.ts';
import { collectPlans } from './poll-steps.ts';
import { publishJournal } from './publish-step.ts';
import { toLossKey } from './track-lost-windows.ts';

/** Every symbol that lost ticks, whatever became of it since, with its lost windows whole. */
const planRefetch = (lost: readonly RecordedLoss[]): SymbolPlan[] =>
  [...Map.groupBy(lost, ({ symbol }) => symbol)].map(([symbol, windows]) => ({
    symbol,
    windows: union(windows),
    isFirst: false,
  }));

/**
 * Asks for all ticks that are lost, and publishes what comes. A window proves to be back by answers that are published
 * together: where the journal grew so large that it was published on the way, what that cut apart is asked for again, one
 * window after the other, whatever the journal comes to hold: none is longer than a day of one symbol.
 */
export async function refetchLostWindows(run: Run): Promise<void> {
  const plans = planRefetch(listLostTickWindows(run));
  if (plans.length === 0) return;
  const generation = run.archive.state.generation();
  await collectPlans(run, plans, 'backfill');
  const wasCut = run.archive.state.generation() !== generation;
  await publishJournal(run);
  if (!wasCut) return;
  const { tried, confirmedLost } = run.lostWindows;
  const apart = listLostTickWindows(run).filter(
    (loss) => tried.has(toLossKey(loss)) && !confirmedLost.has(toLossKey(loss)),
  );
  for (const loss of apart) {
    await collectPlans(run, planRefetch([loss]), 'backfill', { journalTicksMax: Number.POSITIVE_INFINITY });
    await publishJournal(run);
  }
}

/** Says what is lost where there is nobody to ask for it: told as a failure, but not as one that was tried. */
export function reportLossesWithoutUpstream(run: Run): void {
  const lost = listLostTickWindows(run).filter(({ reportedAt }) => reportedAt === null);
  const held = countPublishedTicks(run.archive, lost);
  for (const [i, { symbol, from, to, ticks }] of lost.entries()) {
    const reason = `lost: ${held[i]} of ${ticks} ticks are left, and nobody was asked: there is no upstream in the settings`;
    run.failures.push({ symbol, from, to, reason });
  }
}
