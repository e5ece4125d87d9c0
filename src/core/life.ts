import type { SymbolFacts } from './market.ts';
import { contiguousEnd, dayMs, intersect, subtract, type Window } from './window.ts';

/**
 * When it was resolved, null where it was not: a moment that lay ahead when the lists were last seen is a plan, unless
 * the outcome came with it.
 */
const resolutionOf = ({ resolvedAt, lastSeen, outcome }: SymbolFacts): number | null =>
  outcome !== null || (resolvedAt ?? Number.POSITIVE_INFINITY) <= lastSeen ? resolvedAt : null;

/**
 * A symbol's life: from its opening (unknown: the earlier of first tick and first sight) to its last sign of activity;
 * without end while it is active and polled.
 */
export function lifeOf(facts: SymbolFacts): Window {
  const from = facts.opensAt ?? Math.min(facts.firstTick ?? Number.POSITIVE_INFINITY, facts.firstSeen);
  const resolvedAt = resolutionOf(facts);
  // Known by files or backfills alone, it is nobody's to follow: what came of it is all there is to be expected.
  const isPast = !facts.listed && facts.polledFrom === null && facts.lastTick !== null;
  if (!isPast && facts.inactiveSince === null && resolvedAt === null) return { from, to: Number.POSITIVE_INFINITY };
  const signs = [resolvedAt, facts.lastActive, facts.lastTick === null ? null : facts.lastTick + 1];
  const to = Math.max(...signs.map((sign) => sign ?? Number.NEGATIVE_INFINITY));
  return { from, to: Number.isFinite(to) ? Math.max(from, to) : Math.max(from, facts.lastSeen) };
}

export interface LingerRules {
  /** How long an inactive symbol that is not resolved is polled on, in ms. */
  readonly lingerMs: number;
  /** How far beyond its end a resolved symbol must be covered before it is left alone, in ms. */
  readonly settleMs: number;
}

/** Whether a listed symbol is still to be polled at `nowMs`, `cursor` being the contiguous end of its coverage. */
export function isLive(facts: SymbolFacts, cursor: number, nowMs: number, rules: LingerRules): boolean {
  if (facts.retiredAt !== null || !facts.listed) return false;
  const resolvedAt = resolutionOf(facts);
  if (facts.inactiveSince === null && resolvedAt === null) return true;
  // What it did between the last poll and its end is still to be fetched, however long ago that was.
  const end = Math.max(resolvedAt ?? 0, facts.lastActive ?? 0);
  if (cursor < end + rules.settleMs) return nowMs < Math.max(end, facts.inactiveSince ?? 0) + rules.lingerMs;
  return resolvedAt === null && nowMs < (facts.inactiveSince ?? 0) + rules.lingerMs;
}

/** Whether it may still be to be polled, whatever of it is covered: most that an archive knows never will. */
export const mayBeLive = (facts: SymbolFacts, nowMs: number, rules: LingerRules): boolean =>
  isLive(facts, Number.NEGATIVE_INFINITY, nowMs, rules) || isLive(facts, Number.POSITIVE_INFINITY, nowMs, rules);

/** How long a symbol that was given up on is left alone before it is tried once more, in ms. */
const retryRetiredMs = 7 * dayMs;

/**
 * Whether a symbol may be asked for: it was never given up on, or so long ago that it is worth another try. One given up
 * on days from now was so by a clock that was wrong.
 */
export const isDue = ({ retiredAt }: SymbolFacts, nowMs: number): boolean =>
  retiredAt === null || nowMs - retiredAt >= retryRetiredMs || nowMs < retiredAt - dayMs;

/** Where a symbol's cursor starts from: its first polled moment, or the beginning of its life. */
export const cursorOf = (facts: SymbolFacts, coverage: readonly Window[]): number =>
  contiguousEnd(coverage, facts.polledFrom ?? lifeOf(facts).from);

/**
 * Windows of a symbol's life inside `asked` that nothing covers.
 * @param fromNamed whether the start was asked for by name: an unknown opening bounds nothing then
 */
export function gapsOf(facts: SymbolFacts, coverage: readonly Window[], asked: Window, fromNamed: boolean): Window[] {
  const { from, to } = lifeOf(facts);
  const life = { from: fromNamed && facts.opensAt === null ? Number.NEGATIVE_INFINITY : from, to };
  return subtract(intersect([life], [asked]), coverage);
}
