import { intersect, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import { type GapWindow, splitByReason } from '../../contract/completeness-counts.ts';
import { type CoveredWindow, computeSettledWindows, isProven } from '../format/coverage.ts';
import type { SymbolFacts } from '../format/market.ts';
import { computeCursor, computeLifetime, isLive, type LingerRules } from './symbol-lifetime.ts';

/** What is known of the windows of one symbol. Times are epoch milliseconds; windows are in any order. */
export interface SymbolWindows {
  /** What is covered of it, less what is lost. */
  readonly coverage: readonly CoveredWindow[];
  /** Windows whose ticks were published once and are gone. */
  readonly lost: readonly (Window & { readonly ticks: number; readonly lostAt?: number })[];
  /** Gaps that somebody accepted. */
  readonly accepted: readonly (Window & { readonly reason: string; readonly acceptedAt: number })[];
  /** Windows that were asked for in vain. */
  readonly owed: readonly (Window & {
    readonly kind: 'failed' | 'expired';
    readonly reason: string;
    readonly since: number;
  })[];
  /** Days whose file of it is known not to be as published: whatever covers them, their ticks cannot be read. */
  readonly damaged: readonly Window[];
}

/** By what one symbol is judged. */
export interface SymbolCompletenessQuery {
  /** Symbols named by hand, the only ones that are polled; null where the market lists decide. */
  readonly namedSymbols: ReadonlySet<string> | null;
  readonly nowMs: number;
  readonly lifetimeRules: LingerRules;
  /** Inside which window gaps are looked for. */
  readonly window: Window;
  /** Whether the start of `asked` was named: an unknown opening bounds nothing then. */
  readonly isStartExplicit: boolean;
  /** Whether `asked` ends where polling does, and not at a moment that somebody named. */
  readonly isEndOpen: boolean;
  /** Whether the symbol was asked for by name, so that it is judged whether polls are for it or not. */
  readonly isRequestedByName: boolean;
}

/** How whole one symbol is. All windows are sorted and disjoint, but for `excepted`. */
export interface SymbolCompleteness {
  readonly symbol: string;
  /** What should be there: its lifetime, what was lost of it, and what was asked for in vain. */
  readonly expected: readonly Window[];
  readonly covered: readonly Window[];
  /** What of it was answered long enough after its time, and the part of that which is proven. */
  readonly final: readonly Window[];
  readonly provenFinal: readonly Window[];
  /** Lost, accepted and expired windows. */
  readonly excepted: readonly Window[];
  readonly isSuspended: boolean;
  /** Whether nobody polls it and nothing is said to cover it: rows of a file. */
  readonly isUnrequested: boolean;
  /** The end of the last window of it that was asked for in vain. */
  readonly owedTo: number;
  /** How far it is covered, where it is one that polls are for; null where it is not. */
  readonly reach: CoverageReach | null;
  /** What of `expected` is not covered, inside the window asked for, each with its reason. */
  readonly gaps: readonly GapWindow[];
  /** What of `expected` is covered by inference alone, inside the window asked for. */
  readonly provisional: readonly Window[];
}

export interface CoverageReach {
  /** The contiguous end of coverage. */
  readonly cursor: number;
  /** The same past lost, accepted and expired windows; `watermark` by proven windows alone. */
  readonly watermark: number;
  readonly reached: number;
}

/** A service whose clock is behind answers up to its own moment: less than this at the end is no gap, in ms. */
const clockTailMsMax = 3_600_000;

/** Judges one symbol; null where nothing is expected of it. */
export function computeSymbolCompleteness(
  facts: SymbolFacts,
  known: SymbolWindows,
  by: SymbolCompletenessQuery,
): SymbolCompleteness | null {
  const { namedSymbols, nowMs, lifetimeRules } = by;
  const isWanted = namedSymbols === null ? facts.listed : namedSymbols.has(facts.symbol);
  const isUnasked = known.coverage.length === 0 && !isWanted;
  const isKnown = facts.ticks > 0 || known.owed.length > 0 || known.lost.length > 0 || by.isRequestedByName;
  if (isUnasked && !isKnown) return null;
  const answers = subtractDamage(known.coverage, known.damaged);
  const covered = union(answers);
  const proven = answers.filter(isProven);
  const isAllProven = proven.length === answers.length;
  const final = union(computeSettledWindows(answers, lifetimeRules.settleMs));
  const provenFinal = isAllProven ? final : union(computeSettledWindows(proven, lifetimeRules.settleMs));
  // What was covered once tells of its lifetime, be it lost or damaged since.
  const isIntact = known.lost.length === 0 && known.damaged.length === 0;
  const everCovered = isIntact ? covered : union([...known.coverage, ...known.lost]);
  const life = computeLifetime(facts, everCovered, lifetimeRules);
  const cursor = computeCursor(facts, covered, lifetimeRules, everCovered);
  const isSuspended = facts.suspendedAt !== null;
  const isPolled = namedSymbols === null ? isLive(facts, cursor, nowMs, lifetimeRules) : isWanted && !isSuspended;
  const expired = known.owed.filter(({ kind }) => kind === 'expired');
  const settledGaps: Window[] = [...known.lost, ...expired, ...known.accepted];
  // What is damaged is there for a repair to bring back, whoever accepted that something stays a gap.
  const excepted =
    known.damaged.length === 0 ? settledGaps : settledGaps.flatMap((window) => subtract([window], known.damaged));
  const expected = computeExpectedWindows(facts, life, known, by);
  const asked = isEmpty(by.window) ? [] : intersect(expected, [by.window]);
  const missing = asked.length === 0 ? [] : subtract(asked, covered);
  const gaps = missing.length === 0 ? [] : splitByReason(missing, listGapReasons(facts, known));
  const cursorWith = (windows: readonly Window[]): number =>
    computeCursor(
      facts,
      excepted.length === 0 ? windows : union([...windows, ...excepted]),
      lifetimeRules,
      everCovered,
    );
  return {
    symbol: facts.symbol,
    expected,
    covered,
    final,
    provenFinal,
    excepted,
    isSuspended,
    isUnrequested: isUnasked,
    owedTo: known.owed.reduce((max, { to }) => Math.max(max, to), Number.NEGATIVE_INFINITY),
    reach: isPolled
      ? {
          cursor,
          watermark: cursorWith(proven),
          reached: excepted.length === 0 ? cursor : cursorWith(covered),
        }
      : null,
    gaps: by.isEndOpen ? gaps.filter((gap) => !isClockTail(gap, covered, by.window.to)) : gaps,
    provisional: isAllProven || asked.length === 0 ? [] : intersect(subtract(covered, proven), asked),
  };
}

const subtractDamage = (answers: readonly CoveredWindow[], damaged: readonly Window[]): readonly CoveredWindow[] =>
  damaged.length === 0
    ? answers
    : answers.flatMap((covered) => subtract([covered], damaged).map((left) => ({ ...covered, ...left })));

function computeExpectedWindows(
  { opensAt, servedFrom }: SymbolFacts,
  life: Window,
  { lost, owed }: SymbolWindows,
  { isStartExplicit }: SymbolCompletenessQuery,
): Window[] {
  const isUnbounded = isStartExplicit && opensAt === null && servedFrom === null;
  const lifetime = isUnbounded ? { from: Number.NEGATIVE_INFINITY, to: life.to } : life;
  if (owed.length === 0 && lost.length === 0) return isEmpty(lifetime) ? [] : [lifetime];
  // What was asked for in vain is owed, be it before what is known of its lifetime.
  const earliest = { from: opensAt ?? Number.NEGATIVE_INFINITY, to: life.to };
  return union([lifetime, ...intersect(owed, [earliest]), ...lost]);
}

/** Whether a gap is what a service whose clock is behind leaves at the end of a poll. */
const isClockTail = ({ from, to, reason }: GapWindow, covered: readonly Window[], end: number): boolean =>
  reason === 'never asked' && to >= end && to - from < clockTailMsMax && covered.at(-1)?.to === from;

function listGapReasons(facts: SymbolFacts, { lost, accepted, owed, damaged }: SymbolWindows): GapWindow[] {
  const { suspendedAt, unknownSince } = facts;
  const always = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
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
    ...(suspendedAt === null ? [] : [{ ...always, reason: 'suspended' as const, since: unknownSince ?? suspendedAt }]),
    ...owed.map(({ from, to, kind, reason, since }): GapWindow => ({ from, to, reason: kind, detail: reason, since })),
  ];
}
