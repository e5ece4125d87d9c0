import { UsageError } from '../../base/errors.ts';
import type { Window } from '../../base/window.ts';
import {
  type Completeness,
  type CompletenessRules,
  computeCompleteness,
  type Gap,
} from '../completeness/completeness.ts';
import { computeLifetime, isActive } from '../completeness/symbol-lifetime.ts';
import type { SymbolFacts } from '../format/market.ts';
import { readAllSymbols } from '../journal/symbols.ts';
import { readCurrentState, readKnownWindow, selectSymbolsOf } from '../known-state.ts';
import type { Archive } from '../open-archive.ts';

/** Which gaps to list: epoch milliseconds, null if not given; no symbols means all. */
export interface GapsQuery {
  readonly from: number | null;
  readonly to: number | null;
  readonly symbols: readonly SymbolFacts[];
  /** Only symbols of these sources; absent or empty means all. */
  readonly sources?: readonly string[] | undefined;
}

/** Gaps inside [from, to), epoch milliseconds. */
export interface GapList extends Window {
  readonly count: number;
  readonly gaps: readonly Gap[];
  /** Windows covered by inference only, and the number of symbols with such windows. */
  readonly provisional: Completeness['provisional'];
}

/**
 * Lists the gaps in a window. The default is the first to the last moment for which the archive has data or, in an
 * empty archive, the span that the first polls of its symbols have to cover.
 * @throws UsageError if `from` is not before `to`, or not in the past
 */
export function listGaps(
  archive: Archive,
  { from, to, symbols, sources = [] }: GapsQuery,
  rules: CompletenessRules,
  nowMs: number,
): GapList {
  const { db } = archive.state;
  const all = selectSymbolsOf(symbols.length === 0 ? readAllSymbols(db) : symbols, sources);
  const known = readKnownWindow(db, nowMs) ?? computeExpectedSpan(all, rules, nowMs);
  // The future is not a gap.
  const window = { from: from ?? known?.from ?? 0, to: Math.min(nowMs, to ?? known?.to ?? 0) };
  if (from !== null && to !== null && window.from >= window.to)
    throw new UsageError('--from must be before --to, and in the past.');
  const { gaps, provisional } = computeCompleteness(readCurrentState(archive, rules, nowMs, all, sources), {
    window,
    isStartExplicit: from !== null,
    isEndOpen: to === null,
    isRequestedByName: symbols.length > 0,
  });
  return { ...window, count: gaps.length, gaps, provisional };
}

/** The span of the lifetimes of the active symbols, up to now; null if there is none. */
function computeExpectedSpan(
  symbols: readonly SymbolFacts[],
  { namedSymbols, lifetimeRules }: CompletenessRules,
  nowMs: number,
): Window | null {
  const from = symbols
    .filter((facts) => isActive(facts, namedSymbols))
    .reduce(
      (earliest, facts) => Math.min(earliest, computeLifetime(facts, [], lifetimeRules).from),
      Number.POSITIVE_INFINITY,
    );
  return from < nowMs ? { from, to: nowMs } : null;
}

/** Counts gaps. `windows` includes `lost` and `accepted`. */
export function countGaps(gaps: readonly Gap[]): { windows: number; symbols: number; lost: number; accepted: number } {
  const count = (reason: Gap['reason']): number => gaps.filter((gap) => gap.reason === reason).length;
  const symbols = new Set(gaps.map((gap) => gap.symbol)).size;
  return { windows: gaps.length, symbols, lost: count('lost'), accepted: count('accepted') };
}
