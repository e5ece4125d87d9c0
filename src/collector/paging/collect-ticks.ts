import { UpstreamError } from '../../base/errors.ts';
import { subtract, type Window } from '../../base/window.ts';
import { createCircuitBreaker, forEachConcurrent } from './circuit-breaker.ts';
import { defaultFetchOptions, staleReason, statedGapReason } from './fetch-steps.ts';
import {
  claimEmptyResponse,
  type EmptyResponse,
  type FetchContext,
  type FetchOutcome,
  type FetchPlan,
  fetchSymbol,
} from './fetch-symbol.ts';
import { type SymbolPlan, toFetchPlans } from './plan.ts';
import type { ServerBehavior } from './server-behavior.ts';

export interface FetchFailure extends Window {
  readonly symbol: string;
  readonly reason: string;
  /** Whether the service said that it does not go back so far. */
  readonly isTooOld?: boolean;
}

export interface TickCollectOutcome {
  /** Symbols of which everything was asked; those under way when the signal came are neither done nor failed. */
  readonly done: readonly string[];
  /** Symbols of which some request failed. */
  readonly failed: readonly string[];
  readonly failures: readonly FetchFailure[];
  /** Symbols that the service answered for, at least once, and those that it said it does not know. */
  readonly answered: readonly string[];
  readonly unknown: readonly string[];
  /** Those of the failures that no request failed for: the service says, or shows, that it brings nothing of them. */
  readonly notServed: ReadonlySet<FetchFailure>;
  /** Symbols of which the service has something, but not from the start asked for; `from`: where it starts. */
  readonly shortHistories: readonly { readonly symbol: string; readonly from: number }[];
  /** What a poll asked for up to its end and the service says that it has nothing of yet: one that is behind does not fail. */
  readonly behind: readonly FetchFailure[];
  /** Why nothing more was asked: the credential was refused, the upstream could not be reached any more, or did nothing but fail for long. */
  readonly stopError: UpstreamError | null;
}

export interface TickCollectContext extends FetchContext {
  readonly concurrency: number;
  /** Makes durable what was appended. */
  drain(): Promise<void>;
  /** What is durably covered of a symbol. */
  getCoverage(symbol: string): Window[];
  onSymbol(done: number): void;
}

/**
 * Works through the plans, several at a time; a symbol that fails does not stop the others. When the signal comes it
 * returns what was done until then: whoever calls it throws.
 */
export async function collectTicks(
  outer: TickCollectContext,
  plans: readonly SymbolPlan[],
): Promise<TickCollectOutcome> {
  const line = createCircuitBreaker(outer.clock);
  const answered = new Set<string>();
  const context: TickCollectContext = {
    ...outer,
    upstream: {
      async ticks(query, signal) {
        const page = await line.trackRequest(() => outer.upstream.ticks(query, signal));
        answered.add(query.symbol);
        return page;
      },
    },
  };
  const unknown = new Set<string>();
  const byName = new Map(plans.map((plan) => [plan.symbol, plan]));
  const failures: FetchFailure[] = [];
  const failed = new Set<string>();
  const reasons = new Map<string, string>();
  const lost: FetchFailure[] = [];
  const reached = new Set<string>();
  let empties: EmptyResponse[] = [];
  const presumed: { readonly symbol: string; readonly window: Window }[] = [];
  let stopped: UpstreamError | null = null;

  const take = (symbol: string, outcome: FetchOutcome): void => {
    for (const window of outcome.presumed) presumed.push({ symbol, window });
    for (const window of outcome.lost) lost.push({ symbol, ...window });
  };
  const once = async (symbol: string, work: FetchTask, alone: boolean): Promise<void> => {
    const answersBefore = line.countResponses();
    const mine: EmptyResponse[] = [];
    try {
      take(symbol, await work(mine));
      reached.add(symbol);
    } catch (error) {
      if (context.signal.aborted && error === context.signal.reason) return;
      if (!(error instanceof UpstreamError)) throw error;
      const silent = error.failure === 'unreachable' && line.countResponses() === answersBefore;
      if (error.failure === 'credential' || (alone && silent) || line.isOpen()) stopped = error;
      failed.add(symbol);
      if (isUnknownSymbolError(error, symbol)) unknown.add(symbol);
      reasons.set(symbol, error.reason);
    } finally {
      for (const empty of mine) empties.push(empty);
    }
  };
  /** Whether it was tried. */
  const attempt = (symbol: string, work: FetchTask): Promise<boolean> =>
    line.attempt(
      () => stopped === null && !context.signal.aborted,
      (alone) => once(symbol, work, alone),
    );

  /** Empty responses prove something only where the service still has ticks of symbols that it brought ticks of. */
  const judgeEmpties = async (): Promise<void> => {
    const batch = empties;
    empties = [];
    const lacking = new Set(batch.filter(({ lacksKnownTick }) => lacksKnownTick).map(({ symbol }) => symbol));
    const known = plans.filter(({ tail }) => tail !== undefined && tail.knownTick !== null).length;
    const isOutage = lacking.size >= outageSymbolsMin && lacking.size * 2 >= known;
    for (const empty of batch) {
      if (isOutage) lost.push({ symbol: empty.symbol, from: empty.from, to: empty.to, reason: allEmptyReason });
      else await claimEmptyResponse(context, empty, context.behavior.oldestTick);
    }
  };

  let done = 0;
  await forEachConcurrent(context.concurrency, plans, async (plan) => {
    if (await attempt(plan.symbol, (mine) => fetchSymbol(context, plan.symbol, toFetchPlans(plan), mine)))
      context.onSymbol(++done);
    if (empties.length >= pendingEmptiesMax) await judgeEmpties();
  });
  // Sizes of pages turned out to mean nothing: what was taken for whole by them is asked for once more.
  const doubtful = isDoubtful(context.behavior) ? presumed.splice(0) : [];
  await forEachConcurrent(context.concurrency, doubtful, async ({ symbol, window }) => {
    const again: FetchPlan = { ...window, options: defaultFetchOptions };
    await attempt(symbol, (mine) => fetchSymbol(context, symbol, [again], mine));
  });
  await judgeEmpties();
  await context.drain();
  // There may have been no second symbol to try.
  if (line.countResponses() === 0) stopped ??= line.getUnreachableError();
  // Only now is all that could be covered.
  for (const [symbol, reason] of reasons)
    for (const window of listUncovered(context, byName.get(symbol)!, reason)) failures.push(window);
  const past = new Set(lost.filter((w) => isBeforeServedHistory(context, byName.get(w.symbol)!, w)));
  const behind = new Set(lost.filter((w) => !past.has(w) && isNotYetServed(context, byName.get(w.symbol)!, w)));
  const unbrought = new Set(lost.filter((w) => !past.has(w) && !behind.has(w)));
  for (const w of unbrought) failures.push(w);
  const why = stopped as UpstreamError | null;
  if (why !== null) {
    for (const plan of plans) {
      if (failed.has(plan.symbol) || reached.has(plan.symbol)) continue;
      for (const window of listUncovered(context, plan, why.reason)) failures.push(window);
      failed.add(plan.symbol);
    }
  }
  return {
    done: [...byName.keys()].filter((symbol) => reached.has(symbol) && !failed.has(symbol)),
    failed: [...failed],
    failures,
    answered: [...answered],
    // One that it answered for before is none that it does not know.
    unknown: [...unknown].filter((symbol) => !answered.has(symbol)),
    notServed: unbrought,
    shortHistories: [...Map.groupBy(past, ({ symbol }) => symbol)].map(([symbol, windows]) => ({
      symbol,
      from: windows.reduce((latest, { to }) => Math.max(latest, to), Number.NEGATIVE_INFINITY),
    })),
    behind: [...behind],
    stopError: why,
  };
}

/** Fetches windows of a symbol; empty responses go into the list as they come. */
type FetchTask = (empties: EmptyResponse[]) => Promise<FetchOutcome>;

/** Empty responses that may wait to be judged together. */
const pendingEmptiesMax = 4096;

/** From so many symbols on, being half of those that had ticks, empty responses mean that the service has lost sight of them. */
const outageSymbolsMin = 3;

export const allEmptyReason = 'the service brings no ticks of many symbols that it had ticks of';

const isDoubtful = ({ isErratic }: ServerBehavior): boolean => isErratic;

/**
 * Whether a window is what a service that goes back less far lacks of a symbol: it has what came later, and nothing of
 * before was ever had. Of one that was covered before it is too late.
 */
function isBeforeServedHistory(context: TickCollectContext, plan: SymbolPlan, lost: FetchFailure): boolean {
  const [covered] = context.getCoverage(plan.symbol);
  const isBeforeAll = covered !== undefined && lost.to <= covered.from;
  return isBeforeAll && (plan.isFirst || lost.isTooOld === true) && lost.from <= plan.windows[0]!.from;
}

/**
 * Whether a window is what a service has not got yet: an archive that is served has what it has polled so far. A
 * backfill asks for its end by name, and all that is lacking counts.
 */
const isNotYetServed = ({ origin }: TickCollectContext, { windows }: SymbolPlan, lost: FetchFailure): boolean =>
  origin === 'poll' && notYetServedReasons.includes(lost.reason) && lost.to >= windows.at(-1)!.to;

const notYetServedReasons: readonly string[] = [statedGapReason, staleReason];

/** What of a plan is not covered. */
const listUncovered = (context: TickCollectContext, plan: SymbolPlan, reason: string): FetchFailure[] =>
  subtract(plan.windows, context.getCoverage(plan.symbol)).map((w) => ({
    symbol: plan.symbol,
    from: w.from,
    to: w.to,
    reason,
  }));

/** Statuses by which a service says that it has no such thing, whatever else it says. */
const unknownStatuses: readonly (number | undefined)[] = [404, 410];

/**
 * Whether a service says by an error that it does not know the symbol: 404, 410, or a 400 whose words name the symbol. All
 * else, an outage above all, is no statement on the symbol.
 */
export const isUnknownSymbolError = (
  { status, reason }: Pick<UpstreamError, 'status' | 'reason'>,
  symbol: string,
): boolean => unknownStatuses.includes(status) || (status === 400 && containsSymbol(reason, symbol));

/** Whether a text holds the symbol as a word of its own: a short one may be a piece of any word. */
function containsSymbol(text: string, symbol: string): boolean {
  // The reason quotes what the service said as JSON.
  const quoted = JSON.stringify(symbol).slice(1, -1);
  for (const word of new Set([symbol, quoted])) {
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
      const [before, after] = [text.slice(0, at).at(-1), text[at + word.length]];
      if (!isWordCharacter(before) && !isWordCharacter(after)) return true;
    }
  }
  return false;
}

const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /[\p{L}\p{N}]/u.test(character);
