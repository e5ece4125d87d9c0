import type { ListedSymbol, SymbolList } from '../archive/read/symbols.ts';
import type { BacktestSpec } from '../backtest/backtest-spec.ts';
import { formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatDay, formatIsoUtc } from '../base/time.ts';
import { formatObjective } from '../report/backtest-figures.ts';
import type { ListedApiKey } from '../server/workspace/api-keys.ts';
import type { ListedBacktest } from '../server/workspace/backtests.ts';
import { renderTable } from './table.ts';
import type { TerminalStyle } from './terminal-style.ts';

/** A list of keys for a person, or how to make the first one. */
export function formatKeys(keys: readonly ListedApiKey[], style: TerminalStyle): string {
  if (keys.length === 0) return 'no key yet: oddslake keys create --name NAME makes one\n';
  const cells: Record<string, (key: ListedApiKey) => string> = {
    id: (key) => key.id,
    state: formatKeyState,
    name: (key) => key.name,
    created: (key) => formatDay(key.created_at),
    'last use': (key) =>
      key.last_used_at === null
        ? 'never'
        : formatIsoUtc(key.last_used_at - (key.last_used_at % 60_000)).replace(':00Z', 'Z'),
    'requests/min': (key) => (key.requests_per_minute === null ? 'default' : formatNumber(key.requests_per_minute)),
  };
  const names = Object.keys(cells);
  const columns = names.map((name) => ({ name, kind: name === 'name' ? 'text' : 'fixed' }) as const);
  const rows = keys.map((key) => names.map((name) => cells[name]!(key)));
  const good = keys.filter(({ state }) => state === 'active').length;
  return renderTable({ columns, rows, isComplete: true, plan: null }, style, {
    counted: `${formatCount(keys.length, 'key')}, ${formatNumber(good)} good`,
    advice: 'widen the terminal',
  });
}

function formatKeyState({ state, expires_at, revoked_at }: ListedApiKey): string {
  if (state === 'revoked') return `revoked ${formatDay(revoked_at!)}`;
  if (state === 'expired') return `expired ${formatDay(expires_at!)}`;
  return expires_at === null ? 'active' : `active until ${formatIsoUtc(expires_at)}`;
}

/** A list of symbols for a person: the first `resultRowsMax`, and how many there are. */
export function formatSymbols(
  { query, known, count, symbols }: SymbolList,
  rowsMax: number,
  style: TerminalStyle,
): string {
  const among = `${formatNumber(known)} known`;
  if (known === 0) return 'no symbol is known yet: nightly or markets polls the lists\n';
  if (count === 0) return `no symbol with ${JSON.stringify(query)} among ${among}\n`;
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

/** A kept backtest as `backtest list --json` has it. Times are epoch milliseconds. */
export interface BacktestListEntry
  extends Pick<ListedBacktest, 'id' | 'owner' | 'workspace' | 'state' | 'value' | 'error' | 'created_at'> {
  readonly name: string;
  readonly version: number | null;
  readonly objective: BacktestSpec['objective'];
  readonly finished_at: number | null;
}

export function toBacktestListEntry(row: ListedBacktest): BacktestListEntry {
  const asked = JSON.parse(row.asked) as BacktestSpec;
  const { id, owner, workspace, state, value, error, created_at, finished_at } = row;
  return {
    id,
    owner,
    workspace,
    state,
    name: asked.entry_executable.name,
    version: row.strategy_version,
    objective: asked.objective,
    value,
    error,
    created_at,
    finished_at,
  };
}

/** A list of kept backtests for a person, or how to keep the first one. */
export function formatBacktestList(rows: readonly BacktestListEntry[], more: boolean, style: TerminalStyle): string {
  if (rows.length === 0) return 'no backtest is kept yet: oddslake backtest run NAME --save keeps one\n';
  const cells: Record<string, (row: BacktestListEntry) => string> = {
    id: ({ id }) => id,
    state: ({ state }) => state,
    strategy: ({ name, version }) => (version === null ? name : `${name} ${version}`),
    value: ({ objective, value }) => formatObjective(objective, value),
    objective: ({ objective }) => objective,
    made: ({ created_at }) => formatIsoUtc(created_at - (created_at % 60_000)).replace(':00Z', 'Z'),
    user: ({ owner, workspace }) => (workspace === '' ? owner : `${owner} in ${workspace}`),
  };
  const names = Object.keys(cells);
  const kindOf = (name: string) =>
    name === 'value' ? 'number' : name === 'strategy' || name === 'user' ? 'text' : 'fixed';
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const shown = rows.map((row) => names.map((name) => cells[name]!(row)));
  const counted = more
    ? `the newest ${formatCount(rows.length, 'backtest')}; --rows shows more`
    : formatCount(rows.length, 'backtest');
  return renderTable({ columns, rows: shown, isComplete: true, plan: null }, style, {
    counted,
    advice: 'widen the terminal',
  });
}
