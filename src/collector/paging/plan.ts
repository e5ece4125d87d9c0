import {
  computeCursor,
  computeLifetime,
  isLive,
  type LifetimeRules,
  type LingerRules,
} from '../../archive/completeness/symbol-lifetime.ts';
import type { CoveredWindow } from '../../archive/format/coverage.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { covers, intersect, intersectTwo, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import { defaultFetchOptions } from './fetch-steps.ts';
import type { FetchPlan } from './fetch-symbol.ts';

/** What one symbol is to be asked for. */
export interface SymbolPlan {
  readonly symbol: string;
  readonly windows: readonly Window[];
  /** True where nothing of it is covered yet: what the service lacks of its past is no failure then. */
  readonly isFirst: boolean;
  /** Of a poll: what its last window, which reaches up to the end, begins with. Undefined for a backfill. */
  readonly tail?: PollTail;
}

/** Where a poll goes on from. */
export interface PollTail {
  /** The last tick that the archive has of the symbol, epoch ms, wherever it lies; null: none. */
  readonly lastTick: number | null;
  /** The last tick that is known, epoch ms, where it is near enough to be asked for again; null otherwise. */
  readonly knownTick: number | null;
  /** Windows up to the cursor that are only inferred: the known tick coming again confirms them. */
  readonly inferred: readonly CoveredWindow[];
  /** Whether the end of the window is confirmed at once, at one more request. */
  readonly confirm: 'now' | 'next';
}

/** The windows of a plan with how each is fetched: only the last one of a poll goes on from a known tick. */
export const toFetchPlans = ({ windows, tail }: SymbolPlan): FetchPlan[] =>
  windows.map(({ from, to }, i) => ({
    from,
    to,
    options: tail !== undefined && i === windows.length - 1 ? tail : defaultFetchOptions,
  }));

export interface PollRules extends LingerRules {
  /** Deliberate re-read before the cursor, for late ticks, in ms. */
  readonly overlapMs: number;
}

/**
 * Plans a poll up to `end`: each symbol from its cursor on, with the overlap, and every hole before it, from the start of
 * its lifetime on. A window spans as many days as it takes. What is covered up to `end` is not asked again, so a poll of
 * a past day can be repeated.
 * @param owed windows that were asked for and are not had, be they before what is known of its lifetime
 */
export function planPoll(
  facts: SymbolFacts,
  coverage: readonly Window[],
  end: number,
  rules: PollRules,
  owed: readonly Window[] = [],
): SymbolPlan {
  const { symbol } = facts;
  const { from: anchor } = computeLifetime(facts, coverage, rules);
  const first = coverage.length === 0;
  const earlier = intersect(owed, [{ from: facts.opensAt ?? Number.NEGATIVE_INFINITY, to: Math.min(anchor, end) }]);
  const whole = { from: anchor, to: end };
  const lacking = subtract(isEmpty(whole) ? earlier : union([...earlier, whole]), coverage);
  const last = lacking.at(-1);
  if (last === undefined) return { symbol, windows: [], isFirst: first };
  // Only the stretch that reaches the end is new: before it late ticks are looked for.
  const overlapped = lacking.map((w) =>
    w === last && w.to === end ? { from: Math.max(Math.min(anchor, w.from), w.from - rules.overlapMs), to: w.to } : w,
  );
  return { symbol, windows: union(overlapped), isFirst: first };
}

/**
 * A poll's plan with where its last window goes on from. The last known tick is asked for again where it was fetched
 * together with all that lies between it and the window, and is not older than a first poll would look back.
 * @param inferred windows of the symbol that are only inferred and adjoin each other up to the end of its coverage
 */
export function addTail(
  plan: SymbolPlan,
  { lastTick }: SymbolFacts,
  coverage: readonly Window[],
  inferred: readonly CoveredWindow[],
  rules: PollRules,
  confirm: PollTail['confirm'],
): SymbolPlan {
  const last = plan.windows.at(-1);
  if (last === undefined) return plan;
  const isKnown =
    lastTick !== null &&
    lastTick >= last.from - rules.lookbackMs &&
    lastTick < last.to &&
    covers(coverage, { from: Math.min(lastTick, last.from), to: Math.max(lastTick + 1, last.from) });
  const end = coverage.at(-1)?.to;
  const tail = inferred.at(-1)?.to === end ? inferred : [];
  return { ...plan, tail: { lastTick, knownTick: isKnown ? lastTick : null, inferred: tail, confirm } };
}

/**
 * The plan with every lost window that it touches asked for whole: an answer for a part of one could not prove that it is
 * back.
 */
export function extendToLostWindows(plan: SymbolPlan, lost: readonly Window[]): SymbolPlan {
  const touched = lost.filter((window) => intersect(plan.windows, [window]).length > 0);
  return touched.length === 0 ? plan : { ...plan, windows: union([...plan.windows, ...touched]) };
}

/** Whether market lists still ask for a symbol to be polled at `nowMs`. */
export const isWanted = (facts: SymbolFacts, coverage: readonly Window[], nowMs: number, rules: LingerRules): boolean =>
  isLive(facts, computeCursor(facts, coverage, rules), nowMs, rules);

export interface BackfillRules extends LifetimeRules {
  /** Margin around a symbol's lifetime, in ms. */
  readonly lifetimeMarginMs: number;
  /** Ask for all of the window, whatever coverage and lifetime say. */
  readonly force: boolean;
  /** Ask for symbols outside of their lifetime too. */
  readonly allKnown: boolean;
  /** Whether the symbol was named by hand, for this backfill or in the config. */
  readonly named: boolean;
}

/** Plans a backfill of `window`: what coverage lacks of it, within the symbol's lifetime and a margin. */
export function planBackfill(
  facts: SymbolFacts,
  coverage: readonly Window[],
  window: Window,
  rules: BackfillRules,
): SymbolPlan {
  // The margin is around what the lists say: were it around ticks too, those found in it would move it on each time.
  const told = computeLifetime({ ...facts, firstTick: null, lastTick: null }, [], rules);
  const alive = computeLifetime(facts, coverage, rules);
  // Of one that files alone brought the lists told nothing. Thousands of those would be asked for whatever came after
  // their last tick; one that is named may be meant to be followed.
  const end = rules.named || Number.isFinite(told.to) ? Math.max(told.to + rules.lifetimeMarginMs, alive.to) : alive.to;
  const span = {
    // An unknown opening bounds nothing: the past was asked for by name.
    from:
      facts.opensAt === null
        ? Number.NEGATIVE_INFINITY
        : told.from - (facts.servedFrom === null ? rules.lifetimeMarginMs : 0),
    to: end,
  };
  const asked = rules.allKnown ? window : intersectTwo(window, span);
  const wanted = isEmpty(asked) ? [] : [asked];
  return { symbol: facts.symbol, windows: rules.force ? wanted : subtract(wanted, coverage), isFirst: false };
}

/** Requests that confirm a window once its pages were fetched: one for each side. */
export const confirmRequestsPerWindow = 2;

/** Requests a plan will take at least: one a window, and more where past density says that a page cannot hold it. */
export function estimateRequests(plan: SymbolPlan, facts: SymbolFacts, pageLimit: number): number {
  const life = facts.firstTick === null || facts.lastTick === null ? 0 : facts.lastTick - facts.firstTick;
  const perMs = life > 0 ? facts.ticks / life : 0;
  return plan.windows.reduce((sum, w) => sum + Math.max(1, Math.ceil(((w.to - w.from) * perMs) / pageLimit)), 0);
}
