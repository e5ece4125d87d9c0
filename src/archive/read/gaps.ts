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
import { readCurrentState, readKnownWindow } from '../known-state.ts';
import type { Archive } from '../open-archive.ts';

/** Ends in epoch milliseconds, null where nobody named one; `symbols` none: all of them. */
export interface GapsQuery {
  readonly from: number | null;
  readonly to: number | null;
  readonly symbols: readonly SymbolFacts[];
}

/** Gaps inside [from, to), epoch milliseconds. */
export interface GapList extends Window {
  readonly count: number;
  readonly gaps: readonly Gap[];
  /** What is no gap by inference alone: windows, and symbols that have any. */
  readonly provisional: Completeness['provisional'];
}

/**
 * The gaps in what is asked for; by default between the first and the last moment of which anything is known: of an
 * archive that has nothing yet, those of all that its symbols' first polls have to bring.
 */
export function listGaps(
  archive: Archive,
  { from, to, symbols }: GapsQuery,
  by: CompletenessRules,
  nowMs: number,
): GapList {
  const { db } = archive.state;
  const all = symbols.length === 0 ? readAllSymbols(db) : symbols;
  const span = readKnownWindow(db, nowMs) ?? computeExpectedSpan(all, by, nowMs);
  // What is still to come is no gap.
  const asked = { from: from ?? span?.from ?? 0, to: Math.min(nowMs, to ?? span?.to ?? 0) };
  if (from !== null && to !== null && asked.from >= asked.to)
    throw new UsageError('--from must be before --to, and in the past.');
  const { gaps, provisional } = computeCompleteness(readCurrentState(archive, by, nowMs, all), {
    window: asked,
    isStartExplicit: from !== null,
    isEndOpen: to === null,
    isRequestedByName: symbols.length > 0,
  });
  return { ...asked, count: gaps.length, gaps, provisional };
}

/** The span of the lifetimes of those symbols that are to be polled; null where there is none. */
function computeExpectedSpan(
  symbols: readonly SymbolFacts[],
  { namedSymbols, lifetimeRules }: CompletenessRules,
  nowMs: number,
): Window | null {
  const from = symbols
    .filter((facts) => isActive(facts, namedSymbols))
    .reduce(
      (least, facts) => Math.min(least, computeLifetime(facts, [], lifetimeRules).from),
      Number.POSITIVE_INFINITY,
    );
  return from < nowMs ? { from, to: nowMs } : null;
}

/** Counts gaps; `lost` and `accepted` are those among them. */
export function countGaps(gaps: readonly Gap[]): { windows: number; symbols: number; lost: number; accepted: number } {
  const count = (reason: Gap['reason']): number => gaps.filter((gap) => gap.reason === reason).length;
  const symbols = new Set(gaps.map((gap) => gap.symbol)).size;
  return { windows: gaps.length, symbols, lost: count('lost'), accepted: count('accepted') };
}
