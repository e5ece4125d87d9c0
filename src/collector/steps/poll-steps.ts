import { isRequestDue } from '../../archive/completeness/symbol-lifetime.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import {
  listUnprovenClaims,
  readUnfinished,
  recordCollectedEnd,
  recordUnfinished,
} from '../../archive/journal/collected-ends.ts';
import {
  findUnprovenOf,
  readKnownPageCaps,
  readSymbolCoverage,
  recordKnownPageCaps,
} from '../../archive/journal/coverage-store.ts';
import { readCoverageWithoutLost, readLostTicks } from '../../archive/journal/gap-records.ts';
import { appendMarkets } from '../../archive/journal/journal.ts';
import { openListChecks, recordListChecks } from '../../archive/journal/list-checks.ts';
import {
  describeShortLists,
  readRecheckHistory,
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
  setFirstSeen,
} from '../../archive/journal/symbol-store.ts';
import { UpstreamError, UsageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { formatDay, formatIsoUtc } from '../../base/time.ts';
import { dayMs, minuteMs, subtract, type Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import {
  getConfiguredSymbols,
  getFutureSkewMs,
  getLingerRules,
  getOverlapMs,
  getSettleMs,
} from '../../context/open-configured.ts';
import type { Origin } from '../../contract/raw-page.ts';
import { nameVariables } from '../../settings/layers.ts';
import { requireUpstream } from '../../settings/settings.ts';
import { collectTicks, type TickCollectOutcome } from '../paging/collect-ticks.ts';
import { openJournalWriter, tickRecords } from '../paging/journal-writer.ts';
import { extendToLostWindows, planBackfill, type SymbolPlan } from '../paging/plan.ts';
import { type MarketsPoll, pollMarkets } from '../paging/poll-markets.ts';
import { computeCut } from '../paging/prove-coverage.ts';
import { createServerBehavior, getKnownPages, type KnownPages } from '../paging/server-behavior.ts';
import { measureCoveredShare } from '../run/covered-share.ts';
import { createJobFailure } from '../run/judge-run.ts';
import type { Run } from '../run/run.ts';
import { distrustSource } from './distrust-step.ts';
import { type CollectedFor, formatSymbolList, recordOwedWindows } from './owed-windows-step.ts';
import { planTickPolls } from './poll-plans.ts';
import {
  notePlanningTime,
  notePolledPlans,
  noteRecordCoverage,
  noteTickTimes,
  readNamedSymbolFacts,
  warnOfFrozenFeed,
} from './polled-symbols.ts';
import { claimRepeated, coverUnprovenTails, createProofAccess } from './proof-step.ts';
import { publishJournal } from './publish-step.ts';
import { applySelectionRules } from './selection-step.ts';
import { noteRequestedLosses, settleRequestedLosses } from './track-lost-windows.ts';

/** A backfill also requests this before and after the lifetime of a symbol: the times that lists state are not exact. */
const lifetimeMarginMs = dayMs;

/**
 * Polls the market lists and journals them. A transient error of a list is a failure of the run, which continues.
 * Resolves to the number of listed markets; null if a list is incomplete.
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
      getCheck: openListChecks(archive.state.db, run.source, context.clock.nowMs()),
      signal: context.signal,
      paths: source,
      futureSkewMs: getFutureSkewMs(context),
    });
    run.hasUpstreamResponded = true;
    const { markets, rejected } = poll;
    archive.state.db.transaction(() => {
      const short = journalMarketsPoll(archive.state, run, poll);
      if (short !== null) run.failures.push(createJobFailure('market list', `markets: ${short}`));
      applySelectionRules(run);
    });
    run.markets = new Set(markets.map(({ canonicalId }) => canonicalId)).size;
    run.nightCounters.listedAt = poll.observedAt;
    for (const reason of poll.shortfalls) run.failures.push(createJobFailure('market list', reason));
    for (const { view, reason } of poll.failed)
      run.failures.push(createJobFailure('market list', `markets of view ${view}: ${reason}`));
    if (poll.doubts.length > 0) run.warnings.push({ kind: 'market list', text: formatListDoubts(poll.doubts) });
    if (rejected.length > 0)
      run.warnings.push(`${rejected.length} market records were rejected: ${rejected[0]!.reason}.`);
    context.log.info({ markets: markets.length, complete: poll.complete }, 'markets polled');
    return poll.complete ? markets.length : null;
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.failure === 'credential' || error.failure === 'unreachable')
      throw error;
    run.failures.push(
      isAddressError(error)
        ? createJobFailure('address', formatAddressError(error, requireUpstream(context.settings).baseUrl, run))
        : createJobFailure('market list', `markets: ${error.reason}`),
    );
    const none = { at: context.clock.nowMs(), markets: 0, reason: error.reason, doubt: null };
    recordListings(
      archive.state.db,
      source.views.map((view) => ({ ...none, view, total: null })),
      none,
      run.source,
    );
    context.log.warn({ reason: error.reason }, 'the market lists could not be fetched; polling the known symbols');
    return null;
  }
}

/** Whether the service does not know the route of the market lists, so that its address is probably wrong. */
const isAddressError = ({ status }: UpstreamError): boolean => status === 404 || status === 410;

const formatAddressError = ({ reason }: UpstreamError, address: string, { context, source }: Run): string =>
  `The service at ${address} has no market lists (${reason}). Check the path in ${context.settings.upstreamFrom.baseUrl ?? nameVariables(source).baseUrl}.`;

/**
 * Journals a poll of the market lists. The poll is durable when this returns. Returns why complete lists are
 * suspiciously short; null if they are not. Markets that are absent from short lists do not count as delisted.
 */
export function journalMarketsPoll(
  state: State,
  { id: runId, source }: Pick<Run, 'id' | 'source'>,
  poll: MarketsPoll,
): string | null {
  const { observedAt, markets, rejected, complete, lists } = poll;
  const { db } = state;
  return db.transaction(() => {
    const short = complete ? describeShortLists(db, markets.length, observedAt, source) : null;
    appendMarkets(state, { runId, observedAt, markets }, rejected);
    recordMarkets(db, markets, observedAt, complete && short === null, source);
    const reason = short === null ? null : shortListReason;
    const incomplete = lists.find((list) => list.reason !== null)?.reason ?? null;
    const listings = lists.map((list) => ({ ...list, reason: list.reason ?? reason }));
    const all = {
      at: observedAt,
      markets: markets.length,
      reason: incomplete ?? reason,
      doubt: poll.doubts[0] ?? null,
    };
    recordListings(db, listings, all, source);
    recordListChecks(db, lists, source);
    return short;
  });
}

const formatListDoubts = (doubts: readonly string[]): string =>
  `Market lists not proven whole, so that their days stay provisional: ${doubts.join('; ')}.`;

/**
 * Polls ticks up to `end` for the `chosen` symbols, or else those of the settings, or else those of the market lists.
 * @param isNight whether the poll begins early enough to prove what no earlier one proved
 */
export async function pollTicks(run: Run, end: number, chosen: readonly string[], isNight = false): Promise<void> {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  for (const symbol of chosen) run.requestedSymbols.add(symbol);
  const overlapMs = getOverlapMs(context, readRecheckHistory(db, run.source));
  run.nightCounters.lateRules = { fetchedBeforeMs: nowMs, latenessMsMax: overlapMs, source: run.source };
  // Symbols from the settings are recorded now; a symbol from the command line only after its first response.
  ensureSymbols(db, context.settings.symbols, nowMs);
  if (context.settings.source.views.length === 0) applySelectionRules(run);
  const { plans: planned, fetchedLateSymbols, collectedEnds } = planTickPolls(run, nowMs, end, chosen);
  notePlanningTime(run, nowMs);
  const plans = isNight ? await coverUnprovenTails(run, planned) : planned;
  if (fetchedLateSymbols.length > 0)
    run.warnings.push({
      kind: 'possibly downsampled',
      text: `Possibly downsampled: ${formatSymbolList(fetchedLateSymbols)} ${fetchedLateSymbols.length === 1 ? 'has' : 'have'} ticks older than ${formatCount(context.settings.source.downsampledAfterDays!, 'day')}.`,
    });
  // If the clock of the service is behind, its responses would date a new symbol before this poll.
  const newSymbols = chosen.filter((symbol) => readSymbol(db, symbol) === undefined);
  const { done } = await collectPlans(run, plans, 'poll', { isNight });
  for (const symbol of done) if (collectedEnds.has(symbol)) recordCollectedEnd(db, symbol, end);
  setFirstSeen(db, newSymbols, nowMs);
  if (done.length > 0) warnOfFrozenFeed(run, end);
}

/** What a backfill fetches within its window. */
export interface BackfillScope {
  /** Fetch the whole window, including covered parts. */
  readonly force: boolean;
  /** Also fetch outside the lifetime of a symbol. */
  readonly allKnown: boolean;
  /** Treat windows without proof as not covered; see `findUnprovenOf`. */
  readonly recheckInferred?: boolean;
}

/** Plans a backfill of the chosen symbols, or else of all known symbols except suspended ones that were requested today. */
export function createBackfillPlans(
  run: Run,
  window: Window,
  chosen: readonly string[],
  options: BackfillScope,
): { plans: SymbolPlan[]; facts: Map<string, SymbolFacts> } {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  for (const symbol of chosen) run.requestedSymbols.add(symbol);
  const symbols =
    chosen.length === 0
      ? readAllSymbols(db, run.source).filter((facts) => isRequestDue(facts, nowMs))
      : readNamedSymbolFacts(db, chosen, nowMs);
  const configured = getConfiguredSymbols(context);
  const plans = symbols
    .map((facts) => {
      const rules = {
        ...options,
        ...getLingerRules(context),
        lifetimeMarginMs,
        named: chosen.length > 0 || configured?.has(facts.symbol) === true,
        chosen: chosen.length > 0,
      };
      const covered = readCoverageWithoutLost(db, facts.symbol, nowMs + getFutureSkewMs(context));
      const proven =
        options.recheckInferred === true
          ? subtract(covered, findUnprovenOf(db, facts.symbol, computeCut(nowMs, getSettleMs(context))))
          : covered;
      return extendToLostWindows(planBackfill(facts, proven, window, rules), readLostTicks(db, facts.symbol));
    })
    .filter((plan) => plan.windows.length > 0);
  return { plans, facts: new Map(symbols.map((facts) => [facts.symbol, facts])) };
}

interface CollectOptions {
  /** Maximum ticks in the journal; infinite if the responses must be published together. Default: as configured. */
  readonly journalTicksMax?: number;
  /**
   * Whether the plans are doubtful windows of a recheck: their symbols are already counted, and each response is
   * compared with narrower ones.
   */
  readonly isRecheck?: boolean;
  /** Whether empty responses count for this night. */
  readonly isNight?: boolean;
}

/**
 * Fetches the plans into the journal. Publishes in between if the journal grows too large. Resolves to the symbols whose
 * windows were all requested.
 */
export async function collectPlans(
  run: Run,
  plans: readonly SymbolPlan[],
  origin: Origin,
  {
    journalTicksMax = run.context.settings.publish.journalTicksMax,
    isRecheck = false,
    isNight = false,
  }: CollectOptions = {},
): Promise<Pick<TickCollectOutcome, 'done'>> {
  const symbols = { ...run.symbols };
  run.symbols.planned += plans.length;
  noteRequestedLosses(run, plans);
  if (plans.length === 0) return { done: [] };
  const { context, archive } = run;
  const { db } = archive.state;
  const { settings, signal, clock } = context;
  const upstream = await run.upstream();
  using display = await context.startDisplay('ticks', plans.length, 'symbols', () => upstream.counters());
  const covered = measureCoveredShare(plans);
  let ticks = 0;
  let done = 0;
  const behavior = createServerBehavior(readKnownPageCaps<KnownPages>(db, run.source));
  behavior.omitsTicks = isRecheck || readRecheckHistory(db, run.source).caughtAt !== null;
  const unfinishedSince = readUnfinished(db, origin, run.source);
  let begun = unfinishedSince;
  const sink = openJournalWriter(tickRecords, archive.state, clock, journalTicksMax, () => publishJournal(run));
  try {
    const collected = await collectTicks(
      {
        upstream,
        mirror: settings.source.mirror ? upstream : undefined,
        clock,
        runId: run.id,
        origin,
        behavior,
        signal,
        ...sink,
        append(record) {
          // By the clock of the service, which dates its claims.
          if (!isRecheck && begun === null) {
            begun = record.observedAt - minuteMs;
            recordUnfinished(db, origin, run.source, begun);
          }
          covered.noteCovered(record.symbol, record.covered);
          noteRecordCoverage(run, record);
          if (origin === 'poll') noteTickTimes(run, record.ticks);
          return sink.append(record);
        },
        pieces: settings.poll.pieces,
        pageLimit: settings.poll.pageLimit,
        futureSkewMs: getFutureSkewMs(context),
        concurrency: settings.upstream.concurrency,
        getCoverage: (symbol) => readSymbolCoverage(db, symbol),
        ...createProofAccess(run, origin, unfinishedSince),
        onOmission: (omission) => distrustSource(run, sink, omission),
        onPage(count) {
          run.hasUpstreamResponded = true;
          run.pages++;
          ticks += count;
          display.update({ done, ticks, share: covered.share() });
        },
        onSymbol(count, symbol) {
          done = count;
          covered.noteDone(symbol);
          display.update({ done, ticks, share: covered.share() });
        },
      },
      plans,
    );
    recordKnownPageCaps(db, getKnownPages(behavior), run.source);
    if (origin === 'poll') notePolledPlans(db, plans);
    if (behavior.contradictions > 0) run.nightCounters.isPagingContradicted = true;
    if (isNight) await claimRepeated(run, collected, sink, behavior);
    recordCollectedTicks(run, isRecheck ? keepUncoveredFailures(run, collected) : collected, {
      isAsked: origin === 'backfill',
      isFirstNight: unfinishedSince !== null || plans.every(({ isFirst }) => isFirst),
    });
    const isEnded = !isRecheck && collected.stopError === null && collected.horizonError === null;
    // A collection judges its own symbols only, and a poll of chosen ones may have too few for it: the next night judges them.
    const judged = new Set(origin === 'poll' && run.requestedSymbols.size > 0 ? [] : collected.done);
    const claimed = unfinishedSince === null ? [] : listUnprovenClaims(db, origin, run.source, unfinishedSince);
    if (isEnded && claimed.every((symbol) => judged.has(symbol))) recordUnfinished(db, origin, run.source, null);
    if (isRecheck) Object.assign(run.symbols, symbols);
    return collected;
  } catch (error) {
    // Keep the accepted responses. The original error takes precedence over an error here.
    await sink.drain().catch(() => {});
    throw error;
  }
}

/** Drops failures of windows that were already covered. */
function keepUncoveredFailures({ archive }: Run, collected: TickCollectOutcome): TickCollectOutcome {
  const failures = collected.failures.flatMap((failure) =>
    subtract([failure], readSymbolCoverage(archive.state.db, failure.symbol)).map((w) => ({ ...failure, ...w })),
  );
  return { ...collected, failures, notServed: new Set(), behind: [] };
}

/** Adds the results of a collection to the run. Throws the error that stopped it if the run cannot continue. */
function recordCollectedTicks(run: Run, collected: TickCollectOutcome, how: CollectedFor): void {
  const { context, archive } = run;
  run.symbols.done += collected.done.length;
  run.symbols.failed += collected.failed.length;
  for (const window of [...collected.failures, ...collected.behind]) run.nightCounters.missingWindows.push(window);
  const { db } = archive.state;
  const isSuspended = (symbol: string): boolean => (readSymbol(db, symbol)?.suspendedAt ?? null) !== null;
  const retried = collected.failed.filter((symbol) => !run.requestedSymbols.has(symbol) && isSuspended(symbol));
  if (!run.usesOtherUpstream)
    recordRecognition(db, collected, context.settings.source.suspendAfterDays, context.clock.nowMs());
  // The failed retry of a symbol that stays suspended is a failure of this run only if the symbol was requested by name.
  const suspended = new Set(retried.filter(isSuspended));
  for (const failure of settleRequestedLosses(run, collected))
    if (!suspended.has(failure.symbol)) run.failures.push(failure);
  if (!run.usesOtherUpstream) recordOwedWindows(run, collected, how);
  if (collected.behind.length > 0) {
    const since = formatIsoUtc(collected.behind.reduce((min, w) => Math.min(min, w.from), Number.POSITIVE_INFINITY));
    const symbols = [...new Set(collected.behind.map((w) => w.symbol))];
    run.warnings.push(
      `The service is behind: it has returned no ticks since ${since} for ${formatSymbolList(symbols)}.`,
    );
  }
  context.signal.throwIfAborted();
  const { stopError } = collected;
  if (stopError !== null) {
    if (stopError.failure === 'credential' || !run.hasUpstreamResponded) throw stopError;
    context.log.warn(
      { reason: stopError.reason },
      'the upstream does not respond or keeps failing; received ticks are kept',
    );
    return;
  }
}

/** The end of a poll: now, or the end of a past UTC day. */
export function computePollEnd({ clock }: Context, day: number | null): number {
  const nowMs = clock.nowMs();
  if (day !== null && day > nowMs)
    throw new UsageError(`--date ${formatDay(day)} is in the future. Today is ${formatDay(nowMs)} (UTC).`);
  return day === null ? nowMs : Math.min(day + dayMs, nowMs);
}
