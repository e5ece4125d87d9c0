import { hourMs, intersect, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import { type GapWindow, splitByReason } from '../../contract/completeness-counts.ts';
import { type CoveredWindow, isProven } from '../format/coverage.ts';
import type { SymbolFacts } from '../format/market.ts';
import { isUnselected } from '../format/selection.ts';
import { canBeLive, computeCursor, computeLifetime, isLive, isRequested, type LingerRules } from './symbol-lifetime.ts';

/** The known windows of one symbol. Times are epoch milliseconds; windows may be in any order. */
export interface SymbolWindows {
  /** Coverage without lost windows. */
  readonly coverage: readonly CoveredWindow[];
  /** Windows whose published ticks were lost. */
  readonly lost: readonly (Window & { readonly ticks: number; readonly lostAt?: number })[];
  /** Gaps that a user accepted. */
  readonly accepted: readonly (Window & { readonly reason: string; readonly acceptedAt: number })[];
  /** Windows that were requested without success. */
  readonly owed: readonly (Window & {
    readonly kind: 'failed' | 'expired';
    readonly reason: string;
    readonly since: number;
  })[];
  /** Days whose tick file is damaged or missing. Their ticks cannot be read, whatever the coverage says. */
  readonly damaged: readonly Window[];
}

interface SymbolCompletenessQuery {
  /** The configured symbols; only these are polled. Null if the market lists determine the symbols. */
  readonly namedSymbols: ReadonlySet<string> | null;
  readonly nowMs: number;
  readonly lifetimeRules: LingerRules;
  /** The window in which gaps are listed. */
  readonly window: Window;
  /**
   * Whether the start of `window` was given explicitly. If so, a symbol whose opening is unknown is expected from that
   * start.
   */
  readonly isStartExplicit: boolean;
  /** Whether `window` ends where polling ends rather than at an explicit time. */
  readonly isEndOpen: boolean;
  /** Whether the symbol was requested by name. It is then computed even if it is not polled. */
  readonly isRequestedByName: boolean;
}

/** Completeness of one symbol. All windows except `excepted` are sorted and disjoint. */
export interface SymbolCompleteness {
  readonly symbol: string;
  /**
   * Windows that should be covered: the lifetime and windows that were requested without success, except while the symbol was
   * not collected, and lost windows.
   */
  readonly expected: readonly Window[];
  readonly covered: readonly Window[];
  /** The proven part of `covered`. */
  readonly proven: readonly Window[];
  /** Lost, accepted and expired windows. */
  readonly excepted: readonly Window[];
  readonly isSuspended: boolean;
  /** Whether a part of what is not covered may have another reason than that it was never requested. */
  readonly hasMarks: boolean;
  /** Whether it is not polled and has no coverage: its rows come from a file. */
  readonly isUnrequested: boolean;
  /** The end of the last window that was requested without success. */
  readonly owedTo: number;
  /** How far it is covered; null if it is not polled. */
  readonly reach: CoverageReach | null;
  /** The uncovered part of `expected` inside the query window, each gap with its reason. */
  readonly gaps: readonly GapWindow[];
  /** The part of `expected` inside the query window that is covered only by inference. */
  readonly provisional: readonly Window[];
  /** Splits uncovered windows, sorted and disjoint, by the reasons why they are not covered. */
  splitGaps(windows: readonly Window[]): readonly GapWindow[];
}

export interface CoverageReach {
  /** The end of contiguous coverage. */
  readonly cursor: number;
  /** The same, continued past lost, accepted and expired windows; `watermark` uses proven windows only. */
  readonly watermark: number;
  readonly reached: number;
}

/**
 * A server whose clock is behind returns data only up to its own time. A gap at the end is ignored if it is shorter
 * than this, in ms.
 */
const clockTailMsMax = hourMs;

/** Computes the completeness of one symbol; null if no coverage is expected for it. */
export function computeSymbolCompleteness(
  facts: SymbolFacts,
  known: SymbolWindows,
  query: SymbolCompletenessQuery,
): SymbolCompleteness | null {
  const { namedSymbols, nowMs, lifetimeRules } = query;
  const isNamed = isRequested(facts, namedSymbols);
  const isUnrequested = known.coverage.length === 0 && !isNamed;
  const isKnown = facts.ticks > 0 || known.owed.length > 0 || known.lost.length > 0 || query.isRequestedByName;
  if (isUnrequested && !isKnown) return null;
  const responses = subtractDamage(known.coverage, known.damaged);
  const covered = union(responses);
  const isAllProven = responses.every(isProven);
  const proven = isAllProven ? covered : union(responses.filter(isProven));
  // Past coverage counts towards the lifetime even if it has since been lost or damaged.
  const isIntact = known.lost.length === 0 && known.damaged.length === 0;
  const everCovered = isIntact ? covered : union([...known.coverage, ...known.lost]);
  const lifetime = computeLifetime(facts, everCovered, lifetimeRules);
  const { unselected = [] } = facts;
  /** Nothing is expected while a symbol is not collected, so that what follows adjoins what was before. */
  const joinUnselected = (windows: readonly Window[]): readonly Window[] =>
    unselected.length === 0 ? windows : union([...windows, ...unselected]);
  const isSuspended = facts.suspendedAt !== null;
  const expired = known.owed.filter(({ kind }) => kind === 'expired');
  const settledGaps: Window[] = [...known.lost, ...expired, ...known.accepted];
  // A repair can restore damaged windows, so they do not count as excepted even if accepted as a gap.
  const excepted =
    known.damaged.length === 0 ? settledGaps : settledGaps.flatMap((window) => subtract([window], known.damaged));
  const expected = computeExpectedWindows(facts, lifetime, known, query);
  const queried = isEmpty(query.window) ? [] : intersect(expected, [query.window]);
  const missing = queried.length === 0 ? [] : subtract(queried, covered);
  const hasMarks =
    isSuspended || known.damaged.length + known.lost.length + known.accepted.length + known.owed.length > 0;
  let marks: readonly GapWindow[] | undefined;
  const listMarks = (): readonly GapWindow[] => {
    marks ??= hasMarks ? listGapReasons(facts, known) : [];
    return marks;
  };
  const splitGaps = (windows: readonly Window[]): GapWindow[] =>
    windows.length === 0 ? [] : splitByReason(windows, listMarks());
  const gaps = splitGaps(missing);
  const computeEnd = (windows: readonly Window[]): number =>
    computeCursor(facts, joinUnselected(windows), lifetimeRules, everCovered);
  const withExcepted = (windows: readonly Window[]): readonly Window[] =>
    excepted.length === 0 ? windows : union([...windows, ...excepted]);
  const computeReach = (): CoverageReach | null => {
    // Nearly all symbols of an old archive have ended long ago: their cursors need not be computed.
    if (
      namedSymbols === null ? !canBeLive(facts, nowMs, lifetimeRules) : !isNamed || isSuspended || isUnselected(facts)
    )
      return null;
    const cursor = computeEnd(covered);
    // A poll covers what follows its coverage, and knows nothing of damage: an ended symbol does not become live by it.
    const polledTo = known.damaged.length === 0 ? cursor : computeEnd(union(known.coverage));
    // A symbol that is covered to its end holds nothing back, although it is polled until that is proven.
    const polled = { cursor: polledTo, provenTo: Number.POSITIVE_INFINITY };
    if (namedSymbols === null && !isLive(facts, polled, nowMs, lifetimeRules)) return null;
    return {
      cursor,
      watermark: computeEnd(withExcepted(proven)),
      reached: excepted.length === 0 ? cursor : computeEnd(withExcepted(covered)),
    };
  };
  return {
    symbol: facts.symbol,
    expected,
    covered,
    proven,
    excepted,
    isSuspended,
    hasMarks,
    isUnrequested,
    owedTo: known.owed.reduce((max, { to }) => Math.max(max, to), Number.NEGATIVE_INFINITY),
    reach: computeReach(),
    gaps: query.isEndOpen ? gaps.filter((gap) => !isClockTail(gap, covered, query.window.to)) : gaps,
    provisional: isAllProven || queried.length === 0 ? [] : intersect(subtract(covered, proven), queried),
    splitGaps,
  };
}

const subtractDamage = (responses: readonly CoveredWindow[], damaged: readonly Window[]): readonly CoveredWindow[] =>
  damaged.length === 0
    ? responses
    : responses.flatMap((covered) => subtract([covered], damaged).map((left) => ({ ...covered, ...left })));

function computeExpectedWindows(
  { opensAt, servedFrom, unselected = [] }: SymbolFacts,
  knownLifetime: Window,
  { lost, owed }: SymbolWindows,
  { isStartExplicit }: SymbolCompletenessQuery,
): Window[] {
  const isUnbounded = isStartExplicit && opensAt === null && servedFrom === null;
  const lifetime = isUnbounded ? { from: Number.NEGATIVE_INFINITY, to: knownLifetime.to } : knownLifetime;
  if (owed.length === 0 && lost.length === 0) return isEmpty(lifetime) ? [] : subtract([lifetime], unselected);
  // The window of a failed request is owed even before the known start of the lifetime.
  const earliest = { from: opensAt ?? Number.NEGATIVE_INFINITY, to: knownLifetime.to };
  // Ticks that were published once are missed even where the symbol was not to be collected.
  return union([...subtract([lifetime, ...intersect(owed, [earliest])], unselected), ...lost]);
}

/** Whether a gap is the end of the polled window that a server whose clock is behind could not return. */
const isClockTail = ({ from, to, reason }: GapWindow, covered: readonly Window[], end: number): boolean =>
  reason === 'never asked' && to >= end && to - from < clockTailMsMax && covered.at(-1)?.to === from;

function listGapReasons(facts: SymbolFacts, { lost, accepted, owed, damaged }: SymbolWindows): GapWindow[] {
  const { suspendedAt, unknownSince } = facts;
  const allTime = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
  return [
    ...damaged.map(({ from, to }): GapWindow => ({ from, to, reason: 'damaged' })),
    ...lost.map(
      ({ from, to, ticks, lostAt }): GapWindow => ({
        from,
        to,
        reason: 'lost',
        ticks,
        ...(lostAt !== undefined && { since: lostAt }),
      }),
    ),
    ...accepted.map(
      ({ from, to, reason, acceptedAt }): GapWindow => ({
        from,
        to,
        reason: 'accepted',
        detail: reason,
        since: acceptedAt,
      }),
    ),
    ...(suspendedAt === null ? [] : [{ ...allTime, reason: 'suspended' as const, since: unknownSince ?? suspendedAt }]),
    ...owed.map(({ from, to, kind, reason, since }): GapWindow => ({ from, to, reason: kind, detail: reason, since })),
  ];
}
