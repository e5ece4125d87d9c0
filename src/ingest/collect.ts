import { UpstreamError } from '../core/errors.ts';
import { intersect, subtract, type Window } from '../core/window.ts';
import { type CoverContext, type CoverOutcome, cover, settle, type Waiting } from './cover.ts';
import { lacksReason, staleReason } from './lacking.ts';
import { openLine } from './line.ts';
import { inParallel } from './parallel.ts';
import type { SymbolPlan } from './plan.ts';

export interface Failure extends Window {
  readonly symbol: string;
  readonly reason: string;
}

export interface Collected {
  /** Symbols of which everything was asked; those under way when the signal came are neither done nor failed. */
  readonly done: readonly string[];
  /** Symbols of which some request failed. */
  readonly failed: readonly string[];
  readonly failures: readonly Failure[];
  /** Those of the failures that no request failed for: the service says, or shows, that it brings nothing of them. */
  readonly unbrought: ReadonlySet<Failure>;
  /** Symbols polled for the first time of which the service has something, but not from the start asked for. */
  readonly shortened: readonly string[];
  /** What a poll asked for up to its end and the service says that it has nothing of yet: one that is behind does not fail. */
  readonly behind: readonly Failure[];
  /** Why nothing more was asked: the credential was refused, the upstream could not be reached any more, or did nothing but fail for long. */
  readonly stopped: UpstreamError | null;
}

export interface CollectContext extends CoverContext {
  readonly concurrency: number;
  /** Makes durable what was appended. */
  drain(): Promise<void>;
  /** What is durably covered of a symbol. */
  coverageOf(symbol: string): Window[];
  onSymbol(done: number): void;
}

/**
 * Works through the plans, several at a time; a symbol that fails does not stop the others. When the signal comes it
 * returns what was done until then: whoever calls it throws.
 */
export async function collect(outer: CollectContext, plans: readonly SymbolPlan[]): Promise<Collected> {
  const line = openLine(outer.clock);
  const context: CollectContext = {
    ...outer,
    upstream: { ticks: (query, signal) => line.listen(() => outer.upstream.ticks(query, signal)) },
  };
  const byName = new Map(plans.map((plan) => [plan.symbol, plan]));
  const failures: Failure[] = [];
  const failed = new Set<string>();
  const lost: Failure[] = [];
  const reached = new Set<string>();
  let waiting: Waiting[] = [];
  let stopped: UpstreamError | null = null;

  const take = (symbol: string, outcome: CoverOutcome): void => {
    for (const item of outcome.waiting) waiting.push(item);
    for (const { from, to, reason } of outcome.lost) lost.push({ symbol, from, to, reason });
  };
  const once = async (symbol: string, work: () => Promise<CoverOutcome>, alone: boolean): Promise<void> => {
    const answersBefore = line.answers();
    try {
      take(symbol, await work());
      reached.add(symbol);
    } catch (error) {
      if (context.signal.aborted && error === context.signal.reason) return;
      if (!(error instanceof UpstreamError)) throw error;
      const silent = error.failure === 'unreachable' && line.answers() === answersBefore;
      if (error.failure === 'credential' || (alone && silent) || line.isOutOfOrder()) stopped = error;
      failed.add(symbol);
      await context.drain();
      for (const window of remaining(context, byName.get(symbol)!, error.reason)) failures.push(window);
    }
  };
  /** Whether it was tried. */
  const attempt = (symbol: string, work: () => Promise<CoverOutcome>): Promise<boolean> =>
    line.attempt(
      () => stopped === null && !context.signal.aborted,
      (alone) => once(symbol, work, alone),
    );

  let done = 0;
  await inParallel(context.concurrency, plans, async (plan) => {
    if (await attempt(plan.symbol, () => cover(context, plan.symbol, plan.windows))) context.onSymbol(++done);
  });
  while (waiting.length > 0 && stopped === null && !context.signal.aborted) {
    const batch = waiting;
    waiting = [];
    await inParallel(context.concurrency, batch, async (item) => {
      if (!(await attempt(item.symbol, () => settle(context, item)))) waiting.push(item);
    });
  }
  await context.drain();
  // There may have been no second symbol to try.
  if (line.answers() === 0) stopped ??= line.silence();
  // Only now is all that could be covered.
  const past = new Set(lost.filter((w) => isPast(context, byName.get(w.symbol)!, w)));
  const behind = new Set(lost.filter((w) => !past.has(w) && isYetToCome(context, byName.get(w.symbol)!, w)));
  const unbrought = new Set(lost.filter((w) => !past.has(w) && !behind.has(w)));
  for (const w of unbrought) failures.push(w);
  const why = stopped as UpstreamError | null;
  const unsettled = new Set(waiting.map((item) => item.symbol));
  if (why !== null) {
    for (const plan of plans) {
      if (failed.has(plan.symbol) || (reached.has(plan.symbol) && !unsettled.has(plan.symbol))) continue;
      for (const window of remaining(context, plan, why.reason)) failures.push(window);
      failed.add(plan.symbol);
    }
  }
  return {
    done: [...byName.keys()].filter((symbol) => reached.has(symbol) && !failed.has(symbol) && !unsettled.has(symbol)),
    failed: [...failed],
    failures,
    unbrought,
    shortened: [...new Set([...past].map((w) => w.symbol))],
    behind: [...behind],
    stopped: why,
  };
}

/** Whether a window is what a service that goes back less far lacks of a new symbol: it has what came later. */
const isPast = (context: CollectContext, plan: SymbolPlan, lost: Window): boolean =>
  plan.first &&
  lost.from <= plan.windows[0]!.from &&
  intersect(context.coverageOf(plan.symbol), plan.windows).some((w) => lost.to <= w.from);

/**
 * Whether a window is what a service has not got yet: an archive that is served has what it has polled so far. A
 * backfill asks for its end by name, and all that is lacking counts.
 */
const isYetToCome = ({ origin }: CollectContext, { windows }: SymbolPlan, lost: Failure): boolean =>
  origin === 'poll' && yetToCome.includes(lost.reason) && lost.to >= windows.at(-1)!.to;

const yetToCome: readonly string[] = [lacksReason, staleReason];

/** What of a plan is not covered. */
const remaining = (context: CollectContext, plan: SymbolPlan, reason: string): Failure[] =>
  subtract(plan.windows, context.coverageOf(plan.symbol)).map((w) => ({
    symbol: plan.symbol,
    from: w.from,
    to: w.to,
    reason,
  }));
