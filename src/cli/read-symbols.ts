import type { Archive } from '../archive/archive.ts';
import type { SymbolFacts } from '../core/market.ts';
import { dayOf } from '../core/time.ts';
import { allSymbols } from '../state/symbols.ts';
import { many, number } from './amounts.ts';
import { renderTable, type TableStyle } from './table.ts';

/** `unlisted`: no market list ever named it, it was named by hand. Live ones first, as they are shown. */
const states = ['active', 'unlisted', 'given up', 'closed', 'resolved'] as const;

/** What the archive knows of its symbols, as `symbols --json` prints it. Times are epoch milliseconds. */
export interface SymbolList {
  readonly text: string;
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
  readonly state: (typeof states)[number];
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
  readonly retired_at: number | null;
}

/** The symbols in which every word of `text` stands somewhere, in whatever case: all of them where it has none. */
export function listSymbols(archive: Archive, text: string, nowMs: number): SymbolList {
  const known = allSymbols(archive.state.db);
  const words = text.toLowerCase().split(/\s+/u).filter(Boolean);
  const found = known.filter((facts) => {
    const told = [facts.symbol, facts.question, facts.category, facts.canonicalId, facts.source]
      .join('\n')
      .toLowerCase();
    return words.every((word) => told.includes(word));
  });
  const symbols = found.map((facts) => listed(facts, nowMs));
  // A stable sort: within a state they stay in the order of their names.
  symbols.sort((a, b) => states.indexOf(a.state) - states.indexOf(b.state));
  return { text, known: known.length, count: symbols.length, symbols };
}

function stateOf(facts: SymbolFacts, nowMs: number): ListedSymbol['state'] {
  if (facts.resolvedAt !== null && facts.resolvedAt <= nowMs) return 'resolved';
  if (facts.inactiveSince !== null) return facts.outcome === null ? 'closed' : 'resolved';
  if (facts.retiredAt !== null) return 'given up';
  return facts.listed ? 'active' : 'unlisted';
}

const listed = (facts: SymbolFacts, nowMs: number): ListedSymbol => ({
  symbol: facts.symbol,
  canonical_id: facts.canonicalId,
  source: facts.source,
  question: facts.question,
  category: facts.category,
  state: stateOf(facts, nowMs),
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
  retired_at: facts.retiredAt,
});

/** The same for a person: the first `rowsMax`, and how many there are. */
export function symbolsText({ text, known, count, symbols }: SymbolList, rowsMax: number, style: TableStyle): string {
  const among = `${number(known)} known`;
  if (known === 0) return 'no symbol is known yet: nightly or markets polls the lists\n';
  if (count === 0) return `no symbol with ${JSON.stringify(text)} among ${among}\n`;
  const shown = symbols.slice(0, rowsMax);
  const rest = count - shown.length;
  const counted = count === known ? many(known, 'symbol') : `${number(count)} of ${among}`;
  const more = rest === 0 ? counted : `… and ${number(rest)} more (${counted}; --rows ${count} shows them)`;
  const cells: Record<string, (s: ListedSymbol) => string> = {
    symbol: (s) => s.symbol,
    question: (s) => s.question ?? '',
    category: (s) => s.category ?? '',
    state: toldState,
    ticks: (s) => number(s.ticks),
    'first … last tick': toldSpan,
    'last tick': (s) => (s.last_tick === null ? '' : dayOf(s.last_tick)),
  };
  const wide = style.width === null || style.width >= wideFrom;
  const names = Object.keys(cells).filter((name) => (wide ? name !== 'last tick' : !wideOnly.has(name)));
  // A symbol is there to be copied: it is cut only where it would leave no room for anything else.
  const longest = shown.reduce((most, s) => Math.max(most, s.symbol.length), 0);
  const texts = new Set(['question', 'category', ...(longest > symbolWidthMax ? ['symbol'] : [])]);
  const kindOf = (name: string) => (name === 'ticks' ? 'number' : texts.has(name) ? 'text' : 'fixed');
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const rows = shown.map((s) => names.map((name) => cells[name]!(s)));
  return renderTable({ columns, rows, complete: true, plan: null }, style, {
    counted: more,
    advice: 'widen the terminal',
  });
}

/** Terminal columns from which on all there is to show leaves room for the question. */
const wideFrom = 110;
const wideOnly: ReadonlySet<string> = new Set(['category', 'first … last tick']);
const symbolWidthMax = 32;

const toldState = ({ state, outcome }: ListedSymbol): string =>
  state === 'resolved' && outcome !== null ? `resolved ${outcome}` : state;

function toldSpan({ first_tick, last_tick }: ListedSymbol): string {
  if (first_tick === null || last_tick === null) return '';
  const [first, last] = [dayOf(first_tick), dayOf(last_tick)];
  return first === last ? first : `${first} … ${last}`;
}
