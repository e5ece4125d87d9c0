import { isRequestDue } from '../../archive/completeness/symbol-lifetime.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import {
  findInferredOf,
  findInferredTails,
  readEvidenceSince,
  readKnownPages,
  readOldestShown,
  readSymbolCoverage,
  recordKnownPages,
  recordOldestShown,
} from '../../archive/journal/coverage.ts';
import {
  readAllLostTicks,
  readAllOwedWindows,
  readCoverageWithoutLost,
  readLostTicks,
  readOwedWindows,
  readSettledGaps,
  recordOwed,
} from '../../archive/journal/gap-records.ts';
import { appendMarkets } from '../../archive/journal/journal.ts';
import { comparedMax, describeShortLists, isThinnedBeforeFetch } from '../../archive/journal/nightly-comparison.ts';
import {
  readNamedCountsBefore,
  readRechecks,
  recordListings,
  shortListReason,
} from '../../archive/journal/nightly-memory.ts';
import type { State } from '../../archive/journal/state.ts';
import {
  ensureSymbols,
  readAllSymbols,
  readSymbol,
  recordMarkets,
  recordRecognition,
  recordServedFrom,
  setFirstSeen,
} from '../../archive/journal/symbols.ts';
import { UpstreamError, UsageError } from '../../base/errors.ts';
import { formatDay, formatIsoUtc } from '../../base/time.ts';
import { dayMs, minuteMs, subtract, union, type Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { getConfiguredSymbols, getFutureSkewMs, getLingerRules, getOverlapMs } from '../../context/open-configured.ts';
import type { Origin } from '../../contract/raw-page.ts';
import { collectTicks, type FetchFailure, type TickCollectOutcome } from '../paging/collect-ticks.ts';
import { openTickJournalWriter } from '../paging/journal-writer.ts';
import { addTail, extendToLostWindows, planBackfill, planPoll, type SymbolPlan } from '../paging/plan.ts';
import { type MarketsPoll, pollMarkets } from '../paging/poll-markets.ts';
import { createServerBehavior, getKnownPages, type KnownPages } from '../paging/server-behavior.ts';
import type { BackfillFlags } from '../run/job.ts';
import type { Run } from '../run/run.ts';
import { listPolledSymbols, notePolledPlans, readNamedSymbolFacts } from './polled-symbols.ts';
import { publishJournal } from './publish-step.ts';
import { noteRequestedLosses, settleRequestedLosses } from './track-lost-windows.ts';

/**
 * Polls the market lists and journals what they say. A list that fails in passing is a failure of the run, no more.
 * Resolves to how many markets they name; null where a list could not be had whole.
 */
export async function pollMarketLists(run: Run): Promise<number | null> {
  const { context, archive } = run;
  const { source, symbols } = context.settings;
  if (source.views.length === 0) {
    if (symbols.length > 0) return null;
    throw new UsageError('source.views and symbols are both empty: there is nothing to poll.');
  }
  const upstream = await run.upstream();
  try {
    const poll = await pollMarkets({
      upstream,
      clock: context.clock,
      views: source.views,
      limit: source.marketsLimit,
      signal: context.signal,
      paths: { symbolPaths: source.symbolPaths, fieldPaths: source.fieldPaths },
      futureSkewMs: context.settings.poll.futureSkewSeconds * 1000,
    });
    run.hasUpstreamResponded = true;
    const { markets, rejected } = poll;
    const { marketsShareMax } = context.settings.drops;
    run.nightCounters.shortListsReason = journalMarketsPoll(archive.state, run.id, poll, marketsShareMax);
    run.markets = new Set(markets.map(({ canonicalId }) => canonicalId)).size;
    run.nightCounters.listedAt = poll.observedAt;
    run.shapes.areListsComplete = poll.complete;
    for (const reason of poll.shortfalls) run.failures.push({ symbol: null, from: null, to: null, reason });
    for (const { view, reason } of poll.failed)
      run.failures.push({ symbol: null, from: null, to: null, reason: `markets of view ${view}: ${reason}` });
    if (rejected.length > 0)
      run.warnings.push(`${rejected.length} market records were set aside: ${rejected[0]!.reason}.`);
    context.log.info({ markets: markets.length, complete: poll.complete }, 'markets polled');
    return poll.complete ? markets.length : null;
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.failure === 'credential' || error.failure === 'unreachable')
      throw error;
    run.failures.push({ symbol: null, from: null, to: null, reason: `markets: ${error.reason}` });
    const none = { at: context.clock.nowMs(), named: 0, reason: error.reason };
    recordListings(
      archive.state.db,
      source.views.map((view) => ({ ...none, view, total: null })),
      none,
    );
    context.log.warn(
      { reason: error.reason },
      'the market lists could not be had; known symbols are polled all the same',
    );
    return null;
  }
}

/**
 * Journals a poll of the market lists; durable when it returns. Returns why its lists, whole as they are, are suspiciously
 * short; null where they are not: then, too, no absence means that a market is gone.
 * @param shareMax the share by which they may fall against the last days
 */
export function journalMarketsPoll(state: State, runId: string, poll: MarketsPoll, shareMax: number): string | null {
  const { observedAt, markets, rejected, complete, lists } = poll;
  const { db } = state;
  return db.transaction(() => {
    const short = complete
      ? describeShortLists(markets.length, readNamedCountsBefore(db, observedAt, comparedMax), shareMax)
      : null;
    appendMarkets(state, { runId, observedAt, markets }, rejected);
    recordMarkets(db, markets, observedAt, complete && short === null);
    const reason = short === null ? null : shortListReason;
    const cut = lists.find((list) => list.reason !== null)?.reason ?? null;
    const listings = lists.map((list) => ({ ...list, reason: list.reason ?? reason }));
    recordListings(db, listings, { at: observedAt, named: markets.length, reason: cut ?? reason });
    return short;
  });
}

/** Tells, in a run that is no night, of lists that are suspiciously short. */
export function reportShortLists(run: Run): void {
  const { shortListsReason: reason } = run.nightCounters;
  if (reason !== null) run.failures.push({ symbol: null, from: null, to: null, reason: `markets: ${reason}` });
}

/** Polls ticks up to `end` for the symbols given by name, else those of the config, else those that the lists ask for. */
export async function pollTicks(run: Run, end: number, chosen: readonly string[]): Promise<void> {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  for (const symbol of chosen) run.requestedSymbols.add(symbol);
  const rechecks = readRechecks(db);
  const isCaught = rechecks.caughtAt !== null;
  const rules = { ...getLingerRules(context), overlapMs: getOverlapMs(context, rechecks) };
  run.nightCounters.lateRules = { fetchedBeforeMs: nowMs, latenessMsMax: rules.overlapMs };
  // Those of the config are there to stay; one on the command line is known once it has answered.
  ensureSymbols(db, context.settings.symbols, nowMs);
  const plans: SymbolPlan[] = [];
  const [lostBySymbol, owedBySymbol, settled] = [readAllLostTicks(db), readAllOwedWindows(db), readSettledGaps(db)];
  const inferred = findInferredTails(db, readEvidenceSince(db));
  const { downsampledAfterDays } = context.settings.source;
  for (const { facts, coverage } of listPolledSymbols(run, chosen, nowMs)) {
    const lost = lostBySymbol.get(facts.symbol) ?? [];
    // What a run was told to be lost for good, or is settled otherwise, is nothing to ask for night after night.
    const told = lost.filter(({ reportedAt }) => reportedAt !== null);
    const untold = lost.filter(({ reportedAt }) => reportedAt === null);
    const left = union([...coverage, ...told, ...(settled.get(facts.symbol) ?? [])]);
    const windows = extendToLostWindows(planPoll(facts, left, end, rules, owedBySymbol.get(facts.symbol)), untold);
    const { confirm } = context.settings.poll;
    // Of a service that leaves ticks out, the known tick coming again says nothing of what follows it.
    const plan = isCaught
      ? { ...windows, tail: { lastTick: null, knownTick: null, inferred: [], confirm: 'now' as const } }
      : addTail(windows, facts, coverage, inferred.get(facts.symbol) ?? [], rules, confirm);
    run.nightCounters.polledCount++;
    if (
      downsampledAfterDays !== null &&
      isThinnedBeforeFetch(plan.windows, coverage, nowMs, downsampledAfterDays * dayMs)
    )
      run.nightCounters.tooLateSymbols.push(facts.symbol);
    if (plan.windows.length > 0) plans.push(plan);
  }
  // A service whose clock is behind would have seen a new symbol earlier than it was planned to be.
  const fresh = chosen.filter((symbol) => readSymbol(db, symbol) === undefined);
  await collectPlans(run, plans, 'poll');
  setFirstSeen(db, fresh, nowMs);
}

/** Symbols of a backfill: those named, else every one known, active or not, but for suspended ones that were asked for today. */
export function createBackfillPlans(
  run: Run,
  window: Window,
  chosen: readonly string[],
  how: Pick<BackfillFlags, 'force' | 'allKnown' | 'recheckInferred'>,
): { plans: SymbolPlan[]; facts: Map<string, SymbolFacts> } {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  for (const symbol of chosen) run.requestedSymbols.add(symbol);
  const symbols =
    chosen.length === 0
      ? readAllSymbols(db).filter((facts) => isRequestDue(facts, nowMs))
      : readNamedSymbolFacts(db, chosen, nowMs);
  const { lookbackMs } = getLingerRules(context);
  const lifetimeMarginMs = context.settings.source.lifetimeMarginHours * 60 * minuteMs;
  const byHand = getConfiguredSymbols(context);
  const isNamed = (symbol: string): boolean => chosen.length > 0 || byHand?.has(symbol) === true;
  const plans = symbols
    .map((facts) => {
      const rules = { ...how, lifetimeMarginMs, lookbackMs, named: isNamed(facts.symbol) };
      const covered = readCoverageWithoutLost(db, facts.symbol, nowMs + getFutureSkewMs(context));
      const proven = how.recheckInferred === true ? subtract(covered, findInferredOf(db, facts.symbol)) : covered;
      const plan = planBackfill(facts, proven, window, rules);
      return extendToLostWindows(plan, readLostTicks(db, facts.symbol));
    })
    .filter((plan) => plan.windows.length > 0);
  return { plans, facts: new Map(symbols.map((facts) => [facts.symbol, facts])) };
}

interface CollectOptions {
  /** Ticks the journal may hold; infinite where the answers have to be published together. As configured by default. */
  readonly journalTicksMax?: number;
  /** Of windows that a recheck put in doubt: their symbols are counted already, and each response is compared. */
  readonly isRecheck?: boolean;
}

/** Fetches what the plans ask for into the journal, publishing on the way when it grows too large. */
export async function collectPlans(
  run: Run,
  plans: readonly SymbolPlan[],
  origin: Origin,
  { journalTicksMax = run.context.settings.publish.journalTicksMax, isRecheck = false }: CollectOptions = {},
): Promise<void> {
  const symbols = { ...run.symbols };
  run.symbols.planned += plans.length;
  noteRequestedLosses(run, plans);
  if (plans.length === 0) return;
  const { context, archive } = run;
  const { db } = archive.state;
  const { settings, signal, clock } = context;
  const upstream = await run.upstream();
  const display = await context.startDisplay('ticks', plans.length, 'symbols', () => upstream.counters());
  let ticks = 0;
  let done = 0;
  const behavior = createServerBehavior(readOldestShown(db), readKnownPages<KnownPages>(db));
  // A service that was caught has all of its windows compared with narrower ones.
  const contradictions = isRecheck || readRechecks(db).caughtAt !== null ? 1 : 0;
  behavior.contradictions = contradictions;
  const sink = openTickJournalWriter(archive.state, clock, journalTicksMax, () => publishJournal(run));
  try {
    const collected = await collectTicks(
      {
        upstream,
        clock,
        runId: run.id,
        origin,
        behavior,
        signal,
        ...sink,
        pageLimit: settings.poll.pageLimit,
        futureSkewMs: settings.poll.futureSkewSeconds * 1000,
        concurrency: settings.upstream.concurrency,
        getCoverage: (symbol) => readSymbolCoverage(db, symbol),
        onPage(count) {
          run.hasUpstreamResponded = true;
          run.pages++;
          ticks += count;
          display.update({ done, ticks });
        },
        onSymbol(count) {
          done = count;
          display.update({ done, ticks });
        },
      },
      plans,
    );
    recordOldestShown(db, behavior.oldestTick);
    recordKnownPages(db, getKnownPages(behavior));
    if (origin === 'poll') notePolledPlans(db, plans);
    if (behavior.contradictions > contradictions) run.nightCounters.isPagingContradicted = true;
    recordCollectedTicks(run, isRecheck ? keepUncoveredFailures(run, collected) : collected);
    if (isRecheck) Object.assign(run.symbols, symbols);
  } catch (error) {
    // Stopped or broken: what was accepted is kept all the same. Why it ended is what is said, whatever this meets.
    await sink.drain().catch(() => {});
    throw error;
  } finally {
    display.stop();
  }
}

/** What was covered before and could not be fetched again is no failure. */
function keepUncoveredFailures({ archive }: Run, collected: TickCollectOutcome): TickCollectOutcome {
  const failures = collected.failures.flatMap((failure) =>
    subtract([failure], readSymbolCoverage(archive.state.db, failure.symbol)).map((w) => ({ ...failure, ...w })),
  );
  return { ...collected, failures, notServed: new Set(), behind: [] };
}

/** Enters what a collection brought into the run. Throws what stopped it where nothing more can be done. */
function recordCollectedTicks(run: Run, collected: TickCollectOutcome): void {
  const { context, archive } = run;
  run.symbols.done += collected.done.length;
  run.symbols.failed += collected.failed.length;
  for (const window of [...collected.failures, ...collected.behind]) run.nightCounters.missingWindows.push(window);
  const { db } = archive.state;
  // A suspended symbol that is tried again and fails is no failure of this run, unless it was to be asked for by name.
  const suspended = new Set(
    collected.failed.filter(
      (symbol) => !run.requestedSymbols.has(symbol) && (readSymbol(db, symbol)?.suspendedAt ?? null) !== null,
    ),
  );
  for (const failure of settleRequestedLosses(run, collected))
    if (!suspended.has(failure.symbol)) run.failures.push(failure);
  if (!run.usesOtherUpstream) {
    recordRecognition(db, collected, context.settings.source.suspendAfterDays, context.clock.nowMs());
    recordOwedWindows(run, collected);
  }
  if (collected.behind.length > 0) {
    const since = formatIsoUtc(
      collected.behind.reduce((least, w) => Math.min(least, w.from), Number.POSITIVE_INFINITY),
    );
    const symbols = [...new Set(collected.behind.map((w) => w.symbol))];
    run.warnings.push(
      `The service itself is behind: it has nothing yet since ${since} of ${formatNameList(symbols, 'symbol')}.`,
    );
  }
  context.signal.throwIfAborted();
  const { stopError } = collected;
  if (stopError !== null) {
    if (stopError.failure === 'credential' || !run.hasUpstreamResponded) throw stopError;
    context.log.warn(
      { reason: stopError.reason },
      'the upstream is out of reach or out of order; what was had is kept',
    );
    return;
  }
}

/**
 * Notes what the collection asked for in vain, and where the service goes back no further: there a lifetime begins, at the
 * latest with the first sight of the symbol. What the service had no more when it first answered is expired.
 */
function recordOwedWindows(run: Run, { done, failures, failed, shortHistories }: TickCollectOutcome): void {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  const expired: FetchFailure[] = [];
  for (const { symbol, from } of shortHistories) {
    const facts = readSymbol(db, symbol);
    if (facts === undefined) continue;
    recordServedFrom(db, symbol, Math.min(from, facts.firstSeen));
    const since = Math.max(facts.firstSeen, facts.opensAt ?? facts.firstSeen);
    const reason = `expired: the service goes back no further than ${formatIsoUtc(from)}`;
    if (since < from) expired.push({ symbol, from: since, to: from, reason, isTooOld: true });
  }
  for (const failure of expired) run.failures.push(failure);
  if (shortHistories.length > expired.length) {
    const names = shortHistories
      .map(({ symbol }) => symbol)
      .filter((name) => !expired.some(({ symbol }) => symbol === name));
    run.warnings.push(
      `The service does not go back as far as asked for ${formatNameList(names, 'symbol')}: what was before is not known.`,
    );
  }
  const bySymbol = Map.groupBy([...failures, ...expired], ({ symbol }) => symbol);
  const owed = [...new Set([...done, ...failed, ...bySymbol.keys()])]
    .filter((symbol) =>
      bySymbol.has(symbol) ? readSymbol(db, symbol) !== undefined : readOwedWindows(db, symbol).length > 0,
    )
    .map((symbol) => ({
      symbol,
      covered: readCoverageWithoutLost(db, symbol),
      failures: (bySymbol.get(symbol) ?? []).map(({ from, to, reason, isTooOld }) => ({
        from,
        to,
        reason,
        kind: isTooOld === true ? ('expired' as const) : ('failed' as const),
      })),
    }));
  recordOwed(db, owed, nowMs);
}

/** `3 symbols (A, B, C)`, so many of them by name. */
export const formatNameList = (symbols: readonly string[], noun: string, namedMax = 3): string =>
  `${symbols.length} ${noun}${symbols.length === 1 ? '' : 's'} (${symbols.slice(0, namedMax).join(', ')}${symbols.length > namedMax ? ', …' : ''})`;

/** The end of a poll: now, or the end of a past UTC day. */
export function computePollEnd({ clock }: Context, day: number | null): number {
  const nowMs = clock.nowMs();
  if (day !== null && day > nowMs)
    throw new UsageError(
      `--date ${formatDay(day)} is in the future: there is nothing to poll yet. Today is ${formatDay(nowMs)} (UTC).`,
    );
  return day === null ? nowMs : Math.min(day + dayMs, nowMs);
}
