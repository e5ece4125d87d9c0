import type { Archive } from '../../archive/archive.ts';
import { readListCounts } from '../../archive/journal/nightly-memory.ts';
import { hasListedSymbols } from '../../archive/journal/symbol-subsets.ts';
import { dayMs } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { requireKnownSources } from '../../context/open-configured.ts';
import { marketsLimit } from '../paging/poll-markets.ts';
import { countRechecks } from '../rechecks/recheck-plan.ts';
import { planSourceRuns } from '../run/source-runs.ts';
import { type ExpectedRate, estimatePlans, expectRequestRate, type FetchEstimate } from './estimate-step.ts';
import { listConfiguredBooks, listLiveSymbols } from './order-books-step.ts';
import { planTickPolls } from './poll-plans.ts';
import { computePollEnd } from './poll-steps.ts';
import { coverUnprovenTails } from './proof-step.ts';
import { isRepeatedNight } from './recheck-step.ts';
import { createForesight, listUnmatchedSelectors } from './selection-step.ts';

/** What a nightly job of one source would request, as far as the archive knows. */
interface NightlyPlan {
  /** The source, of an archive's several; null: the only service. */
  readonly source: string | null;
  readonly ticks: FetchEstimate;
  /** Requests for the market lists, the order books and the rechecks. */
  readonly marketLists: number;
  readonly orderBooks: number;
  readonly rechecks: number;
  readonly rate: ExpectedRate;
  /** Whether the market lists were never polled, so that the symbols are unknown. */
  readonly isFirst: boolean;
  /** Selectors of the settings that match no known symbol, as sentences. */
  readonly unmatchedSelectors: readonly string[];
}

/**
 * Plans a nightly job: one plan for each source that it would collect. Sends no request and writes nothing. Symbols that the
 * market lists will name for the first time are not in it.
 * @param day start of the UTC day up to whose end ticks are polled, epoch ms; null: up to now
 */
export async function planNightly(context: Context, archive: Archive, day: number | null): Promise<NightlyPlan[]> {
  requireKnownSources(archive, context);
  const end = computePollEnd(context, day);
  const runs = planSourceRuns(context, [], false);
  return await Promise.all(runs.map((run) => planSource({ ...run, archive }, end, day)));
}

async function planSource(run: PlannedSource, end: number, day: number | null): Promise<NightlyPlan> {
  const { context, archive, source } = run;
  const { settings } = context;
  const { db } = archive.state;
  const foresee = createForesight(context);
  const { plans: planned, facts } = planTickPolls(run, context.clock.nowMs(), end, [], foresee);
  const plans = await coverUnprovenTails(run, planned);
  const ticks = estimatePlans(run, plans, facts, true);
  const marketLists = countListRequests(run);
  const hasBooks = day === null || day + dayMs > end;
  const live = settings.orderbooks.allLive ? listLiveSymbols(run, foresee) : [];
  const orderBooks = hasBooks ? new Set([...listConfiguredBooks(run), ...live]).size : 0;
  const isRepeated = plans.length === 0 || isRepeatedNight(run, end);
  const sent = ticks.requests + marketLists + orderBooks;
  return {
    source,
    ticks,
    marketLists,
    orderBooks,
    rechecks: isRepeated ? 0 : countRechecks(settings.poll.recheckShare, sent),
    rate: expectRequestRate(context, db, source),
    isFirst: settings.symbols.length === 0 && !hasListedSymbols(db, source),
    unmatchedSelectors: listUnmatchedSelectors(run),
  };
}

type PlannedSource = Parameters<typeof planTickPolls>[0];

/** One request for each list, one to confirm its total, and one more for a list that was longer than the limit. */
function countListRequests({ context, archive, source }: PlannedSource): number {
  const { views } = context.settings.source;
  const counts = readListCounts(archive.state.db, source);
  return views.reduce((sum, view) => sum + ((counts.get(view) ?? 0) > marketsLimit ? 3 : 2), 0);
}
