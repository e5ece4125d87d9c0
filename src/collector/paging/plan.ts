import {
  computeCursor,
  computeLifetime,
  isLive,
  type LifetimeRules,
  type LingerRules,
} from '../../archive/completeness/symbol-lifetime.ts';
import { type CoveredWindow, computeSettledWindows, isProven } from '../../archive/format/coverage.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { covers, intersect, intersectTwo, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import { defaultFetchOptions } from './fetch-steps.ts';
import type { FetchPlan } from './fetch-symbol.ts';

/** The windows to fetch for one symbol. */
export interface SymbolPlan {
  readonly symbol: string;
  readonly windows: readonly Window[];
  /** True if the symbol has no coverage yet. Missing history is then not a failure. */
  readonly isFirst: boolean;
  /** Where the last window of a poll, which extends to the end of the poll, continues. Undefined for a backfill. */
  readonly tail?: PollTail;
}

/** Where a poll continues. */
interface PollTail {
  /** The last tick of the symbol in the archive, epoch ms, at any distance. Null if there is none. */
  readonly lastTick: number | null;
  /** The last tick, epoch ms, if it is close enough to be fetched again. Null otherwise. */
  readonly knownTick: number | null;
  /** Windows before the cursor that are only inferred. The known tick confirms them when it is returned again. */
  readonly inferred: readonly CoveredWindow[];
  /** End of the coverage, epoch ms, if it is proven and everything from the known tick on is covered. */
  readonly coveredTo?: number | null;
  /** When the end of the window is confirmed: now, with one more request, or by the next poll. */
  readonly confirm: 'now' | 'next';
}

/** The windows of a plan with their options. Only the last window of a poll continues from a known tick. */
export const toFetchPlans = ({ windows, tail }: SymbolPlan): FetchPlan[] =>
  windows.map(({ from, to }, i) => ({
    from,
    to,
    options: tail !== undefined && i === windows.length - 1 ? tail : defaultFetchOptions,
  }));

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
  return { symbol, windows: union(overlapped), isFirst: isFirst };
}

/**
 * Adds to a poll's plan the point from which its last window continues. The last known tick is fetched again if
 * everything between it and the window is covered, and it is not older than the lookback of a first poll.
 * @param inferred inferred windows of the symbol that adjoin each other up to the end of its coverage; undefined if it has no
 *   inferred window. Empty if polls must not confirm them: then the end of the coverage counts as unproven.
 */
export function addTail(
  plan: SymbolPlan,
  { lastTick }: SymbolFacts,
  coverage: readonly Window[],
  inferred: readonly CoveredWindow[] | undefined,
  rules: PollRules,
  confirm: PollTail['confirm'],
): SymbolPlan {
  const lastWindow = plan.windows.at(-1);
  if (lastWindow === undefined) return plan;
  const isKnown =
    lastTick !== null &&
    lastTick >= lastWindow.from - rules.lookbackMs &&
    lastTick < lastWindow.to &&
    covers(coverage, { from: Math.min(lastTick, lastWindow.from), to: Math.max(lastTick + 1, lastWindow.from) });
  const end = coverage.at(-1)?.to;
  const tail = inferred?.at(-1)?.to === end ? (inferred ?? []) : [];
  const knownTick = isKnown ? lastTick : null;
  const isEndProven =
    knownTick !== null &&
    tail.length === 0 &&
    inferred?.length !== 0 &&
    end !== undefined &&
    knownTick < end &&
    end < lastWindow.to &&
    covers(coverage, { from: knownTick, to: end });
  return { ...plan, tail: { lastTick, knownTick, inferred: tail, coveredTo: isEndProven ? end : null, confirm } };
}

/**
 * Finds where a poll's last window must begin to prove again what the last job proved too soon: the first time in the window,
 * epoch ms, for which no response is final yet. If the window begins at a tick at or before it, the tick and the known tick in
 * one page prove everything between them. Null if the poll begins early enough as planned, or does not continue from a known
 * tick.
 * @param responses coverage of the symbol, published or journaled
 * @param settleMs how long after the end of a window a response is final
 */
export function findUnsettledStart(
  { windows, tail }: SymbolPlan,
  responses: readonly CoveredWindow[],
  settleMs: number,
): number | null {
  const lastWindow = windows.at(-1);
  const knownTick = tail?.knownTick ?? null;
  // Requests begin at the known tick if it lies before the window.
  if (lastWindow === undefined || knownTick === null || knownTick <= lastWindow.from) return null;
  const coveredTo = responses.reduce((max, { to }) => Math.max(max, to), Number.NEGATIVE_INFINITY);
  if (coveredTo >= lastWindow.to) return null;
  // The known tick confirms what the last poll inferred.
  const newest = tail!.inferred.reduce((max, { fetchedAt }) => Math.max(max, fetchedAt), Number.NEGATIVE_INFINITY);
  const settled = computeSettledWindows(
    responses.filter((w) => isProven(w) || w.fetchedAt === newest),
    settleMs,
  );
  const [unsettled] = subtract([{ from: lastWindow.from, to: coveredTo }], settled);
  return unsettled === undefined || knownTick <= unsettled.from ? null : unsettled.from;
}

/** Lets the last window of a poll begin at an earlier tick, epoch ms, if everything between them is covered. */
export function beginAtTick(plan: SymbolPlan, tick: number, coverage: readonly Window[]): SymbolPlan {
  const { from, to } = plan.windows.at(-1)!;
  if (tick >= from || !covers(coverage, { from: tick, to: from })) return plan;
  return { ...plan, windows: [...plan.windows.slice(0, -1), { from: tick, to }] };
}

/**
 * Extends the plan so that each lost window that it touches is fetched in full. A response for a part could not prove
 * that the window is restored.
 */
export function extendToLostWindows(plan: SymbolPlan, lost: readonly Window[]): SymbolPlan {
  const touched = lost.filter((window) => intersect(plan.windows, [window]).length > 0);
  return touched.length === 0 ? plan : { ...plan, windows: union([...plan.windows, ...touched]) };
}

/** Whether market lists still require a symbol to be polled at `nowMs`. */
export const needsPolling = (
  facts: SymbolFacts,
  coverage: readonly Window[],
  nowMs: number,
  rules: LingerRules,
): boolean => isLive(facts, computeCursor(facts, coverage, rules), nowMs, rules);

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
  return { symbol: facts.symbol, windows: rules.force ? requested : subtract(requested, coverage), isFirst: false };
}
