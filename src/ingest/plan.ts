import { cursorOf, isLive, type LingerRules, lifeOf } from '../core/life.ts';
import type { SymbolFacts } from '../core/market.ts';
import { intersect, intersection, isEmpty, subtract, union, type Window } from '../core/window.ts';

/** What one symbol is to be asked for. */
export interface SymbolPlan {
  readonly symbol: string;
  readonly windows: readonly Window[];
  /** True where nothing of it was ever polled: what the service lacks of its past is no failure then. */
  readonly first: boolean;
}

export interface PollRules extends LingerRules {
  /** Deliberate re-read before the cursor, for late ticks, in ms. */
  readonly overlapMs: number;
  /** How far the first poll of a symbol looks back, and how old a hole may be for a poll to ask for it, in ms. */
  readonly lookbackMs: number;
}

/** From when on the first poll of a symbol asks, if it reaches up to `end`; epoch ms. */
export const firstFrom = ({ opensAt }: SymbolFacts, end: number, { lookbackMs }: PollRules): number =>
  Math.max(end - lookbackMs, opensAt ?? Number.NEGATIVE_INFINITY);

/**
 * Plans a poll up to `end`: each symbol from its cursor on, with the overlap, and young holes before it. A window spans
 * as many days as it takes. What is covered up to `end` is not asked again, so a poll of a past day can be repeated.
 */
export function planPoll(facts: SymbolFacts, coverage: readonly Window[], end: number, rules: PollRules): SymbolPlan {
  const { symbol, polledFrom } = facts;
  const anchor = polledFrom ?? firstFrom(facts, end, rules);
  const lacking = subtract([{ from: anchor, to: end }], coverage);
  const last = lacking.at(-1);
  if (last === undefined) return { symbol, windows: [], first: polledFrom === null };
  // Only the stretch that reaches the end is new; a hole before it is asked for while it is young.
  const reachesEnd = last.to === end;
  const young = lacking.filter((w) => (w === last && reachesEnd ? true : w.to > end - rules.lookbackMs));
  const overlapped = young.map((w) =>
    w === last && reachesEnd ? { from: Math.max(anchor, w.from - rules.overlapMs), to: w.to } : w,
  );
  return { symbol, windows: union(overlapped), first: polledFrom === null };
}

/**
 * The plan with every lost window that it touches asked for whole: an answer for a part of one could not prove that it is
 * back.
 */
export function withWholeLost(plan: SymbolPlan, lost: readonly Window[]): SymbolPlan {
  const touched = lost.filter((window) => intersect(plan.windows, [window]).length > 0);
  return touched.length === 0 ? plan : { ...plan, windows: union([...plan.windows, ...touched]) };
}

/** Whether market lists still ask for a symbol to be polled at `nowMs`. */
export const isWanted = (facts: SymbolFacts, coverage: readonly Window[], nowMs: number, rules: LingerRules): boolean =>
  isLive(facts, cursorOf(facts, coverage), nowMs, rules);

export interface BackfillRules {
  /** Margin around a symbol's life, in ms. */
  readonly lifeMarginMs: number;
  /** Ask for all of the window, whatever coverage and life say. */
  readonly force: boolean;
  /** Ask for symbols outside of their life too. */
  readonly allKnown: boolean;
  /** Whether the symbol was named by hand, for this backfill or in the config. */
  readonly named: boolean;
}

/** Plans a backfill of `window`: what coverage lacks of it, within the symbol's life and a margin. */
export function planBackfill(
  facts: SymbolFacts,
  coverage: readonly Window[],
  window: Window,
  rules: BackfillRules,
): SymbolPlan {
  // The margin is around what the lists say: were it around ticks too, those found in it would move it on each time.
  const told = lifeOf({ ...facts, firstTick: null, lastTick: null });
  const alive = lifeOf(facts);
  // Of one that files alone brought the lists told nothing. Thousands of those would be asked for whatever came after
  // their last tick; one that is named may be meant to be followed.
  const end = rules.named || Number.isFinite(told.to) ? Math.max(told.to + rules.lifeMarginMs, alive.to) : alive.to;
  const span = {
    // An unknown opening bounds nothing: the past was asked for by name.
    from: facts.opensAt === null ? Number.NEGATIVE_INFINITY : told.from - rules.lifeMarginMs,
    to: end,
  };
  const asked = rules.allKnown ? window : intersection(window, span);
  const wanted = isEmpty(asked) ? [] : [asked];
  return { symbol: facts.symbol, windows: rules.force ? wanted : subtract(wanted, coverage), first: false };
}

/** Requests a plan will take at least: one a window, and more where past density says that a page cannot hold it. */
export function expectedRequests(plan: SymbolPlan, facts: SymbolFacts, pageLimit: number): number {
  const life = facts.firstTick === null || facts.lastTick === null ? 0 : facts.lastTick - facts.firstTick;
  const perMs = life > 0 ? facts.ticks / life : 0;
  return plan.windows.reduce((sum, w) => sum + Math.max(1, Math.ceil(((w.to - w.from) * perMs) / pageLimit)), 0);
}
