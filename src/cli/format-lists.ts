import type { AcceptedWindow } from '../archive/format/coverage.ts';
import type { ListedSymbol, SymbolList } from '../archive/read/list-symbols.ts';
import { formatBytes, formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatDay, formatIsoMinute, formatIsoUtc } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import type { BacktestSpec } from '../contract/backtest-request.ts';
import { keyScopes } from '../contract/key-scopes.ts';
import { formatObjective } from '../report/backtest-figures.ts';
import type { ListedApiKey } from '../server/workspace/api-keys.ts';
import type { ListedBacktest } from '../server/workspace/backtest-store.ts';
import type { ApiKeyUsage } from '../server/workspace/key-usage.ts';
import type { ListedTokenRevocation } from '../server/workspace/revoked-tokens.ts';
import { renderList } from './table.ts';
import { escapeControls, type TerminalStyle } from './terminal-style.ts';

export function formatKeys(keys: readonly ListedApiKey[], nowMs: number, style: TerminalStyle): string {
  if (keys.length === 0) return style.complete('no keys. Create one: oddslake keys create --name NAME\n');
  const activeCount = keys.filter(({ state }) => state === 'active').length;
  const cells: Record<string, (key: ListedApiKey) => string> = {
    id: (key) => key.id,
    state: formatKeyState,
    name: (key) => key.name,
    created: (key) => formatDay(key.created_at),
    'last use': (key) => (key.last_used_at === null ? 'never' : formatIsoMinute(key.last_used_at)),
    'requests/min': (key) => (key.requests_per_minute === null ? 'default' : formatNumber(key.requests_per_minute)),
    permits: formatPermissions,
  };
  const expiringCount = keys.filter((key) => isExpiringSoon(key, nowMs)).length;
  const expiring = expiringCount === 0 ? '' : `, ${formatNumber(expiringCount)} expiring within 7 days`;
  const counted = `${formatCount(keys.length, 'key')}, ${formatNumber(activeCount)} active${expiring}`;
  const isAnyRotated = keys.some(({ secrets }) => secrets.length > 1);
  return renderList(keys, { ...cells, ...(isAnyRotated && earlierSecrets) }, style, counted, { name: 'text' });
}

const earlierSecrets = {
  'earlier secret ends': ({ state, secrets }: ListedApiKey): string =>
    state === 'active'
      ? secrets.flatMap((one) => (one.expires_at === null ? [] : [formatIsoUtc(one.expires_at)])).join(', ')
      : '',
};

/** Time before the expiry of a key from which `keys list` warns, ms. */
const expiringSoonMs = 7 * dayMs;

const isExpiringSoon = ({ state, expires_at }: ListedApiKey, nowMs: number): boolean =>
  state === 'active' && expires_at !== null && expires_at - nowMs <= expiringSoonMs;

const formatPermissions = ({ scopes, datasets }: ListedApiKey): string =>
  scopes.length === keyScopes.length && datasets === null ? 'all' : [scopes.join(' '), ...(datasets ?? [])].join(', ');

function formatKeyState({ state, expires_at, revoked_at }: ListedApiKey): string {
  if (state === 'revoked') return `revoked ${formatDay(revoked_at!)}`;
  if (state === 'expired') return `expired ${formatDay(expires_at!)}`;
  return expires_at === null ? 'active' : `active until ${formatIsoUtc(expires_at)}`;
}

/** Formats the usage of keys as a table, one line per key. */
export function formatKeyUsage(keys: readonly ApiKeyUsage[], style: TerminalStyle): string {
  const total = keys.reduce((sum, { requests }) => sum + requests, 0);
  const cells: Record<string, (key: ApiKeyUsage) => string> = {
    id: ({ id }) => id,
    name: ({ name }) => name,
    requests: ({ requests }) => formatNumber(requests),
    sent: ({ bytes }) => formatBytes(bytes),
    'last use': ({ last_used_at }) => (last_used_at === null ? 'never' : formatIsoMinute(last_used_at)),
  };
  const footer = `${formatCount(keys.length, 'key')}, ${formatCount(total, 'request')}`;
  return renderList(keys, cells, style, footer, { name: 'text', requests: 'number', sent: 'number' });
}

/** Formats the usage of keys as a table, one line per UTC day. */
export function formatKeyUsageByDay(keys: readonly ApiKeyUsage[], style: TerminalStyle): string {
  const rows = keys.flatMap(({ id, days }) => days.map((day) => ({ id, ...day })));
  const total = rows.reduce((sum, { requests }) => sum + requests, 0);
  const cells: Record<string, (row: (typeof rows)[number]) => string> = {
    day: ({ day }) => day,
    id: ({ id }) => id,
    requests: ({ requests }) => formatNumber(requests),
    sent: ({ bytes }) => formatBytes(bytes),
  };
  const footer = `${formatCount(rows.length, 'day')}, ${formatCount(total, 'request')}`;
  return renderList(rows, cells, style, footer, { requests: 'number', sent: 'number' });
}

export function formatTokenRevocations(revocations: readonly ListedTokenRevocation[], style: TerminalStyle): string {
  if (revocations.length === 0)
    return style.complete('no revoked tokens. Revoke one: oddslake tokens revoke ID, or --user USER\n');
  const formatTime = (ms: number | null): string => (ms === null ? '' : formatIsoUtc(ms));
  const cells: Record<string, (row: ListedTokenRevocation) => string> = {
    token: ({ jti }) => jti ?? '',
    user: ({ user }) => user ?? '',
    'issued before': ({ issued_before }) => formatTime(issued_before),
    revoked: ({ revoked_at }) => formatTime(revoked_at),
    'kept until': ({ expires_at }) => formatTime(expires_at),
  };
  return renderList(revocations, cells, style, formatCount(revocations.length, 'revocation'), { user: 'text' });
}

/** Formats the first `rowsMax` symbols as a table, with the total count. */
export function formatSymbols(
  { query, known, count, symbols }: SymbolList,
  rowsMax: number,
  style: TerminalStyle,
): string {
  const knownText = `${formatNumber(known)} known`;
  if (known === 0) return style.complete('no known symbols. Poll the market lists: oddslake markets\n');
  if (count === 0)
    return style.complete(
      `no symbol matches ${JSON.stringify(query)} (${knownText}). Every word must be in the ticker, question, category, market ID or venue. To list all: oddslake symbols\n`,
    );
  const shown = symbols.slice(0, rowsMax);
  const hiddenCount = count - shown.length;
  const countText = count === known ? formatCount(known, 'symbol') : `${formatNumber(count)} of ${knownText}`;
  const footerText =
    hiddenCount === 0
      ? countText
      : `… and ${formatNumber(hiddenCount)} more (${countText}; to show all: --rows ${count})`;
  // All markets of one venue need no column for it.
  const venues = new Set(symbols.flatMap(({ source }) => source ?? []));
  const cells: Record<string, (s: ListedSymbol) => string> = {
    symbol: (s) => s.symbol,
    question: (s) => s.question ?? '',
    category: (s) => s.category ?? '',
    ...(venues.size > 1 && { venue: (s: ListedSymbol) => s.source ?? '' }),
    state: formatSymbolState,
    ticks: (s) => formatNumber(s.ticks),
    'first … last tick': formatTickDays,
    'last tick': (s) => (s.last_tick === null ? '' : formatDay(s.last_tick)),
  };
  const isWide = style.width === null || style.width >= wideWidthMin;
  const shownCells = Object.entries(cells).filter(([name]) => (isWide ? name !== 'last tick' : !wideColumns.has(name)));
  // Symbols are copied by users and never shortened: other columns are, or they are left out.
  return renderList(shown, Object.fromEntries(shownCells), style, footerText, {
    question: 'text',
    category: 'text',
    ticks: 'number',
  });
}

/** Minimum terminal width, in columns, for the optional columns. */
const wideWidthMin = 110;
const wideColumns: ReadonlySet<string> = new Set(['category', 'first … last tick']);

function formatSymbolState({ state, outcome, watched_at: watchedAt }: ListedSymbol): string {
  if (state === 'resolved') return outcome === null ? state : `resolved ${outcome}`;
  return watchedAt === undefined ? state : `${state}, watched`;
}

function formatTickDays({ first_tick, last_tick }: ListedSymbol): string {
  if (first_tick === null || last_tick === null) return '';
  const [first, last] = [formatDay(first_tick), formatDay(last_tick)];
  return first === last ? first : `${first} … ${last}`;
}

type BacktestListEntry = ReturnType<typeof toBacktestListEntry>;

/** A saved backtest as printed by `backtest list --json`. Times in epoch ms. */
export function toBacktestListEntry(row: ListedBacktest) {
  const { entry_executable, objective } = JSON.parse(row.request) as BacktestSpec;
  const { id, owner, workspace, state, strategy_version: version, value, error, created_at, finished_at } = row;
  const { name } = entry_executable;
  return { id, owner, workspace, state, name, version, objective, value, error, created_at, finished_at };
}

export function formatBacktestList(rows: readonly BacktestListEntry[], hasMore: boolean, style: TerminalStyle): string {
  if (rows.length === 0) return style.complete('no saved backtests. Save one: oddslake backtest run NAME --save\n');
  const cells: Record<string, (row: BacktestListEntry) => string> = {
    id: ({ id }) => id,
    state: ({ state }) => state,
    strategy: ({ name, version }) => (version === null ? name : `${name} ${version}`),
    value: ({ objective, value }) => formatObjective(objective, value),
    objective: ({ objective }) => objective,
    created: ({ created_at }) => formatIsoMinute(created_at),
    user: ({ owner, workspace }) => (workspace === '' ? owner : `${owner} in ${workspace}`),
  };
  const count = formatCount(rows.length, 'backtest');
  const counted = hasMore ? `the newest ${count}; to show more: --rows` : count;
  return renderList(rows, cells, style, counted, { value: 'number', strategy: 'text', user: 'text' });
}

const decidedMax = 20;

/** The windows that `gaps accept` accepted or `gaps revoke` revoked, at most 20 of them, and their number. */
export const toDecidedJson = (windows: readonly AcceptedWindow[], verb: 'accepted' | 'revoked'): object => ({
  [verb]: windows
    .slice(0, decidedMax)
    .map(({ acceptedAt, reportedAt: _, ...window }) => ({ ...window, accepted_at: acceptedAt })),
  [`${verb}_count`]: windows.length,
});

/** The same as text, one line each. */
export function formatDecided(windows: readonly AcceptedWindow[], verb: 'accepted' | 'revoked'): string {
  const lines = windows
    .slice(0, decidedMax)
    .map(
      ({ symbol, from, to, reason }) =>
        `${verb}: ${escapeControls(symbol)} ${formatIsoUtc(from)} … ${formatIsoUtc(to)}: ${escapeControls(reason)}\n`,
    );
  const more = windows.length - lines.length;
  return `${lines.join('')}${more > 0 ? `… and ${formatNumber(more)} more (${formatCount(windows.length, 'window')})\n` : ''}`;
}
