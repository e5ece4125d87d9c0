import { computeLifetime, isLive } from '../../archive/completeness/symbol-lifetime.ts';
import { type CoveredWindow, computeSettledWindows, isProven, overlayLayers } from '../../archive/format/coverage.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import {
  readCurrentCoverageIn,
  readCurrentCoverageOf,
  readOldestServedTick,
  readSymbolCoverage,
} from '../../archive/journal/coverage-store.ts';
import { readRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import { readKnownSymbols } from '../../archive/journal/symbol-subsets.ts';
import { covers, intersect, subtract, union, type Window } from '../../base/window.ts';
import { getLingerRules, getOverlapMs } from '../../context/open-configured.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import { countReproofRequests } from '../rechecks/recheck-plan.ts';
import type { Run } from '../run/run.ts';
import { collectPlans } from './poll-steps.ts';
import { isNewNight } from './recheck-step.ts';
import { type FindLastTick, openLastTickFinder } from './settled-ticks-step.ts';

/** A covered window that no later poll proves, and when it was last fetched, epoch ms. */
interface UnprovenWindow extends Window {
  readonly symbol: string;
  readonly fetchedAt: number;
}

/** Windows of the first batch. Later batches are as large as the remaining requests allow, up to the maximum. */
const batchFirst = 2;
const batchMax = 64;

/**
 * Fetches windows of the last days again whose coverage is not proven for good and that no later poll proves, those that were
 * not fetched for the longest time first. Sends a limited number of requests. Does nothing if a night is repeated, or if the
 * service was found to omit ticks: then the rechecks fetch all earlier coverage again. Journals all responses.
 */
export async function reproveCoverage(run: Run, end: number): Promise<void> {
  const { context, archive } = run;
  const { recheckShare } = context.settings.poll;
  if (recheckShare === 0 || !isNewNight(run, end)) return;
  if (readRecheckHistory(archive.state.db, run.source).caughtAt !== null) return;
  const unproven = findUnprovenForGood(run);
  if (unproven.length === 0) return;
  const upstream = await run.upstream();
  const requestsBefore = upstream.counters().requests;
  const requestsMax = countReproofRequests(recheckShare, requestsBefore);
  const findTick = openLastTickFinder(run, getLingerRules(context).lookbackMs);
  let fetched = 0;
  for (;;) {
    const used = upstream.counters().requests - requestsBefore;
    if (fetched >= unproven.length || used >= requestsMax) break;
    const affordable = fetched === 0 ? batchFirst : Math.floor((requestsMax - used) / (Math.max(1, used) / fetched));
    const batch = unproven.slice(fetched, fetched + Math.max(1, Math.min(batchMax, affordable)));
    const plans: SymbolPlan[] = [];
    for (const window of batch) plans.push(await planReproof(run, window, findTick));
    await collectPlans(run, plans, 'backfill', { isRecheck: true });
    fetched += batch.length;
  }
  const requests = upstream.counters().requests - requestsBefore;
  if (run.rechecks !== undefined)
    run.rechecks = {
      ...run.rechecks,
      requests: run.rechecks.requests + requests,
      reread_windows: run.rechecks.reread_windows + fetched,
    };
  context.log.info({ windows: fetched, left: unproven.length - fetched, requests }, 'fetched unproven windows again');
}

/**
 * Finds one window of each symbol. A window before the oldest tick that the service ever returned cannot be proved, and one that
 * ended longer ago than the lookback of a first poll may have expired at the service.
 */
function findUnprovenForGood({ context, archive, source }: Run): UnprovenWindow[] {
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  const rules = getLingerRules(context);
  const overlapMs = getOverlapMs(context, readRecheckHistory(db, source));
  const recent = { from: nowMs - rules.lookbackMs, to: nowMs - rules.settleMs };
  const servedSince = { from: readOldestServedTick(db, source), to: Number.POSITIVE_INFINITY };
  const configured = new Set(context.settings.symbols);
  const covered = readCurrentCoverageIn(db, recent);
  const isPolledAgain = (facts: SymbolFacts, coveredTo: number): boolean =>
    configured.size > 0 ? configured.has(facts.symbol) : isLive(facts, coveredTo, nowMs, rules);
  const out: UnprovenWindow[] = [];
  for (const facts of readKnownSymbols(db, covered.keys(), source)) {
    const { symbol } = facts;
    const responses = covered.get(symbol);
    if (responses === undefined || facts.suspendedAt !== null) continue;
    const settled = computeSettledWindows(responses.filter(isProven), rules.settleMs);
    const unproven = intersect(intersect(subtract(union(responses), settled), [recent]), [servedSince]);
    if (unproven.length === 0) continue;
    const coverage = readSymbolCoverage(db, symbol);
    const lifetime = computeLifetime(facts, coverage, rules);
    const coveredTo = coverage.at(-1)?.to ?? Number.NEGATIVE_INFINITY;
    // The next poll proves the end of the coverage.
    const to = isPolledAgain(facts, coveredTo)
      ? Math.min(lifetime.to, findTailStart(readCurrentCoverageOf(db, [symbol]).get(symbol)!), coveredTo - overlapMs)
      : lifetime.to;
    const windows = intersect(unproven, [{ from: lifetime.from, to }]);
    if (windows.length === 0) continue;
    const span = { from: windows[0]!.from, to: windows.at(-1)!.to };
    const window = covers(coverage, span) ? span : windows[0]!;
    const fetchedAt = responses.reduce(
      (max, w) => (w.from < window.to && w.to > window.from ? Math.max(max, w.fetchedAt) : max),
      Number.NEGATIVE_INFINITY,
    );
    out.push({ symbol, from: window.from, to: window.to, fetchedAt });
  }
  return out.sort((a, b) => a.fetchedAt - b.fetchedAt || a.from - b.from);
}

/** Finds where the inferred windows begin that adjoin each other up to the end of the coverage; infinite without them. */
function findTailStart(responses: readonly CoveredWindow[]): number {
  const inferred = overlayLayers(responses).filter((w) => !isProven(w));
  const end = responses.reduce((max, { to }) => Math.max(max, to), Number.NEGATIVE_INFINITY);
  const last = union(inferred).at(-1);
  return last?.to === end ? last.from : Number.POSITIVE_INFINITY;
}

/**
 * Plans to fetch a window from the last tick before it. If the response lacks this tick, the service may have lost its history,
 * and an empty response proves nothing.
 */
async function planReproof(
  { archive }: Run,
  { symbol, from, to }: UnprovenWindow,
  findTick: FindLastTick,
): Promise<SymbolPlan> {
  const tick = await findTick(symbol, from);
  const isUsable =
    tick !== null && (tick === from || covers(readSymbolCoverage(archive.state.db, symbol), { from: tick, to: from }));
  const knownTick = isUsable ? tick : null;
  return {
    symbol,
    windows: [{ from: knownTick ?? from, to }],
    isFirst: false,
    tail: { lastTick: null, knownTick, inferred: [], confirm: 'now' },
  };
}
