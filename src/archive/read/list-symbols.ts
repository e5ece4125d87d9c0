import type { Archive } from '../archive.ts';
import { type ByColumn, type SymbolFacts, symbolColumns, toColumns } from '../format/market.ts';
import { symbolDetailColumns } from '../format/market-details.ts';
import { findOpenWindow, type UnselectedKind } from '../format/selection.ts';
import { readAllSymbols } from '../journal/symbol-store.ts';
import { selectSymbolsOf } from '../known-state.ts';

/**
 * In display order. `unlisted` is a configured symbol that was never in a market list. `forgotten` and `excluded` are not
 * collected, by decision of a user or by the settings.
 */
const symbolStates = ['active', 'unlisted', 'suspended', 'forgotten', 'excluded', 'closed', 'resolved'] as const;

/** The archive's symbols, as `symbols --json` prints them. Times are epoch milliseconds. */
export interface SymbolList {
  readonly query: string;
  readonly known: number;
  readonly count: number;
  readonly symbols: readonly ListedSymbol[];
}

type ListedColumns = ByColumn<SymbolFacts, (typeof symbolColumns | typeof symbolDetailColumns)[number]>;

export interface ListedSymbol extends ListedColumns {
  readonly state: (typeof symbolStates)[number];
  readonly suspended_at: number | null;
  /** Since when it is not collected, null: ever; why, and when this was decided. Absent if it is collected. */
  readonly not_collected?: {
    readonly since: number | null;
    readonly kind: UnselectedKind;
    readonly reason: string | null;
    readonly decided_at: number;
  };
  /** When a user decided to collect it, whatever lists and settings say; absent if none did. */
  readonly watched_at?: number;
}

/**
 * Lists the symbols that match every word of `text`, ignoring case; all symbols if `text` has no words.
 * @param sources lists only the symbols of these sources; empty: all
 */
export function listSymbols(
  archive: Archive,
  text: string,
  nowMs: number,
  sources: readonly string[] = [],
): SymbolList {
  const known = selectSymbolsOf(readAllSymbols(archive.state.db), sources);
  const words = text.toLowerCase().split(/\s+/u).filter(Boolean);
  const matches = known.filter((facts) => {
    const searchText = [facts.symbol, facts.question, facts.category, facts.canonicalId, facts.source]
      .join('\n')
      .toLowerCase();
    return words.every((word) => searchText.includes(word));
  });
  const symbols = matches.map((facts) => toListedSymbol(facts, nowMs));
  // The sort is stable: within a state, symbols stay sorted by name.
  symbols.sort((a, b) => symbolStates.indexOf(a.state) - symbolStates.indexOf(b.state));
  return { query: text, known: known.length, count: symbols.length, symbols };
}

function getSymbolState(facts: SymbolFacts, nowMs: number): ListedSymbol['state'] {
  if (facts.resolvedAt !== null && facts.resolvedAt <= nowMs) return 'resolved';
  if (facts.inactiveSince !== null) return facts.outcome === null ? 'closed' : 'resolved';
  const open = findOpenWindow(facts);
  if (open !== undefined) return open.kind === 'forgotten' ? 'forgotten' : 'excluded';
  if (facts.suspendedAt !== null) return 'suspended';
  return facts.listed ? 'active' : 'unlisted';
}

function toListedSymbol(facts: SymbolFacts, nowMs: number): ListedSymbol {
  const { symbol, canonical_id, source, question, category, ...rest } = toColumns(facts, symbolColumns);
  return {
    ...{ symbol, canonical_id, source, question, category },
    state: getSymbolState(facts, nowMs),
    ...rest,
    suspended_at: facts.suspendedAt,
    ...toColumns(facts, symbolDetailColumns),
    ...toListedSelection(facts),
  };
}

function toListedSelection(facts: SymbolFacts): Pick<ListedSymbol, 'not_collected' | 'watched_at'> {
  const open = findOpenWindow(facts);
  return {
    ...(open !== undefined && {
      not_collected: {
        since: Number.isFinite(open.from) ? open.from : null,
        kind: open.kind,
        reason: open.reason,
        decided_at: open.decidedAt,
      },
    }),
    ...(facts.watchedAt !== undefined && { watched_at: facts.watchedAt }),
  };
}
