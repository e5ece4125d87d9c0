import { formatCount, formatNumber } from '../core/format-quantity.ts';
import { formatDay, formatIsoUtc } from '../core/time.ts';
import type { ListedApiKey } from '../workspace/api-keys.ts';
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
  const good = keys.filter(({ state }) => state === 'good').length;
  return renderTable({ columns, rows, isComplete: true, plan: null }, style, {
    counted: `${formatCount(keys.length, 'key')}, ${formatNumber(good)} good`,
    advice: 'widen the terminal',
  });
}

function formatKeyState({ state, expires_at, revoked_at }: ListedApiKey): string {
  if (state === 'revoked') return `revoked ${formatDay(revoked_at!)}`;
  if (state === 'expired') return `expired ${formatDay(expires_at!)}`;
  return expires_at === null ? 'good' : `good until ${formatIsoUtc(expires_at)}`;
}
