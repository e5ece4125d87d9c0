import { findContiguousEnd, floorToDay, type Window } from '../../base/window.ts';
import type { SymbolFacts } from '../format/market.ts';

/**
 * When it was resolved, null where it was not: a moment that lay ahead when the lists were last seen is a plan, unless
 * the outcome came with it.
 */
const findResolutionTime = ({ resolvedAt, lastSeen, outcome }: SymbolFacts): number | null =>
  outcome !== null || (resolvedAt ?? Number.POSITIVE_INFINITY) <= lastSeen ? resolvedAt : null;

export interface LifetimeRules {
  /** How long before its first sight a symbol of unknown opening is expected to have begun, in ms. */
  readonly lookbackMs: number;
}

/** When it closed, as far as the lists tell: a close that still lay ahead when it turned inactive is a plan. */
const findCloseTime = ({ closesAt, inactiveSince }: SymbolFacts): number | null =>
  closesAt === null || inactiveSince === null ? null : Math.min(closesAt, inactiveSince);

/**
 * A symbol's lifetime: from its opening (unknown: the earliest of its first tick, its first sight less the look back, and
 * the start of its coverage), or from where the service goes back to, as far as that is known; without end while it is
 * active and polled, after that to the last of last listing, close and last tick.
 * @param coverage what is covered of it, in order
 */
export function computeLifetime(
  facts: SymbolFacts,
  coverage: readonly Window[],
  { lookbackMs }: LifetimeRules,
): Window {
  const seenFrom = Math.min(facts.firstTick ?? Number.POSITIVE_INFINITY, coverage[0]?.from ?? Number.POSITIVE_INFINITY);
  const opened = facts.opensAt ?? Math.min(seenFrom, facts.firstSeen - lookbackMs);
  const from = facts.servedFrom === null ? opened : Math.max(opened, Math.min(seenFrom, facts.servedFrom));
  const resolvedAt = findResolutionTime(facts);
  // Known by files or backfills alone, it is nobody's to follow: what came of it is all there is to be expected.
  const isPast = !facts.listed && facts.polledFrom === null && facts.lastTick !== null;
  if (!isPast && facts.inactiveSince === null && resolvedAt === null) return { from, to: Number.POSITIVE_INFINITY };
  const signs = [
    resolvedAt,
    facts.lastActive,
    findCloseTime(facts),
    facts.lastTick === null ? null : facts.lastTick + 1,
  ];
  const to = Math.max(...signs.map((sign) => sign ?? Number.NEGATIVE_INFINITY));
  return { from, to: Number.isFinite(to) ? Math.max(from, to) : Math.max(from, facts.lastSeen) };
}

export interface LingerRules extends LifetimeRules {
  /** How long an inactive symbol that is not resolved is polled on, in ms. */
  readonly lingerMs: number;
  /** How far beyond its end a resolved symbol must be covered before it is left alone, in ms. */
  readonly settleMs: number;
}

/** Whether a listed symbol is still to be polled at `nowMs`, `cursor` being the contiguous end of its coverage. */
export function isLive(facts: SymbolFacts, cursor: number, nowMs: number, rules: LingerRules): boolean {
  if (facts.suspendedAt !== null || !facts.listed) return false;
  const resolvedAt = findResolutionTime(facts);
  if (facts.inactiveSince === null && resolvedAt === null) return true;
  // What it did between the last poll and its end is still to be fetched, however long ago that was.
  const end = Math.max(resolvedAt ?? 0, facts.lastActive ?? 0, findCloseTime(facts) ?? 0);
  if (cursor < end + rules.settleMs) return nowMs < Math.max(end, facts.inactiveSince ?? 0) + rules.lingerMs;
  return resolvedAt === null && nowMs < (facts.inactiveSince ?? 0) + rules.lingerMs;
}

/** Whether it may still be to be polled, whatever of it is covered: most that an archive knows never will. */
export const canBeLive = (facts: SymbolFacts, nowMs: number, rules: LingerRules): boolean =>
  isLive(facts, Number.NEGATIVE_INFINITY, nowMs, rules) || isLive(facts, Number.POSITIVE_INFINITY, nowMs, rules);

/** Whether a symbol is one that polls are for: the lists name it as active, or it is among those named by hand. */
export const isActive = (facts: SymbolFacts, named: ReadonlySet<string> | null): boolean =>
  named === null
    ? facts.listed && facts.inactiveSince === null && findResolutionTime(facts) === null
    : named.has(facts.symbol);

/** Whether a symbol may be asked for: it is not suspended, or was not asked for since on this UTC day. */
export const isRequestDue = ({ suspendedAt, triedAt }: SymbolFacts, nowMs: number): boolean =>
  suspendedAt === null || triedAt === null || floorToDay(nowMs) !== floorToDay(triedAt);

/** The share of the active symbols that may be suspended before that is no matter of single symbols, 0 to 1. */
const suspendedShareMax = 0.01;

/** Whether so many suspended symbols of all `active` ones, the suspended included, are more than may be. */
export const hasTooManySuspended = (suspended: number, active: number): boolean =>
  suspended > 0 && suspended > active * suspendedShareMax;

/**
 * The contiguous end of a symbol's coverage, from the start of its lifetime on; that start where nothing covers it.
 * @param known what was ever covered, where some of it was lost: its lifetime begins there all the same
 */
export const computeCursor = (
  facts: SymbolFacts,
  coverage: readonly Window[],
  rules: LifetimeRules,
  known: readonly Window[] = coverage,
): number => findContiguousEnd(coverage, computeLifetime(facts, known, rules).from);
