import type { Archive } from '../../archive/archive.ts';
import { getUnselectedCount, isActive, isRequested } from '../../archive/completeness/symbol-lifetime.ts';
import {
  type DecisionContext,
  decideByRules,
  decideForget,
  decideWatch,
} from '../../archive/completeness/symbol-selection.ts';
import { createUnknownSymbol, type SymbolFacts } from '../../archive/format/market.ts';
import { findOpenWindow, isUnselected, type Selections, type SymbolSelection } from '../../archive/format/selection.ts';
import { readCurrentCoverageOf } from '../../archive/journal/coverage-store.ts';
import type { Database } from '../../archive/journal/database.ts';
import { hasExcludedSymbols, recordSelections } from '../../archive/journal/selection-store.ts';
import { requireKnownSymbol } from '../../archive/journal/symbol-names.ts';
import { ensureSymbol, readSymbol, readUnsettledSymbols, resetTriedAt } from '../../archive/journal/symbol-store.ts';
import { describeUnmatchedSelectors } from '../../archive/read/unmatched-selectors.ts';
import { isSymbolOf } from '../../base/source-name.ts';
import type { Context } from '../../context/context.ts';
import { getConfiguredSymbols, getLingerRules } from '../../context/open-configured.ts';
import type { Run } from '../run/run.ts';
import { planSourceRuns } from '../run/source-runs.ts';
import { readNamedSymbolFacts } from './polled-symbols.ts';
import { publishCompleteness } from './publish-step.ts';

type RunOfSource = Pick<Run, 'context' | 'archive' | 'source'>;

/**
 * Applies `source.include` and `source.exclude` to the symbols that would be polled, and records for which of them this
 * changes something. Symbols whose lifetime is over are left as they are: nothing of them is polled.
 */
export function applySelectionRules({ context, archive, source }: RunOfSource): void {
  const { db } = archive.state;
  const { include, exclude } = context.settings.source;
  const hasRules = include.length + exclude.length > 0;
  const nowMs = context.clock.nowMs();
  const named = getConfiguredSymbols(context);
  db.transaction(() => {
    if (!hasRules && !hasExcludedSymbols(db, source)) return;
    const symbols =
      named === null
        ? readUnsettledSymbols(db, nowMs - getLingerRules(context).lingerMs, source)
        : readNamedSymbolFacts(
            db,
            [...named].filter((symbol) => isSymbolOf(source, symbol)),
            nowMs,
          );
    const decide = createRuleDecision(context, nowMs);
    const changed = symbols.filter((facts) => decide(facts, []) !== null);
    const coverage = readCurrentCoverageOf(
      db,
      changed.map(({ symbol }) => symbol),
    );
    const decisions = changed.map(
      ({ symbol }, i) => [symbol, decide(changed[i]!, coverage.get(symbol) ?? [])!] as const,
    );
    recordSelections(db, new Map(decisions));
    logDecisions(context, changed, new Map(decisions));
  });
}

/** Counts the symbols that would be polled without the decision, as all outputs do, and not those whose market has ended. */
function logDecisions(context: Context, symbols: readonly SymbolFacts[], decisions: Selections): void {
  const named = getConfiguredSymbols(context);
  const active = symbols.flatMap((facts) => {
    const decided = { ...facts, ...decisions.get(facts.symbol) };
    return getUnselectedCount(decided, named) !== null || isActive(decided, named) ? [decided] : [];
  });
  if (active.length === 0) return;
  const excluded = active.filter(isUnselected);
  const included = active.length - excluded.length;
  // What was never collected is no change.
  const hasChanged = included > 0 || excluded.some(({ polledFrom }) => polledFrom !== null);
  context.log.info(
    { excluded: excluded.length, included },
    hasChanged ? 'the selection of symbols has changed' : 'source.include and source.exclude leave out new symbols',
  );
}

function createRuleDecision(context: Context, nowMs: number) {
  const { include, exclude } = context.settings.source;
  const named = getConfiguredSymbols(context);
  return (facts: SymbolFacts, coverage: DecisionContext['coverage']): SymbolSelection | null =>
    decideByRules(facts, { include, exclude }, named?.has(facts.symbol) === true, { coverage, nowMs });
}

/** Warns of selectors that match no symbol of the market lists. */
export function warnOfUnmatchedSelectors(run: Pick<Run, 'context' | 'archive' | 'source' | 'warnings'>): void {
  run.warnings.push(...listUnmatchedSelectors(run));
}

/** The selectors that match no known symbol, as sentences. None if `symbols` names what is collected. */
export const listUnmatchedSelectors = ({ context, archive, source }: RunOfSource): string[] =>
  getConfiguredSymbols(context) === null
    ? describeUnmatchedSelectors(archive.state.db, source, context.settings.source)
    : [];

/** What `applySelectionRules` will decide about a symbol, for a dry run. */
export function createForesight(context: Context): (facts: SymbolFacts) => SymbolFacts {
  const decide = createRuleDecision(context, context.clock.nowMs());
  return (facts) => ({ ...facts, ...decide(facts, []) });
}

/** What became of one symbol that a user forgets or watches. Times are epoch ms. */
interface DecisionResult {
  readonly symbol: string;
  /** False: it was decided before. */
  readonly changed: boolean;
  readonly decided_at: number;
}

export interface ForgetResult extends DecisionResult {
  /** Its lifetime ends here; null: nothing of it was collected. */
  readonly expected_to: number | null;
  readonly reason: string | null;
  /** Whether `symbols` in the settings names it, without effect from now on. */
  readonly configured: boolean;
}

export interface WatchResult extends DecisionResult {
  /**
   * `collected`: it was collected before. `resumed`: it is collected again. `started`: nothing named it before, so that its
   * lifetime starts now. `ended`: the market lists say that it is closed or resolved, so that nothing is polled.
   */
  readonly outcome: 'collected' | 'resumed' | 'started' | 'ended';
  /** The last time in which it was not collected, which is not owed; null if there is none. `from` null: from its start. */
  readonly not_owed: { readonly from: number | null; readonly to: number } | null;
}

/**
 * Stops collecting symbols, and publishes the decision. What is published stays.
 * @throws UsageError if one is not known; nothing has changed then
 */
export async function forgetSymbols(
  context: Context,
  archive: Archive,
  names: readonly string[],
  reason: string | null,
): Promise<ForgetResult[]> {
  const { db } = archive.state;
  const configured = getConfiguredSymbols(context);
  const results = db.transaction(() =>
    [...new Set(names)].map((symbol): ForgetResult => {
      const isConfigured = configured?.has(symbol) === true;
      const nowMs = context.clock.nowMs();
      const facts = readNamedSymbol(db, symbol, isConfigured, nowMs);
      const decision = decideForget(facts, reason, readDecisionContext(db, symbol, nowMs));
      if (decision !== null) record(db, symbol, decision, nowMs);
      const window = findOpenWindow(decision ?? facts)!;
      return {
        symbol,
        changed: decision !== null,
        decided_at: window.decidedAt,
        expected_to: Number.isFinite(window.from) ? window.from : null,
        reason: window.reason,
        configured: isConfigured,
      };
    }),
  );
  if (results.some(({ changed }) => changed)) await publishCompleteness(context, archive, 'symbols');
  return results;
}

/**
 * Collects symbols from now on, whatever lists and settings say, and publishes the decision.
 * @throws UsageError if one is not known; nothing has changed then
 */
export async function watchSymbols(
  context: Context,
  archive: Archive,
  names: readonly string[],
): Promise<WatchResult[]> {
  const { db } = archive.state;
  const configured = getConfiguredSymbols(context);
  const results = db.transaction(() =>
    [...new Set(names)].map((symbol): WatchResult => {
      const nowMs = context.clock.nowMs();
      const facts = readNamedSymbol(db, symbol, configured?.has(symbol) === true, nowMs);
      const wasRequested = isRequested(facts, configured);
      const decision = decideWatch(facts, wasRequested, readDecisionContext(db, symbol, nowMs));
      if (decision !== null) record(db, symbol, decision, nowMs);
      if (facts.suspendedAt !== null) resetTriedAt(db, symbol);
      const wasOpen = findOpenWindow(facts) !== undefined;
      const last = wasOpen || !wasRequested ? decision?.unselected?.at(-1) : undefined;
      const hasEnded = configured === null && facts.listed && facts.inactiveSince !== null;
      return {
        symbol,
        changed: decision !== null,
        decided_at: decision?.watchedAt ?? facts.watchedAt!,
        outcome: hasEnded ? 'ended' : wasOpen ? 'resumed' : wasRequested ? 'collected' : 'started',
        not_owed: last === undefined ? null : { from: Number.isFinite(last.from) ? last.from : null, to: last.to },
      };
    }),
  );
  if (results.some(({ changed }) => changed)) await publishCompleteness(context, archive, 'symbols');
  return results;
}

/** @throws UsageError for a symbol that is not known, and that the settings do not name */
const readNamedSymbol = (db: Database, symbol: string, isConfigured: boolean, nowMs: number): SymbolFacts =>
  isConfigured ? (readSymbol(db, symbol) ?? createUnknownSymbol(symbol, nowMs)) : requireKnownSymbol(db, symbol);

/** @throws UsageError for a symbol, of the chosen sources, that neither the archive nor the settings know */
export function requireKnownSymbols(context: Context, { state: { db } }: Archive, names: readonly string[]): void {
  const configured = getConfiguredSymbols(context);
  for (const symbol of planSourceRuns(context, names, false).flatMap(({ symbols }) => symbols))
    readNamedSymbol(db, symbol, configured?.has(symbol) === true, 0);
}

function record(db: Database, symbol: string, decision: SymbolSelection, nowMs: number): void {
  ensureSymbol(db, symbol, nowMs);
  recordSelections(db, new Map([[symbol, decision]]));
}

const readDecisionContext = (db: Database, symbol: string, nowMs: number): DecisionContext => ({
  coverage: readCurrentCoverageOf(db, [symbol]).get(symbol) ?? [],
  nowMs,
});
