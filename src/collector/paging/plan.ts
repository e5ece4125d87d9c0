import {
  allCovered,
  computeCursor,
  computeLifetime,
  findProvenEnd,
  isLive,
  type LifetimeRules,
  type LingerRules,
} from '../../archive/completeness/symbol-lifetime.ts';
import { type CoveredWindow, isProven } from '../../archive/format/coverage.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import {
  covers,
  dayMs,
  floorToDay,
  intersect,
  intersectTwo,
  isEmpty,
  subtract,
  union,
  type Window,
} from '../../base/window.ts';
import { isLookDue } from '../proof/proven.ts';
import { defaultFetchOptions } from './fetch-steps.ts';
import type { FetchPlan } from './fetch-symbol.ts';
import { reachMsMin, type ServerBehavior } from './server-behavior.ts';

/** The windows to fetch for one symbol. */
export interface SymbolPlan {
  readonly symbol: string;
  readonly windows: readonly Window[];
  /** True if the symbol has no coverage yet. Missing history is then not a failure. */
  readonly isFirst: boolean;
  /**
   * Whether a day more is requested at each end, neither kept nor claimed: no other symbol could prove the ends of the fullest one.
   */
  readonly hasMargin?: boolean;
  /** Where the last window of a poll, which extends to the end of the poll, continues. Undefined for a backfill. */
  readonly tail?: PollTail;
}

/** Where a poll continues. */
interface PollTail {
  /** The last tick of the symbol in the archive, epoch ms, at any distance. Null if there is none. */
  readonly lastTick: number | null;
  /** The last tick, epoch ms, if it is close enough to be fetched again. Null otherwise. */
  readonly knownTick: number | null;
  /** Whether the last window begins where nothing is proven, and not at a tick. */
  readonly isLowUnproven?: boolean;
}

/** How much more a first poll and a backfill request at each end, in ms. */
const marginMs = dayMs;

const addMargin = (windows: readonly Window[], nowMs: number): Window[] =>
  union(windows.map(({ from, to }) => ({ from: from - marginMs, to: Math.max(to, Math.min(nowMs, to + marginMs)) })));

/**
 * The windows of a plan with their options. Only the last window of a poll continues from a known tick. A first poll reaches
 * further back than the next one.
 */
export const toFetchPlans = ({ windows: claimed, tail, hasMargin }: SymbolPlan, nowMs: number): FetchPlan[] => {
  const windows = hasMargin === true ? addMargin(claimed, nowMs) : claimed;
  return windows.map(({ from, to }, i) => ({
    from,
    to,
    options:
      tail !== undefined && i === windows.length - 1
        ? { ...tail, isContinued: tail.lastTick !== null }
        : defaultFetchOptions,
  }));
};

interface PollRules extends LingerRules {
  /** Deliberate re-read before the cursor for late ticks, in ms. */
  readonly overlapMs: number;
}

/**
 * Plans the poll of a symbol up to `end`: from its cursor, with the overlap, and each gap in its lifetime. A window may
 * span several days. Windows covered up to `end` are not fetched again, so the poll of a past day can be repeated.
 * @param owed windows that were requested and are not covered, even if they lie before the symbol's known lifetime
 * @param collectedTo the end of the last poll by the collector, if live reads have covered later windows since
 *
 * Windows in which the symbol was not collected are neither fetched nor re-read. If the last one has ended since `end`, the
 * symbol is polled all the same: from the overlap before it is collected again, although nothing is owed there.
 */
export function planPoll(
  facts: SymbolFacts,
  coverage: readonly Window[],
  end: number,
  rules: PollRules,
  owed: readonly Window[] = [],
  collectedTo = Number.POSITIVE_INFINITY,
): SymbolPlan {
  const { symbol } = facts;
  const { from: anchor } = computeLifetime(facts, coverage, rules);
  const isFirst = coverage.length === 0;
  const owedEarlier = intersect(owed, [{ from: facts.opensAt ?? Number.NEGATIVE_INFINITY, to: Math.min(anchor, end) }]);
  const lifetime = { from: anchor, to: end };
  // Open windows do not count here: a request that names the symbol is for its current data, too.
  const unselected = (facts.unselected ?? []).flatMap((window) => {
    if (!Number.isFinite(window.to)) return [];
    const to = window.to < end ? window.to : window.to - rules.overlapMs;
    return window.from < to ? [{ from: window.from, to }] : [];
  });
  const lacking = subtract(isEmpty(lifetime) ? owedEarlier : union([...owedEarlier, lifetime]), [
    ...coverage,
    ...unselected,
  ]);
  // What live reads covered up to `end`, the collector has not read yet.
  const uncovered =
    collectedTo < end && !isEmpty(lifetime) && lacking.at(-1)?.to !== end
      ? [...lacking, { from: Math.max(lacking.at(-1)?.to ?? anchor, anchor, collectedTo), to: end }]
      : lacking;
  const lastWindow = uncovered.at(-1);
  if (lastWindow === undefined) return { symbol, windows: [], isFirst: isFirst };
  // Only the window that reaches `end` is new. The overlap before it is for late ticks.
  const overlapped = uncovered.map((w) =>
    w === lastWindow && w.to === end
      ? {
          from: Math.max(
            Math.min(anchor, w.from),
            Math.min(w.from, collectedTo) - rules.overlapMs,
            ...unselected.flatMap(({ to }) => (to <= w.from ? [to] : [])),
          ),
          to: w.to,
        }
      : w,
  );
  const windows = union(overlapped);
  return { symbol, windows, isFirst, hasMargin: windows[0]!.from === anchor };
}

/**
 * Adds to a poll's plan the point from which its last window continues. The last known tick is fetched again if
 * everything between it and the window is covered, and it is not older than the lookback of a first poll.
 */
export function addTail(
  plan: SymbolPlan,
  { lastTick }: SymbolFacts,
  coverage: readonly Window[],
  rules: PollRules,
): SymbolPlan {
  const lastWindow = plan.windows.at(-1);
  if (lastWindow === undefined) return plan;
  const isKnown =
    lastTick !== null &&
    lastTick >= lastWindow.from - rules.lookbackMs &&
    lastTick < lastWindow.to &&
    covers(coverage, { from: Math.min(lastTick, lastWindow.from), to: Math.max(lastTick + 1, lastWindow.from) });
  return { ...plan, tail: { lastTick, knownTick: isKnown ? lastTick : null } };
}

/** Where a symbol's coverage is not proven, and the first covered time, epoch ms. */
interface UnprovenEnd {
  readonly start: number;
  readonly earliest: number;
}

/**
 * Finds where a symbol's coverage is not proven: in its first hole that is due again, or after its last proven window. Null if a
 * poll's last window begins there as planned, or the poll brings nothing new.
 * @param responses coverage of the symbol, published or journaled
 * @param since nothing before is read again, epoch ms
 */
export function findUnprovenStart(
  { windows, tail }: SymbolPlan,
  responses: readonly CoveredWindow[],
  since: number,
  firstSeen: number,
): UnprovenEnd | null {
  const lastWindow = windows.at(-1);
  const covered = union(responses).filter(({ from }) => lastWindow !== undefined && from < lastWindow.to);
  if (lastWindow === undefined || tail === undefined || covered.length === 0) return null;
  if (covered.at(-1)!.to >= lastWindow.to) return null;
  const earliest = covered[0]!.from;
  const proven = responses.filter(isProven);
  const end = proven.reduce((max, { to }) => Math.max(max, to), Math.max(since, earliest));
  const holes = subtract(intersect(covered, [{ from: since, to: end }]), proven);
  const due = holes.find(({ to }) => isLookDue(Math.max(to, firstSeen), lastWindow.to));
  const start = due?.from ?? end;
  return start < lastWindow.from ? { start, earliest } : null;
}

/**
 * Polls prove what is not older, epoch ms: a first poll, and three nights for what only they prove. Where each day costs a request, a
 * symbol that was first seen before gets these three nights and no more.
 */
export function computeProofStart(
  nowMs: number,
  { lookbackMs, settleMs }: { readonly lookbackMs: number; readonly settleMs: number },
  { reachMs }: Pick<ServerBehavior, 'reachMs'>,
  firstSeen: number,
): number {
  const isRecent = reachMs < reachMsMin && firstSeen < nowMs - 3 * dayMs;
  return floorToDay(nowMs - (isRecent ? settleMs : lookbackMs)) - 3 * dayMs;
}

/** A poll begins at a known tick if it is at most this long before what it has to prove, in ms; or else at midnight. */
const anchorMsMax = 2 * dayMs;

/**
 * Lets the last window of a poll begin where the coverage is no longer proven: at the last tick before, because between two ticks
 * of one response all is proven. If that tick is far, at the midnight before: the emptiness needs other witnesses.
 * @param tick the last tick at or before `start`, epoch ms; null: none
 * @param bridgeMs the longest silence across which the server was seen to answer, in ms
 */
export function beginAtAnchor(
  plan: SymbolPlan,
  { start, earliest }: UnprovenEnd,
  tick: number | null,
  bridgeMs: number,
): SymbolPlan {
  const { from, to } = plan.windows.at(-1)!;
  const isNear = tick !== null && (start - tick <= anchorMsMax || to - tick <= bridgeMs);
  const begin = isNear ? tick : Math.max(floorToDay(start), earliest);
  const { knownTick } = plan.tail!;
  return {
    ...plan,
    windows: union([...plan.windows.slice(0, -1), { from: Math.min(from, begin), to }]),
    tail: {
      ...plan.tail!,
      knownTick: knownTick !== null && knownTick >= begin ? knownTick : null,
      ...(!isNear && { isLowUnproven: true }),
    },
    ...(begin <= earliest && { hasMargin: true }),
  };
}

/**
 * Extends the plan so that each lost window that it touches is fetched in full. A response for a part could not prove
 * that the window is restored.
 */
export function extendToLostWindows(plan: SymbolPlan, lost: readonly Window[]): SymbolPlan {
  const touched = lost.filter((window) => intersect(plan.windows, [window]).length > 0);
  return touched.length === 0 ? plan : { ...plan, windows: union([...plan.windows, ...touched]) };
}

/**
 * Whether market lists still require a symbol to be polled at `nowMs`.
 * @param readResponses its coverage with evidence, which few symbols need
 */
export const needsPolling = (
  facts: SymbolFacts,
  coverage: readonly Window[],
  readResponses: () => readonly CoveredWindow[],
  nowMs: number,
  rules: LingerRules,
): boolean =>
  isLive(facts, allCovered, nowMs, rules) ||
  isLive(
    facts,
    { cursor: computeCursor(facts, coverage, rules), provenTo: findProvenEnd(facts, readResponses()) },
    nowMs,
    rules,
  );

interface BackfillRules extends LifetimeRules {
  /** Margin around a symbol's lifetime, in ms. */
  readonly lifetimeMarginMs: number;
  /** Fetch the full window, regardless of coverage and lifetime. */
  readonly force: boolean;
  /** Fetch symbols outside their lifetime too. */
  readonly allKnown: boolean;
  /** Whether the symbol was named explicitly, for this backfill or in the configuration. */
  readonly named: boolean;
  /** Whether it was named for this backfill, which then also fetches what was not to be collected. */
  readonly chosen?: boolean;
}

/** Plans a backfill of `window`: its uncovered parts within the symbol's lifetime and a margin. */
export function planBackfill(
  facts: SymbolFacts,
  coverage: readonly Window[],
  window: Window,
  rules: BackfillRules,
): SymbolPlan {
  // The margin applies to the lifetime in the market lists. Around ticks, it would grow with every backfill that finds some.
  const listedLifetime = computeLifetime({ ...facts, firstTick: null, lastTick: null }, [], rules);
  const lifetime = computeLifetime(facts, coverage, rules);
  // Market lists give no end for a symbol that is known only from imported files. Unless it is named, nothing after its
  // lifetime is fetched: there may be thousands of such symbols.
  const end =
    rules.named || Number.isFinite(listedLifetime.to)
      ? Math.max(listedLifetime.to + rules.lifetimeMarginMs, lifetime.to)
      : lifetime.to;
  const span = {
    // An unknown opening sets no bound: the past was requested explicitly.
    from:
      facts.opensAt === null
        ? Number.NEGATIVE_INFINITY
        : listedLifetime.from - (facts.servedFrom === null ? rules.lifetimeMarginMs : 0),
    to: end,
  };
  const bounded = rules.allKnown ? window : intersectTwo(window, span);
  const windows = isEmpty(bounded) ? [] : [bounded];
  const skipped = rules.chosen === true ? [] : (facts.unselected ?? []);
  const requested = skipped.length === 0 ? windows : subtract(windows, skipped);
  return {
    symbol: facts.symbol,
    windows: rules.force ? requested : subtract(requested, coverage),
    isFirst: false,
    hasMargin: true,
  };
}
