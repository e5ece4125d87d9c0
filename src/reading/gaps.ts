import type { Archive } from '../archive/archive.ts';
import { UsageError } from '../core/errors.ts';
import { cutByReason, type GapMark } from '../core/gap-reasons.ts';
import { gapsOf, isActive, type LifetimeRules, lifetimeOf } from '../core/life.ts';
import type { SymbolFacts } from '../core/market.ts';
import { intersection, isEmpty, union, type Window } from '../core/window.ts';
import { type AcceptedWindow, acceptedWindows } from '../state/accepted.ts';
import { knownSpan } from '../state/coverage.ts';
import type { Database } from '../state/database.ts';
import { allLostTicks, type KnownLoss, sureCoverageOf } from '../state/lost.ts';
import { allOwedWindows, type OwedWindow } from '../state/owed.ts';
import { allSymbols } from '../state/symbols.ts';

/** Ends in epoch milliseconds, null where nobody named one; `symbols` none: all of them. */
export interface GapsAsked {
  readonly from: number | null;
  readonly to: number | null;
  readonly symbols: readonly SymbolFacts[];
}

/** By what lifetimes are judged, and which symbols are polled. */
export interface GapRules extends LifetimeRules {
  /** Symbols that are polled whatever the market lists say; none: those of the lists. */
  readonly named: readonly string[];
}

export interface Gap extends GapMark {
  readonly symbol: string;
}

/** Gaps inside [from, to), epoch milliseconds. */
export interface GapList extends Window {
  readonly count: number;
  readonly gaps: readonly Gap[];
}

/**
 * The gaps in what is asked for; by default between the first and the last moment of which anything is known: of an
 * archive that has nothing yet, those of all that its symbols' first polls have to bring.
 */
export function listGaps(archive: Archive, { from, to, symbols }: GapsAsked, rules: GapRules, nowMs: number): GapList {
  const { db } = archive.state;
  const all = symbols.length === 0 ? allSymbols(db) : symbols;
  const span = knownSpan(db) ?? expectedSpan(all, rules, nowMs);
  // What is still to come is no gap.
  const asked = { from: from ?? span?.from ?? 0, to: Math.min(nowMs, to ?? span?.to ?? 0) };
  if (from !== null && to !== null && asked.from >= asked.to)
    throw new UsageError('--from must be before --to, and in the past.');
  const gaps = findGaps(db, all, asked, rules, from !== null);
  return { ...asked, count: gaps.length, gaps };
}

/** The span of the lifetimes of those symbols that are to be polled; null where there is none. */
function expectedSpan(symbols: readonly SymbolFacts[], rules: GapRules, nowMs: number): Window | null {
  const named = rules.named.length === 0 ? null : new Set(rules.named);
  const from = symbols
    .filter((facts) => isActive(facts, named))
    .reduce((least, facts) => Math.min(least, lifetimeOf(facts, [], rules).from), Number.POSITIVE_INFINITY);
  return from < nowMs ? { from, to: nowMs } : null;
}

/** What is remembered of the windows of a symbol that are not covered. */
interface Remembered {
  readonly lost: readonly KnownLoss[];
  readonly accepted: readonly AcceptedWindow[];
  readonly owed: readonly OwedWindow[];
}

/**
 * The windows inside `asked` of each symbol's lifetime that nothing covers, each with its reason.
 * @param fromNamed whether the start was asked for by name
 */
export function findGaps(
  db: Database,
  symbols: readonly SymbolFacts[],
  asked: Window,
  rules: LifetimeRules,
  fromNamed: boolean,
): Gap[] {
  const [lost, owed] = [allLostTicks(db), allOwedWindows(db)];
  const accepted = Map.groupBy(acceptedWindows(db), ({ symbol }) => symbol);
  return symbols.flatMap((facts) => {
    const { symbol } = facts;
    const known = { lost: lost.get(symbol) ?? [], accepted: accepted.get(symbol) ?? [], owed: owed.get(symbol) ?? [] };
    // Its first tick may be among what is lost, so that no more is left to tell that it lived then.
    const losses = known.lost.map((window) => intersection(window, asked)).filter((window) => !isEmpty(window));
    const covered = sureCoverageOf(db, symbol, undefined, known.lost);
    const gaps = union([...gapsOf(facts, covered, { asked, fromNamed, owed: known.owed }, rules), ...losses]);
    if (gaps.length === 0) return [];
    return cutByReason(gaps, marksOf(facts, known)).map((gap) => ({ symbol, ...gap }));
  });
}

function marksOf(facts: SymbolFacts, { lost, accepted, owed }: Remembered): GapMark[] {
  const { suspendedAt, unknownSince } = facts;
  const suspended: GapMark[] =
    suspendedAt === null
      ? []
      : [
          {
            from: Number.NEGATIVE_INFINITY,
            to: Number.POSITIVE_INFINITY,
            reason: 'suspended',
            since: unknownSince ?? suspendedAt,
          },
        ];
  return [
    ...lost.map(({ from, to, ticks, lostAt }): GapMark => ({ from, to, reason: 'lost', since: lostAt, ticks })),
    ...accepted.map(
      ({ from, to, reason, acceptedAt }): GapMark => ({
        from,
        to,
        reason: 'accepted',
        detail: reason,
        since: acceptedAt,
      }),
    ),
    ...suspended,
    ...owed.map(({ from, to, kind, reason, since }): GapMark => ({ from, to, reason: kind, detail: reason, since })),
  ];
}

/** Gaps between the first and the last moment of which the archive knows anything; `lost` are those among them. */
export function countGaps(
  archive: Archive,
  symbols: readonly SymbolFacts[],
  rules: GapRules,
  nowMs: number,
): { windows: number; symbols: number; lost: number; accepted: number } {
  const { gaps } = listGaps(archive, { from: null, to: null, symbols }, rules, nowMs);
  const count = (reason: Gap['reason']): number => gaps.filter((gap) => gap.reason === reason).length;
  const named = new Set(gaps.map((gap) => gap.symbol)).size;
  return { windows: gaps.length, symbols: named, lost: count('lost'), accepted: count('accepted') };
}
