import type { Origin } from '../../core/coverage.ts';
import { UpstreamError, UsageError } from '../../core/errors.ts';
import { isDue } from '../../core/life.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { isTooLate } from '../../core/night.ts';
import { dayOf, isoUtc } from '../../core/time.ts';
import { dayMs, type Window } from '../../core/window.ts';
import { type Collected, collect } from '../../ingest/collect.ts';
import { nothingLearned } from '../../ingest/learned.ts';
import { type MarketsPoll, pollMarkets } from '../../ingest/markets.ts';
import { firstFrom, planBackfill, planPoll, type SymbolPlan, withWholeLost } from '../../ingest/plan.ts';
import { openSink } from '../../ingest/sink.ts';
import { coverageOf, coveredEnds, isCoverJournaled } from '../../state/coverage.ts';
import { appendMarkets } from '../../state/journal.ts';
import { allLostTicks, lostTicksOf, sureCoverageOf } from '../../state/lost.ts';
import type { State } from '../../state/state.ts';
import {
  allSymbols,
  ensureSymbols,
  givenUpSymbols,
  noteOutcomes,
  notePolledFrom,
  observeMarkets,
  oneSymbol,
} from '../../state/symbols.ts';
import { lingerRules, namedSymbols, skewMs } from '../configured.ts';
import type { Context } from '../context.ts';
import type { Run } from '../run.ts';
import { noteAsked, settleAsked } from './lost-asked.ts';
import { factsOf, notePolled, polledSymbols } from './polled-symbols.ts';
import { publishStep } from './publish-step.ts';

const minuteMs = 60_000;

/**
 * Polls the market lists and journals what they say. A list that fails in passing is a failure of the run, no more.
 * Resolves to how many markets they name; null where a list could not be had whole.
 */
export async function marketsStep(run: Run): Promise<number | null> {
  const { context, archive } = run;
  const { source, symbols } = context.settings;
  if (source.views.length === 0) {
    if (symbols.length > 0) return null;
    throw new UsageError('source.views and symbols are both empty: there is nothing to poll.');
  }
  const upstream = await run.upstream();
  try {
    const poll = await pollMarkets({
      ...{ upstream, clock: context.clock, views: source.views, limit: source.marketsLimit, signal: context.signal },
      paths: { symbolPaths: source.symbolPaths, fieldPaths: source.fieldPaths },
      futureSkewMs: context.settings.poll.futureSkewSeconds * 1000,
    });
    run.reached = true;
    const { markets, rejected } = poll;
    keepPoll(archive.state, run.id, poll);
    run.night.listedAt = poll.observedAt;
    run.shapes.areListsWhole = poll.complete;
    run.warnings.push(...poll.shortfalls);
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
    context.log.warn(
      { reason: error.reason },
      'the market lists could not be had; known symbols are polled all the same',
    );
    return null;
  }
}

/** Journals a poll of the market lists; durable when it returns. */
export function keepPoll(state: State, runId: string, poll: MarketsPoll): void {
  const { observedAt, markets, rejected, complete } = poll;
  state.db.transaction(() => {
    appendMarkets(state, { runId, observedAt, markets }, rejected);
    observeMarkets(state.db, markets, observedAt, complete);
  });
}

/** Polls ticks up to `end` for the symbols given by name, else those of the config, else those that the lists ask for. */
export async function ticksStep(run: Run, end: number, chosen: readonly string[]): Promise<void> {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  const rules = {
    ...lingerRules(context),
    overlapMs: context.settings.poll.overlapMinutes * minuteMs,
    lookbackMs: context.settings.source.firstLookbackDays * dayMs,
  };
  // Those of the config are there to stay; one on the command line is known once it has answered.
  ensureSymbols(db, context.settings.symbols, nowMs);
  const plans: SymbolPlan[] = [];
  const lostBySymbol = allLostTicks(db);
  const { thinsAfterDays } = context.settings.source;
  const ends = new Map<string, number>();
  // What a broken run has journaled is new to the archive; without any, what is looked at below tells the ends.
  run.night.coveredEnds = isCoverJournaled(db) ? coveredEnds(db) : ends;
  for (const { facts, coverage } of polledSymbols(run, chosen, nowMs)) {
    const lost = lostBySymbol.get(facts.symbol) ?? [];
    // What a run was told to be lost for good is nothing to ask for night after night.
    const told = lost.filter(({ toldAt }) => toldAt !== null);
    const untold = lost.filter(({ toldAt }) => toldAt === null);
    const plan = withWholeLost(planPoll(facts, [...coverage, ...told], end, rules), untold);
    run.night.polled++;
    if (coverage.length > 0) ends.set(facts.symbol, coverage.at(-1)!.to);
    if (thinsAfterDays !== null && isTooLate(plan.windows, coverage, nowMs, thinsAfterDays * dayMs))
      run.night.tooLate.push(facts.symbol);
    if (plan.windows.length > 0) plans.push(plan);
    // Its first poll had every answer, and died before it could note so.
    else if (plan.first) notePolledFrom(db, facts.symbol, firstFrom(facts, end, rules));
  }
  await collectPlans(run, plans, 'poll');
  const givenUp = givenUpSymbols(db);
  if (givenUp.length > 0) {
    run.warnings.push(
      `Given up on ${count(givenUp, 'symbol', 20)} after ${context.settings.source.retireAfterRuns} failed runs in a row; tried again once a week.`,
    );
  }
}

/** Symbols of a backfill: those named, else every one known, active or not, but for those given up on. */
export function backfillPlans(
  run: Run,
  window: Window,
  chosen: readonly string[],
  how: { readonly force: boolean; readonly allKnown: boolean },
): { plans: SymbolPlan[]; facts: Map<string, SymbolFacts> } {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  const symbols =
    chosen.length === 0 ? allSymbols(db).filter((facts) => isDue(facts, nowMs)) : factsOf(db, chosen, nowMs);
  const lifeMarginMs = context.settings.source.lifeMarginHours * 60 * minuteMs;
  const byHand = namedSymbols(context);
  const isNamed = (symbol: string): boolean => chosen.length > 0 || byHand?.has(symbol) === true;
  const plans = symbols
    .map((facts) => {
      const rules = { ...how, lifeMarginMs, named: isNamed(facts.symbol) };
      const plan = planBackfill(facts, sureCoverageOf(db, facts.symbol, nowMs + skewMs(context)), window, rules);
      return withWholeLost(plan, lostTicksOf(db, facts.symbol));
    })
    .filter((plan) => plan.windows.length > 0);
  return { plans, facts: new Map(symbols.map((facts) => [facts.symbol, facts])) };
}

/**
 * Fetches what the plans ask for into the journal, publishing on the way when it grows too large.
 * @param journalTicksMax ticks it may hold; infinite where the answers have to be published together
 */
export async function collectPlans(
  run: Run,
  plans: readonly SymbolPlan[],
  origin: Origin,
  journalTicksMax = run.context.settings.publish.journalTicksMax,
): Promise<void> {
  run.symbols.planned += plans.length;
  noteAsked(run, plans);
  if (plans.length === 0) return;
  const { context, archive } = run;
  const { db } = archive.state;
  const { settings, signal, clock } = context;
  const upstream = await run.upstream();
  const display = await context.startDisplay('ticks', plans.length, 'symbols', () => upstream.counters());
  let ticks = 0;
  let done = 0;
  const sink = openSink(archive.state, clock, journalTicksMax, () => publishStep(run));
  try {
    const collected = await collect(
      {
        ...{ upstream, clock, runId: run.id, origin, learned: nothingLearned(), signal, ...sink },
        pageLimit: settings.poll.pageLimit,
        futureSkewMs: settings.poll.futureSkewSeconds * 1000,
        concurrency: settings.upstream.concurrency,
        coverageOf: (symbol) => coverageOf(db, symbol),
        onPage(count) {
          run.reached = true;
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
    if (origin === 'poll') notePolled(db, plans, collected.done);
    account(run, collected);
  } catch (error) {
    // Stopped or broken: what was accepted is kept all the same. Why it ended is what is said, whatever this meets.
    await sink.drain().catch(() => {});
    throw error;
  } finally {
    display.stop();
  }
}

/** Enters what a collection brought into the run. Throws what stopped it where nothing more can be done. */
function account(run: Run, collected: Collected): void {
  const { context, archive } = run;
  run.symbols.done += collected.done.length;
  run.symbols.failed += collected.failed.length;
  for (const window of [...collected.failures, ...collected.behind]) run.night.lacking.push(window);
  const { db } = archive.state;
  // One that was given up on holds up nothing, when it is tried again and fails.
  const givenUp = new Set(collected.failed.filter((symbol) => (oneSymbol(db, symbol)?.retiredAt ?? null) !== null));
  for (const failure of settleAsked(run, collected)) if (!givenUp.has(failure.symbol)) run.failures.push(failure);
  if (collected.shortened.length > 0) {
    run.warnings.push(
      `The service does not go back as far as asked for ${count(collected.shortened, 'new symbol')}: what was before is not known.`,
    );
  }
  if (collected.behind.length > 0) {
    const since = isoUtc(collected.behind.reduce((least, w) => Math.min(least, w.from), Number.POSITIVE_INFINITY));
    const symbols = [...new Set(collected.behind.map((w) => w.symbol))];
    run.warnings.push(
      `The service itself is behind: it has nothing yet since ${since} of ${count(symbols, 'symbol')}.`,
    );
  }
  context.signal.throwIfAborted();
  const { stopped } = collected;
  if (stopped !== null) {
    if (stopped.failure === 'credential' || !run.reached) throw stopped;
    context.log.warn({ reason: stopped.reason }, 'the upstream is out of reach or out of order; what was had is kept');
    return;
  }
  if (run.asksOther) return;
  const { retireAfterRuns } = context.settings.source;
  run.symbols.retired += noteOutcomes(db, collected, retireAfterRuns, context.clock.nowMs()).length;
}

/** `3 symbols (A, B, C)`, so many of them by name. */
export const count = (symbols: readonly string[], noun: string, namedMax = 3): string =>
  `${symbols.length} ${noun}${symbols.length === 1 ? '' : 's'} (${symbols.slice(0, namedMax).join(', ')}${symbols.length > namedMax ? ', …' : ''})`;

/** The end of a poll: now, or the end of a past UTC day. */
export function endOfPoll({ clock }: Context, day: number | null): number {
  const nowMs = clock.nowMs();
  if (day !== null && day > nowMs)
    throw new UsageError(
      `--date ${dayOf(day)} is in the future: there is nothing to poll yet. Today is ${dayOf(nowMs)} (UTC).`,
    );
  return day === null ? nowMs : Math.min(day + dayMs, nowMs);
}
