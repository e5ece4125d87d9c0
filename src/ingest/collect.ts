import { UpstreamError } from '../core/errors.ts';
import { subtract, type Window } from '../core/window.ts';
import { type CoverContext, type CoverOutcome, cover, settle, type Waiting } from './cover.ts';
import type { SymbolPlan } from './plan.ts';

export interface Failure extends Window {
  readonly symbol: string;
  readonly reason: string;
}

export interface Collected {
  readonly done: readonly string[];
  /** Symbols of which some request failed. */
  readonly failed: readonly string[];
  readonly failures: readonly Failure[];
  /** Symbols polled for the first time whose past the service does not have. */
  readonly shortened: readonly string[];
  /** Why nothing more was asked: the credential was refused, or the upstream could not be reached any more. */
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

/** Works through the plans, several at a time; a symbol that fails does not stop the others. */
export async function collect(context: CollectContext, plans: readonly SymbolPlan[]): Promise<Collected> {
  const byName = new Map(plans.map((plan) => [plan.symbol, plan]));
  const failures: Failure[] = [];
  const failed = new Set<string>();
  const shortened = new Set<string>();
  const reached = new Set<string>();
  let waiting: Waiting[] = [];
  let stopped: UpstreamError | null = null;

  const take = (symbol: string, outcome: CoverOutcome): void => {
    const plan = byName.get(symbol)!;
    waiting.push(...outcome.waiting);
    for (const { from, to, reason } of outcome.lost) {
      if (plan.first && from <= plan.windows[0]!.from) shortened.add(symbol);
      else failures.push({ symbol, from, to, reason });
    }
  };
  const attempt = async (symbol: string, work: () => Promise<CoverOutcome>): Promise<void> => {
    if (stopped !== null || context.signal.aborted) return;
    try {
      take(symbol, await work());
      reached.add(symbol);
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      if (error.failure === 'credential' || error.failure === 'unreachable') stopped = error;
      failed.add(symbol);
      await context.drain();
      failures.push(...remaining(context, byName.get(symbol)!, error.reason));
    }
  };

  let done = 0;
  await inParallel(context.concurrency, plans, async (plan) => {
    await attempt(plan.symbol, () => cover(context, plan.symbol, plan.windows));
    context.onSymbol(++done);
  });
  while (waiting.length > 0 && stopped === null && !context.signal.aborted) {
    const batch = waiting;
    waiting = [];
    await inParallel(context.concurrency, batch, (item) => attempt(item.symbol, () => settle(context, item)));
  }
  await context.drain();
  context.signal.throwIfAborted();
  const why = stopped as UpstreamError | null;
  if (why !== null) {
    const unsettled = new Set(waiting.map((item) => item.symbol));
    for (const plan of plans) {
      if (failed.has(plan.symbol) || (reached.has(plan.symbol) && !unsettled.has(plan.symbol))) continue;
      failures.push(...remaining(context, plan, why.reason));
      failed.add(plan.symbol);
    }
  }
  return {
    done: plans.map((plan) => plan.symbol).filter((symbol) => !failed.has(symbol)),
    failed: [...failed],
    failures,
    shortened: [...shortened],
    stopped: why,
  };
}

/** What of a plan is not covered. */
const remaining = (context: CollectContext, plan: SymbolPlan, reason: string): Failure[] =>
  subtract(plan.windows, context.coverageOf(plan.symbol)).map((w) => ({
    symbol: plan.symbol,
    from: w.from,
    to: w.to,
    reason,
  }));

/** At most `concurrency` at a time; the first error stops the rest and is thrown once those under way are over. */
async function inParallel<T>(
  concurrency: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  let broken = false;
  const worker = async (): Promise<void> => {
    while (next < items.length && !broken) {
      try {
        await work(items[next++]!);
      } catch (error) {
        broken = true;
        throw error;
      }
    }
  };
  const results = await Promise.allSettled(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  const bad = results.find((result) => result.status === 'rejected');
  if (bad !== undefined) throw bad.reason;
}
