import type { SymbolFacts } from '../format/market.ts';
import { readAllSymbols } from '../journal/symbols.ts';
import type { Archive } from '../open-archive.ts';

/** `unlisted`: no market list ever named it, it was named by hand. Live ones first, as they are shown. */
const symbolStates = ['active', 'unlisted', 'suspended', 'closed', 'resolved'] as const;

/** What the archive knows of its symbols, as `symbols --json` prints it. Times are epoch milliseconds. */
export interface SymbolList {
  readonly query: string;
  readonly known: number;
  readonly count: number;
  readonly symbols: readonly ListedSymbol[];
}

export interface ListedSymbol {
  readonly symbol: string;
  readonly canonical_id: string | null;
  readonly source: string | null;
  readonly question: string | null;
  readonly category: string | null;
  readonly state: (typeof symbolStates)[number];
  readonly is_active: boolean | null;
  readonly opens_at: number | null;
  readonly closes_at: number | null;
  readonly resolved_at: number | null;
  readonly outcome: number | null;
  readonly first_seen: number;
  readonly last_seen: number;
  readonly first_tick: number | null;
  readonly last_tick: number | null;
  readonly ticks: number;
  readonly suspended_at: number | null;
}

/** The symbols in which every word of `text` stands somewhere, in whatever case: all of them where it has none. */
export function listSymbols(archive: Archive, text: string, nowMs: number): SymbolList {
  const known = readAllSymbols(archive.state.db);
  const words = text.toLowerCase().split(/\s+/u).filter(Boolean);
  const found = known.filter((facts) => {
    const told = [facts.symbol, facts.question, facts.category, facts.canonicalId, facts.source]
      .join('\n')
      .toLowerCase();
    return words.every((word) => told.includes(word));
  });
  const symbols = found.map((facts) => toListedSymbol(facts, nowMs));
  // A stable sort: within a state they stay in the order of their names.
  symbols.sort((a, b) => symbolStates.indexOf(a.state) - symbolStates.indexOf(b.state));
  return { query: text, known: known.length, count: symbols.length, symbols };
}

function getSymbolState(facts: SymbolFacts, nowMs: number): ListedSymbol['state'] {
  if (facts.resolvedAt !== null && facts.resolvedAt <= nowMs) return 'resolved';
  if (facts.inactiveSince !== null) return facts.outcome === null ? 'closed' : 'resolved';
  if (facts.suspendedAt !== null) return 'suspended';
  return facts.listed ? 'active' : 'unlisted';
}

const toListedSymbol = (facts: SymbolFacts, nowMs: number): ListedSymbol => ({
  symbol: facts.symbol,
  canonical_id: facts.canonicalId,
  source: facts.source,
  question: facts.question,
  category: facts.category,
  state: getSymbolState(facts, nowMs),
  is_active: facts.isActive,
  opens_at: facts.opensAt,
  closes_at: facts.closesAt,
  resolved_at: facts.resolvedAt,
  outcome: facts.outcome,
  first_seen: facts.firstSeen,
  last_seen: facts.lastSeen,
  first_tick: facts.firstTick,
  last_tick: facts.lastTick,
  ticks: facts.ticks,
  suspended_at: facts.suspendedAt,
});
