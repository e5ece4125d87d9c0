import { isSelectedByRules, type SelectionRules } from '../../base/symbol-selector.ts';
import { type CoveredWindow, isProven } from '../format/coverage.ts';
import type { SymbolFacts } from '../format/market.ts';
import { findOpenWindow, type SymbolSelection, type UnselectedWindow } from '../format/selection.ts';

// The decisions about which symbols are collected. Each returns what is recorded of the symbol after it, or null if it
// changes nothing. A decision cuts the lifetime of the symbol at an instant that is recorded, so that no later decision
// changes what was expected before.

/** What a decision is made from. */
export interface DecisionContext {
  /** The coverage of the symbol, published and journaled. */
  readonly coverage: readonly CoveredWindow[];
  readonly nowMs: number;
}

/**
 * Where the lifetime of a symbol ends that is not collected from now on: at the end of what is proven, so that its
 * last day can be complete although no later poll will prove the rest. If nothing is proven, at the end of what is covered;
 * -Infinity if nothing is covered, because then nothing was collected.
 */
export function computeCut({ coverage, nowMs }: DecisionContext): number {
  const proven = coverage.filter(isProven);
  const end = (proven.length > 0 ? proven : coverage).reduce(
    (max, { to }) => Math.max(max, to),
    Number.NEGATIVE_INFINITY,
  );
  return Math.min(nowMs, end);
}

export function decideForget(
  facts: SymbolFacts,
  reason: string | null,
  given: DecisionContext,
): SymbolSelection | null {
  const open = findOpenWindow(facts);
  if (open?.kind === 'forgotten' && (reason === null || reason === open.reason)) return null;
  const { unselected = [] } = facts;
  // What was not collected already stays so since then, for the new reason.
  const next: UnselectedWindow[] =
    open === undefined
      ? [...unselected, createOpenWindow(facts, 'forgotten', reason, given)]
      : [...unselected.slice(0, -1), { ...open, kind: 'forgotten', reason }];
  return { unselected: next };
}

/** A user watches the symbol. `isListed`: lists or settings name it, so that it would be collected without this decision. */
export function decideWatch(facts: SymbolFacts, isListed: boolean, given: DecisionContext): SymbolSelection | null {
  const open = findOpenWindow(facts);
  if (open === undefined && facts.watchedAt !== undefined) return null;
  const watchedAt = given.nowMs;
  if (open !== undefined) return { unselected: closeWindow(facts, given.nowMs), watchedAt };
  if (isListed || facts.polledFrom !== null) return { ...selectionOf(facts), watchedAt };
  // What lies between its last known data and now was not expected before, and is not now.
  const known = Math.max(
    facts.lastTick === null ? Number.NEGATIVE_INFINITY : facts.lastTick + 1,
    given.coverage.reduce((end, { to }) => Math.max(end, to), Number.NEGATIVE_INFINITY),
  );
  if (known >= given.nowMs) return { ...selectionOf(facts), watchedAt };
  const before = { from: known, to: given.nowMs, kind: 'unlisted', reason: null, decidedAt: given.nowMs } as const;
  return { unselected: [...(facts.unselected ?? []), before], watchedAt };
}

/**
 * The settings select the symbol, or leave it out.
 * @param isNamed whether `symbols` names it, which settings of market lists do not affect
 */
export function decideByRules(
  facts: SymbolFacts,
  rules: SelectionRules,
  isNamed: boolean,
  given: DecisionContext,
): SymbolSelection | null {
  const open = findOpenWindow(facts);
  // What a user decided stays.
  if (facts.watchedAt !== undefined || open?.kind === 'forgotten') return null;
  const isSelected = isNamed || isSelectedByRules(facts, rules);
  if (isSelected) return open === undefined ? null : { unselected: closeWindow(facts, given.nowMs) };
  if (open !== undefined) return null;
  return { unselected: [...(facts.unselected ?? []), createOpenWindow(facts, 'excluded', null, given)] };
}

const selectionOf = ({ unselected }: SymbolFacts): SymbolSelection => (unselected === undefined ? {} : { unselected });

function createOpenWindow(
  { unselected = [] }: SymbolFacts,
  kind: UnselectedWindow['kind'],
  reason: string | null,
  given: DecisionContext,
): UnselectedWindow {
  const lastEnd = unselected.at(-1)?.to ?? Number.NEGATIVE_INFINITY;
  const from = Math.max(computeCut(given), lastEnd);
  return { from, to: Number.POSITIVE_INFINITY, kind, reason, decidedAt: given.nowMs };
}

/** Ends the open window. If the clock was set back, the window is empty and left out. */
function closeWindow({ unselected = [] }: SymbolFacts, nowMs: number): UnselectedWindow[] {
  return unselected.flatMap((window, i) => {
    const to = i === unselected.length - 1 ? nowMs : window.to;
    return window.from < to ? [{ ...window, to }] : [];
  });
}
