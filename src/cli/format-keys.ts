import { many, number } from '../core/format-quantity.ts';
import { dayOf, isoUtc } from '../core/time.ts';
import type { ListedKey } from '../workspace/api-keys.ts';
import { renderTable } from './table.ts';
import type { TableStyle } from './terminal-style.ts';

/** A list of keys for a person, or how to make the first one. */
export function keysText(keys: readonly ListedKey[], style: TableStyle): string {
  if (keys.length === 0) return 'no key yet: oddslake keys create --name NAME makes one\n';
  const cells: Record<string, (key: ListedKey) => string> = {
    id: (key) => key.id,
    state: toldState,
    name: (key) => key.name,
    created: (key) => dayOf(key.created_at),
    'last use': (key) =>
      key.last_used_at === null ? 'never' : isoUtc(key.last_used_at - (key.last_used_at % 60_000)).replace(':00Z', 'Z'),
    'requests/min': (key) => (key.requests_per_minute === null ? 'default' : number(key.requests_per_minute)),
  };
  const names = Object.keys(cells);
  const columns = names.map((name) => ({ name, kind: name === 'name' ? 'text' : 'fixed' }) as const);
  const rows = keys.map((key) => names.map((name) => cells[name]!(key)));
  const good = keys.filter(({ state }) => state === 'good').length;
  return renderTable({ columns, rows, complete: true, plan: null }, style, {
    counted: `${many(keys.length, 'key')}, ${number(good)} good`,
    advice: 'widen the terminal',
  });
}

function toldState({ state, expires_at, revoked_at }: ListedKey): string {
  if (state === 'revoked') return `revoked ${dayOf(revoked_at!)}`;
  if (state === 'expired') return `expired ${dayOf(expires_at!)}`;
  return expires_at === null ? 'good' : `good until ${isoUtc(expires_at)}`;
}
