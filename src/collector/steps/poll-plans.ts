import type { SymbolFacts } from '../../archive/format/market.ts';
import { readCollectedEnds } from '../../archive/journal/collected-ends.ts';
import { readAllLostTicks, readAllOwedWindows, readSettledGaps } from '../../archive/journal/gap-records.ts';
import { includeJournaledTicks } from '../../archive/journal/journal.ts';
import { readRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import { dayMs, floorToDay, intersect, subtract, union, type Window } from '../../base/window.ts';
import { getLingerRules, getOverlapMs } from '../../context/open-configured.ts';
import { addTail, extendToLostWindows, planPoll, type SymbolPlan } from '../paging/plan.ts';
import type { Run } from '../run/run.ts';
import { listPolledSymbols } from './polled-symbols.ts';

interface TickPollPlans {
  readonly plans: readonly SymbolPlan[];
  /** The facts of the symbols of the plans. */
  readonly facts: ReadonlyMap<string, SymbolFacts>;
  /** Symbols whose oldest ticks the service may have downsampled before they are fetched. */
  readonly fetchedLateSymbols: readonly string[];
  /** Ends of the last polls of symbols that live reads have covered since, epoch ms. */
  readonly collectedEnds: ReadonlyMap<string, number>;
}

/**
 * Plans a poll of ticks up to `end` for the `chosen` symbols, or else those of the settings, or else those of the market
 * lists. Reads only.
 * @param nowMs when the poll begins, epoch ms; also when a chosen symbol that is not known yet counts as first seen
 * @param foresee see listPolledSymbols
 */
export const planTickPolls = (
  run: Pick<Run, 'context' | 'archive' | 'source'>,
  nowMs: number,
  end: number,
  chosen: readonly string[],
  foresee?: (facts: SymbolFacts) => SymbolFacts,
): TickPollPlans =>
  // Another run may journal or publish meanwhile. Ticks and coverage of different moments would contradict each other.
  run.archive.state.db.snapshot(() => planInSnapshot(run, nowMs, end, chosen, foresee));

function planInSnapshot(
  run: Pick<Run, 'context' | 'archive' | 'source'>,
  nowMs: number,
  end: number,
  chosen: readonly string[],
  foresee?: (facts: SymbolFacts) => SymbolFacts,
): TickPollPlans {
  const { context, archive } = run;
  const { db } = archive.state;
  const rechecks = readRecheckHistory(db, run.source);
  const omitsTicks = rechecks.caughtAt !== null;
  const rules = { ...getLingerRules(context), overlapMs: getOverlapMs(context, rechecks) };
  const plans: SymbolPlan[] = [];
  const planned = new Map<string, SymbolFacts>();
  const fetchedLateSymbols: string[] = [];
  const [lostBySymbol, owedBySymbol, settled] = [readAllLostTicks(db), readAllOwedWindows(db), readSettledGaps(db)];
  const { downsampledAfterDays } = context.settings.source;
  const collectedEnds = readCollectedEnds(db);
  const polled = listPolledSymbols(run, chosen, nowMs, foresee);
  for (const { facts, coverage } of polled) {
    const lost = lostBySymbol.get(facts.symbol) ?? [];
    // Reported losses and settled gaps are not requested every night.
    const reported = lost.filter(({ reportedAt }) => reportedAt !== null);
    const unreported = lost.filter(({ reportedAt }) => reportedAt === null);
    const excluded = union([...coverage, ...reported, ...(settled.get(facts.symbol) ?? [])]);
    const windows = extendToLostWindows(
      planPoll(facts, excluded, end, rules, owedBySymbol.get(facts.symbol), collectedEnds.get(facts.symbol)),
      unreported,
    );
    // If the service leaves ticks out, receiving the last known tick again does not prove that no tick follows.
    const plan = omitsTicks
      ? { ...windows, tail: { lastTick: null, knownTick: null } }
      : addTail(windows, includeJournaledTicks(db, facts), coverage, rules);
    if (
      downsampledAfterDays !== null &&
      isThinnedBeforeFetch(plan.windows, coverage, nowMs, downsampledAfterDays * dayMs)
    )
      fetchedLateSymbols.push(facts.symbol);
    if (plan.windows.length === 0) continue;
    plans.push(plan);
    planned.set(facts.symbol, facts);
  }
  return { plans, facts: planned, fetchedLateSymbols, collectedEnds };
}

/**
 * Whether the server may have thinned a requested day before it was fetched. That is possible if the day was not
 * previously covered and ended at least `thinsAfterMs` before `fetchedAtMs`.
 */
export function isThinnedBeforeFetch(
  requested: readonly Window[],
  covered: readonly Window[],
  fetchedAtMs: number,
  thinsAfterMs: number,
): boolean {
  const thinned = { from: Number.NEGATIVE_INFINITY, to: floorToDay(fetchedAtMs - thinsAfterMs) };
  const thinnedRequests = intersect(requested, [thinned]);
  return thinnedRequests.length > 0 && subtract(thinnedRequests, covered).length > 0;
}
