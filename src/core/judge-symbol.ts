import { type Covered, isProven, settled } from './coverage.ts';
import { cutByReason, type GapMark } from './gap-reasons.ts';
import type { SymbolFacts } from './market.ts';
import { cursorOf, isLive, type LingerRules, lifetimeOf } from './symbol-lifetime.ts';
import { intersect, isEmpty, subtract, union, type Window } from './window.ts';

/** What is known of the windows of one symbol. Times are epoch milliseconds; windows are in any order. */
export interface KnownWindows {
  /** What is covered of it, less what is lost. */
  readonly answers: readonly Covered[];
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
export interface SymbolRules {
  /** Symbols named by hand, the only ones that are polled; null where the market lists decide. */
  readonly named: ReadonlySet<string> | null;
  readonly nowMs: number;
  readonly rules: LingerRules;
  /** Inside which window gaps are looked for. */
  readonly asked: Window;
  /** Whether the start of `asked` was named: an unknown opening bounds nothing then. */
  readonly fromNamed: boolean;
  /** Whether `asked` ends where polling does, and not at a moment that somebody named. */
  readonly isEndOpen: boolean;
  /** Whether the symbol was asked for by name, so that it is judged whether polls are for it or not. */
  readonly byName: boolean;
}

/** How whole one symbol is. All windows are sorted and disjoint, but for `excepted`. */
export interface JudgedSymbol {
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
  readonly isUnasked: boolean;
  /** The end of the last window of it that was asked for in vain. */
  readonly owedTo: number;
  /** How far it is covered, where it is one that polls are for; null where it is not. */
  readonly reach: Reach | null;
  /** What of `expected` is not covered, inside the window asked for, each with its reason. */
  readonly gaps: readonly GapMark[];
  /** What of `expected` is covered by inference alone, inside the window asked for. */
  readonly provisional: readonly Window[];
}

export interface Reach {
  /** The contiguous end of coverage. */
  readonly cursor: number;
  /** The same past lost, accepted and expired windows; `watermark` by proven windows alone. */
  readonly watermark: number;
  readonly reached: number;
}

/** A service whose clock is behind answers up to its own moment: less than this at the end is no gap, in ms. */
const tailMsMax = 3_600_000;

/** Judges one symbol; null where nothing is expected of it. */
export function judgeSymbol(facts: SymbolFacts, known: KnownWindows, by: SymbolRules): JudgedSymbol | null {
  const { named, nowMs, rules } = by;
  const isWanted = named === null ? facts.listed : named.has(facts.symbol);
  const isUnasked = known.answers.length === 0 && !isWanted;
  const isKnown = facts.ticks > 0 || known.owed.length > 0 || known.lost.length > 0 || by.byName;
  if (isUnasked && !isKnown) return null;
  const answers = withoutDamaged(known.answers, known.damaged);
  const covered = union(answers);
  const proven = answers.filter(isProven);
  const isAllProven = proven.length === answers.length;
  const final = union(settled(answers, rules.settleMs));
  const provenFinal = isAllProven ? final : union(settled(proven, rules.settleMs));
  // What was covered once tells of its lifetime, be it lost or damaged since.
  const isIntact = known.lost.length === 0 && known.damaged.length === 0;
  const everCovered = isIntact ? covered : union([...known.answers, ...known.lost]);
  const life = lifetimeOf(facts, everCovered, rules);
  const cursor = cursorOf(facts, covered, rules, everCovered);
  const isSuspended = facts.suspendedAt !== null;
  const isPolled = named === null ? isLive(facts, cursor, nowMs, rules) : isWanted && !isSuspended;
  const expired = known.owed.filter(({ kind }) => kind === 'expired');
  const settledGaps: Window[] = [...known.lost, ...expired, ...known.accepted];
  // What is damaged is there for a repair to bring back, whoever accepted that something stays a gap.
  const excepted =
    known.damaged.length === 0 ? settledGaps : settledGaps.flatMap((window) => subtract([window], known.damaged));
  const expected = expectedOf(facts, life, known, by);
  const asked = isEmpty(by.asked) ? [] : intersect(expected, [by.asked]);
  const missing = asked.length === 0 ? [] : subtract(asked, covered);
  const gaps = missing.length === 0 ? [] : cutByReason(missing, marksOf(facts, known));
  const cursorWith = (windows: readonly Window[]): number =>
    cursorOf(facts, excepted.length === 0 ? windows : union([...windows, ...excepted]), rules, everCovered);
  return {
    symbol: facts.symbol,
    expected,
    covered,
    final,
    provenFinal,
    excepted,
    isSuspended,
    isUnasked,
    owedTo: known.owed.reduce((max, { to }) => Math.max(max, to), Number.NEGATIVE_INFINITY),
    reach: isPolled
      ? {
          cursor,
          watermark: cursorWith(proven),
          reached: excepted.length === 0 ? cursor : cursorWith(covered),
        }
      : null,
    gaps: by.isEndOpen ? gaps.filter((gap) => !isTail(gap, covered, by.asked.to)) : gaps,
    provisional: isAllProven || asked.length === 0 ? [] : intersect(subtract(covered, proven), asked),
  };
}

const withoutDamaged = (answers: readonly Covered[], damaged: readonly Window[]): readonly Covered[] =>
  damaged.length === 0
    ? answers
    : answers.flatMap((covered) => subtract([covered], damaged).map((left) => ({ ...covered, ...left })));

function expectedOf(
  { opensAt, servedFrom }: SymbolFacts,
  life: Window,
  { lost, owed }: KnownWindows,
  { fromNamed }: SymbolRules,
): Window[] {
  const isUnbounded = fromNamed && opensAt === null && servedFrom === null;
  const lifetime = isUnbounded ? { from: Number.NEGATIVE_INFINITY, to: life.to } : life;
  if (owed.length === 0 && lost.length === 0) return isEmpty(lifetime) ? [] : [lifetime];
  // What was asked for in vain is owed, be it before what is known of its lifetime.
  const earliest = { from: opensAt ?? Number.NEGATIVE_INFINITY, to: life.to };
  return union([lifetime, ...intersect(owed, [earliest]), ...lost]);
}

/** Whether a gap is what a service whose clock is behind leaves at the end of a poll. */
const isTail = ({ from, to, reason }: GapMark, covered: readonly Window[], end: number): boolean =>
  reason === 'never asked' && to >= end && to - from < tailMsMax && covered.at(-1)?.to === from;

function marksOf(facts: SymbolFacts, { lost, accepted, owed, damaged }: KnownWindows): GapMark[] {
  const { suspendedAt, unknownSince } = facts;
  const always = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
  return [
    ...damaged.map(({ from, to }): GapMark => ({ from, to, reason: 'damaged' })),
    ...lost.map(
      ({ from, to, ticks, lostAt }): GapMark => ({
        from,
        to,
        reason: 'lost',
        ticks,
        ...(lostAt !== undefined && { since: lostAt }),
      }),
    ),
    ...accepted.map(
      ({ from, to, reason, acceptedAt }): GapMark => ({
        from,
        to,
        reason: 'accepted',
        detail: reason,
        since: acceptedAt,
      }),
    ),
    ...(suspendedAt === null ? [] : [{ ...always, reason: 'suspended' as const, since: unknownSince ?? suspendedAt }]),
    ...owed.map(({ from, to, kind, reason, since }): GapMark => ({ from, to, reason: kind, detail: reason, since })),
  ];
}
