import type { ListedSymbol, SymbolList } from '../archive/read/symbols.ts';
import type { BacktestSpec } from '../backtest/backtest-spec.ts';
import { formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatDay, formatIsoUtc, formatMinute } from '../base/time.ts';
import { formatObjective } from '../report/backtest-figures.ts';
import type { ListedApiKey } from '../server/workspace/api-keys.ts';
import type { ListedBacktest } from '../server/workspace/backtests.ts';
import { renderTable } from './table.ts';
import type { TerminalStyle } from './terminal-style.ts';

/** Formats the API keys as a table. */
export function formatKeys(keys: readonly ListedApiKey[], style: TerminalStyle): string {
  if (keys.length === 0) return 'no keys. Create one: oddslake keys create --name NAME\n';
  const cells: Record<string, (key: ListedApiKey) => string> = {
    id: (key) => key.id,
    state: formatKeyState,
    name: (key) => key.name,
    created: (key) => formatDay(key.created_at),
    'last use': (key) => (key.last_used_at === null ? 'never' : formatMinute(key.last_used_at)),
    'requests/min': (key) => (key.requests_per_minute === null ? 'default' : formatNumber(key.requests_per_minute)),
  };
  const names = Object.keys(cells);
  const columns = names.map((name) => ({ name, kind: name === 'name' ? 'text' : 'fixed' }) as const);
  const rows = keys.map((key) => names.map((name) => cells[name]!(key)));
  const activeCount = keys.filter(({ state }) => state === 'active').length;
  return renderTable({ columns, rows, isComplete: true, plan: null }, style, {
    counted: `${formatCount(keys.length, 'key')}, ${formatNumber(activeCount)} active`,
    advice: 'widen the terminal',
  });
}

function formatKeyState({ state, expires_at, revoked_at }: ListedApiKey): string {
  if (state === 'revoked') return `revoked ${formatDay(revoked_at!)}`;
  if (state === 'expired') return `expired ${formatDay(expires_at!)}`;
  return expires_at === null ? 'active' : `active until ${formatIsoUtc(expires_at)}`;
}

/** Formats the first `rowsMax` symbols as a table, with the total count. */
export function formatSymbols(
  { query, known, count, symbols }: SymbolList,
  rowsMax: number,
  style: TerminalStyle,
): string {
  const knownText = `${formatNumber(known)} known`;
  if (known === 0) return 'no known symbols. Poll the market lists: oddslake markets\n';
  if (count === 0) return `no symbol matches ${JSON.stringify(query)} (${knownText})\n`;
  const shown = symbols.slice(0, rowsMax);
  const hiddenCount = count - shown.length;
  const countText = count === known ? formatCount(known, 'symbol') : `${formatNumber(count)} of ${knownText}`;
  const footerText =
    hiddenCount === 0
      ? countText
      : `… and ${formatNumber(hiddenCount)} more (${countText}; to show all: --rows ${count})`;
  const cells: Record<string, (s: ListedSymbol) => string> = {
    symbol: (s) => s.symbol,
    question: (s) => s.question ?? '',
    category: (s) => s.category ?? '',
    state: formatSymbolState,
    ticks: (s) => formatNumber(s.ticks),
    'first … last tick': formatTickDays,
    'last tick': (s) => (s.last_tick === null ? '' : formatDay(s.last_tick)),
  };
  const isWide = style.width === null || style.width >= wideWidthMin;
  const names = Object.keys(cells).filter((name) => (isWide ? name !== 'last tick' : !wideColumns.has(name)));
  // Symbols are copied by users: they are shortened only if they would leave no room for other columns.
  const symbolWidth = shown.reduce((max, s) => Math.max(max, s.symbol.length), 0);
  const textColumns = new Set(['question', 'category', ...(symbolWidth > symbolWidthMax ? ['symbol'] : [])]);
  const kindOf = (name: string) => (name === 'ticks' ? 'number' : textColumns.has(name) ? 'text' : 'fixed');
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const rows = shown.map((s) => names.map((name) => cells[name]!(s)));
  return renderTable({ columns, rows, isComplete: true, plan: null }, style, {
    counted: footerText,
    advice: 'widen the terminal',
  });
}

/** Minimum terminal width, in columns, for the optional columns. */
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

/** A saved backtest as printed by `backtest list --json`. Times in epoch ms. */
export interface BacktestListEntry
  extends Pick<ListedBacktest, 'id' | 'owner' | 'workspace' | 'state' | 'value' | 'error' | 'created_at'> {
  readonly name: string;
  readonly version: number | null;
  readonly objective: BacktestSpec['objective'];
  readonly finished_at: number | null;
}

export function toBacktestListEntry(row: ListedBacktest): BacktestListEntry {
  const request = JSON.parse(row.asked) as BacktestSpec;
  const { id, owner, workspace, state, value, error, created_at, finished_at } = row;
  return {
    id,
    owner,
    workspace,
    state,
    name: request.entry_executable.name,
    version: row.strategy_version,
    objective: request.objective,
    value,
    error,
    created_at,
    finished_at,
  };
}

/** Formats the saved backtests as a table. */
export function formatBacktestList(
  rows: readonly BacktestListEntry[],
  footerText: boolean,
  style: TerminalStyle,
): string {
  if (rows.length === 0) return 'no saved backtests. Save one: oddslake backtest run NAME --save\n';
  const cells: Record<string, (row: BacktestListEntry) => string> = {
    id: ({ id }) => id,
    state: ({ state }) => state,
    strategy: ({ name, version }) => (version === null ? name : `${name} ${version}`),
    value: ({ objective, value }) => formatObjective(objective, value),
    objective: ({ objective }) => objective,
    created: ({ created_at }) => formatMinute(created_at),
    user: ({ owner, workspace }) => (workspace === '' ? owner : `${owner} in ${workspace}`),
  };
  const names = Object.keys(cells);
  const kindOf = (name: string) =>
    name === 'value' ? 'number' : name === 'strategy' || name === 'user' ? 'text' : 'fixed';
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const shown = rows.map((row) => names.map((name) => cells[name]!(row)));
  const countText = footerText
    ? `the newest ${formatCount(rows.length, 'backtest')}; to show more: --rows`
    : formatCount(rows.length, 'backtest');
  return renderTable({ columns, rows: shown, isComplete: true, plan: null }, style, {
    counted: countText,
    advice: 'widen the terminal',
  });
}
