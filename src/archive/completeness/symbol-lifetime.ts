import { findContiguousEnd, floorToDay, type Window } from '../../base/window.ts';
import { type CoveredWindow, isProven } from '../format/coverage.ts';
import type { SymbolFacts } from '../format/market.ts';
import { findOpenWindow, isUnselected } from '../format/selection.ts';

/**
 * When the symbol was resolved; null if it was not. A time that was in the future when the lists last named it is only
 * planned, unless the outcome is known.
 */
const findResolutionTime = ({ resolvedAt, lastSeen, outcome }: SymbolFacts): number | null =>
  outcome !== null || (resolvedAt ?? Number.POSITIVE_INFINITY) <= lastSeen ? resolvedAt : null;

export interface LifetimeRules {
  /** How long before its first appearance a symbol whose opening is unknown is assumed to have opened, in ms. */
  readonly lookbackMs: number;
}

/**
 * Close of the market according to the market lists. A close later than the time the symbol became inactive was only
 * planned.
 */
const findCloseTime = ({ closesAt, inactiveSince }: SymbolFacts): number | null =>
  closesAt === null || inactiveSince === null ? null : Math.min(closesAt, inactiveSince);

/**
 * Computes a symbol's lifetime. It starts at the opening. If that is unknown, it starts at the earliest of the first
 * tick, the first appearance minus the lookback, and the start of coverage. It does not start before the history that
 * the server keeps, unless earlier ticks or coverage are known. It has no end while the symbol is active and polled;
 * after that it ends at the latest of the resolution, the last active listing, the close and the last tick.
 * @param coverage covered windows, sorted
 */
export function computeLifetime(
  facts: SymbolFacts,
  coverage: readonly Window[],
  { lookbackMs }: LifetimeRules,
): Window {
  const seenFrom = Math.min(facts.firstTick ?? Number.POSITIVE_INFINITY, coverage[0]?.from ?? Number.POSITIVE_INFINITY);
  const opened = facts.opensAt ?? Math.min(seenFrom, facts.firstSeen - lookbackMs);
  // Ticks of the day on which the history of the service begins do not make that day whole.
  const coveredFrom = coverage[0]?.from ?? Number.POSITIVE_INFINITY;
  const from = facts.servedFrom === null ? opened : Math.max(opened, Math.min(coveredFrom, facts.servedFrom));
  const resolvedAt = findResolutionTime(facts);
  // A symbol known only from files or backfills is not polled. Nothing beyond its stored ticks is expected.
  const isPast = !facts.listed && !isWatched(facts) && facts.polledFrom === null && facts.lastTick !== null;
  if (!isPast && facts.inactiveSince === null && resolvedAt === null) return { from, to: Number.POSITIVE_INFINITY };
  const candidates = [
    resolvedAt,
    facts.lastActive,
    findCloseTime(facts),
    facts.lastTick === null ? null : facts.lastTick + 1,
  ];
  const to = Math.max(...candidates.map((candidate) => candidate ?? Number.NEGATIVE_INFINITY));
  return { from, to: Number.isFinite(to) ? Math.max(from, to) : Math.max(from, facts.lastSeen) };
}

export interface LingerRules extends LifetimeRules {
  /** How long an inactive, unresolved symbol continues to be polled, in ms. */
  readonly lingerMs: number;
}

/** How far a symbol is covered, epoch ms. */
interface PolledReach {
  /** The contiguous end of its coverage. */
  readonly cursor: number;
  /** The end of its last proven window. */
  readonly provenTo: number;
}

/** Whether a user decided to collect the symbol, whatever lists and settings say. */
const isWatched = ({ watchedAt }: SymbolFacts): boolean => watchedAt !== undefined;

/** Whether to poll a listed or watched symbol at `nowMs`: one that has ended, until that is proven, or it has lingered. */
export function isLive(
  facts: SymbolFacts,
  { cursor, provenTo }: PolledReach,
  nowMs: number,
  rules: LingerRules,
): boolean {
  if (facts.suspendedAt !== null || isUnselected(facts)) return false;
  if (!facts.listed) return isWatched(facts);
  const resolvedAt = findResolutionTime(facts);
  if (facts.inactiveSince === null && resolvedAt === null) return true;
  // Ticks between the last poll and the end still have to be fetched, however long ago that was.
  const end = Math.max(resolvedAt ?? 0, facts.lastActive ?? 0, findCloseTime(facts) ?? 0);
  if (Math.min(cursor, provenTo) < Math.max(end, (facts.lastTick ?? -1) + 1))
    return nowMs < Math.max(end, facts.inactiveSince ?? 0) + rules.lingerMs;
  return resolvedAt === null && nowMs < (facts.inactiveSince ?? 0) + rules.lingerMs;
}

/** Whether `isLive` is true for any coverage. For most symbols of an archive it never is. */
export const canBeLive = (facts: SymbolFacts, nowMs: number, rules: LingerRules): boolean =>
  isLive(facts, nothingCovered, nowMs, rules) || isLive(facts, allCovered, nowMs, rules);

const nothingCovered: PolledReach = { cursor: Number.NEGATIVE_INFINITY, provenTo: Number.NEGATIVE_INFINITY };
/** A symbol that is live with this reach is live with any. */
export const allCovered: PolledReach = { cursor: Number.POSITIVE_INFINITY, provenTo: Number.POSITIVE_INFINITY };

/** Finds the end of a symbol's last proven window, epoch ms. Where nothing was collected, there is nothing to prove: infinite. */
export const findProvenEnd = ({ unselected = [] }: SymbolFacts, coverage: readonly CoveredWindow[]): number =>
  coverage.length === 0
    ? Number.POSITIVE_INFINITY
    : [...coverage.filter(isProven), ...unselected].reduce(
        (max, { to }) => Math.max(max, to),
        Number.NEGATIVE_INFINITY,
      );

/**
 * Whether no more ticks are to be expected: the market lists say that it is resolved, no longer active, or past its
 * close. It may still be polled for a while, for late ticks.
 */
export const hasEnded = (facts: SymbolFacts, nowMs: number): boolean =>
  facts.outcome !== null ||
  findResolutionTime(facts) !== null ||
  facts.inactiveSince !== null ||
  (facts.closesAt ?? Number.POSITIVE_INFINITY) <= nowMs;

/** Whether a symbol is polled: it is active in the market lists, configured or watched, and selected. */
export const isActive = (facts: SymbolFacts, namedSymbols: ReadonlySet<string> | null): boolean =>
  !isUnselected(facts) && isActiveIfSelected(facts, namedSymbols);

/** The same for a symbol of which it was decided that it is not collected, as if it had not been. */
const isActiveIfSelected = (facts: SymbolFacts, namedSymbols: ReadonlySet<string> | null): boolean =>
  namedSymbols === null && facts.listed
    ? facts.inactiveSince === null && findResolutionTime(facts) === null
    : isRequested(facts, namedSymbols);

/** Whether a symbol counts as excluded or as forgotten: one that settings exclude only as long as it would be polled otherwise. */
export function getUnselectedCount(
  facts: SymbolFacts,
  namedSymbols: ReadonlySet<string> | null,
): 'excluded' | 'forgotten' | null {
  const kind = findOpenWindow(facts)?.kind;
  if (kind === 'forgotten') return kind;
  return kind === 'excluded' && isActiveIfSelected(facts, namedSymbols) ? kind : null;
}

/** Counts excluded and forgotten symbols, without those numbers that are zero: most archives collect every symbol. */
export function countUnselected(
  symbols: readonly SymbolFacts[],
  namedSymbols: ReadonlySet<string> | null,
): { readonly excluded?: number; readonly forgotten?: number } {
  const kinds = symbols.map((facts) => getUnselectedCount(facts, namedSymbols));
  const [excluded, forgotten] = (['excluded', 'forgotten'] as const).map(
    (kind) => kinds.filter((one) => one === kind).length,
  );
  return { ...(excluded! > 0 && { excluded: excluded! }), ...(forgotten! > 0 && { forgotten: forgotten! }) };
}

/** Whether market lists, settings or a user name the symbol as one to poll. `namedSymbols` null: the market lists do. */
export const isRequested = (facts: SymbolFacts, namedSymbols: ReadonlySet<string> | null): boolean =>
  isWatched(facts) || (namedSymbols === null ? facts.listed : namedSymbols.has(facts.symbol));

/** Whether a symbol may be requested: it is not suspended, or it has not been requested on this UTC day. */
export const isRequestDue = ({ suspendedAt, triedAt }: SymbolFacts, nowMs: number): boolean =>
  suspendedAt === null || triedAt === null || floorToDay(nowMs) !== floorToDay(triedAt);

/** Above this share of suspended symbols among the active ones, 0 to 1, a general problem is assumed. */
const suspendedShareMax = 0.01;

/** Whether too many of the `active` symbols, which include the suspended ones, are suspended. */
export const hasTooManySuspended = (suspended: number, active: number): boolean =>
  suspended > 0 && suspended > active * suspendedShareMax;

/**
 * Computes the contiguous end of a symbol's coverage from the start of its lifetime; returns that start if it is not
 * covered.
 * @param known coverage including windows lost since, which still determine the start of the lifetime
 */
export const computeCursor = (
  facts: SymbolFacts,
  coverage: readonly Window[],
  rules: LifetimeRules,
  known: readonly Window[] = coverage,
): number => findContiguousEnd(coverage, computeLifetime(facts, known, rules).from);
