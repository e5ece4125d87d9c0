import { formatCount, formatNumber } from '../core/format-quantity.ts';
import { formatDay } from '../core/time.ts';
import type { ListedSymbol, SymbolList } from '../reading/symbols.ts';
import { renderTable } from './table.ts';
import type { TerminalStyle } from './terminal-style.ts';

/** A list of symbols for a person: the first `rowsMax`, and how many there are. */
export function formatSymbols(
  { text, known, count, symbols }: SymbolList,
  rowsMax: number,
  style: TerminalStyle,
): string {
  const among = `${formatNumber(known)} known`;
  if (known === 0) return 'no symbol is known yet: nightly or markets polls the lists\n';
  if (count === 0) return `no symbol with ${JSON.stringify(text)} among ${among}\n`;
  const shown = symbols.slice(0, rowsMax);
  const rest = count - shown.length;
  const counted = count === known ? formatCount(known, 'symbol') : `${formatNumber(count)} of ${among}`;
  const more = rest === 0 ? counted : `… and ${formatNumber(rest)} more (${counted}; --rows ${count} shows them)`;
  const cells: Record<string, (s: ListedSymbol) => string> = {
    symbol: (s) => s.symbol,
    question: (s) => s.question ?? '',
    category: (s) => s.category ?? '',
    state: formatSymbolState,
    ticks: (s) => formatNumber(s.ticks),
    'first … last tick': formatTickDays,
    'last tick': (s) => (s.last_tick === null ? '' : formatDay(s.last_tick)),
  };
  const wide = style.width === null || style.width >= wideWidthMin;
  const names = Object.keys(cells).filter((name) => (wide ? name !== 'last tick' : !wideColumns.has(name)));
  // A symbol is there to be copied: it is cut only where it would leave no room for anything else.
  const longest = shown.reduce((most, s) => Math.max(most, s.symbol.length), 0);
  const texts = new Set(['question', 'category', ...(longest > symbolWidthMax ? ['symbol'] : [])]);
  const kindOf = (name: string) => (name === 'ticks' ? 'number' : texts.has(name) ? 'text' : 'fixed');
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const rows = shown.map((s) => names.map((name) => cells[name]!(s)));
  return renderTable({ columns, rows, isComplete: true, plan: null }, style, {
    counted: more,
    advice: 'widen the terminal',
  });
}

/** Terminal columns from which on all there is to show leaves room for the question. */
const wideWidthMin = 110;
const wideColumns: ReadonlySet<string> = new Set(['category', 'first … last tick']);
const symbolWidthMax = 32;

const formatSymbolState = ({ state, outcome }: ListedSymbol): string =>
  state === 'resolved' && outcome !== null ? `resolved ${outcome}` : state;

function formatTickDays({ first_tick, last_tick }: ListedSymbol): string {
  if (first_tick === null || last_tick === null) return '';
  const [first, last] = [formatDay(first_tick), formatDay(last_tick)];
  return first === last ? first : `${first} … ${last}`;
}
