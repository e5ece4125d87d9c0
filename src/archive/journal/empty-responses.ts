import { dayMs, type Window } from '../../base/window.ts';
import { type Database, getMeta, setMeta, toSourceKey } from './database.ts';

/** A window in which a response showed no ticks although others reached it. `observedAt`: when it was generated. Epoch ms. */
export interface EmptyWindow extends Window {
  readonly symbol: string;
  readonly observedAt: number;
}

/** Nights for which empty windows are kept. */
const keptDays = 9;

/** Records the empty windows of a night, and drops those of old ones. Joins the caller's transaction. */
export function recordEmptyWindows(db: Database, windows: readonly EmptyWindow[], nowMs: number): void {
  db.run('delete from empty_windows where observed_at < ?', nowMs - keptDays * dayMs);
  for (const { symbol, observedAt, from, to } of windows)
    db.run(
      'insert or replace into empty_windows (symbol, observed_at, t_from, t_to) values (?, ?, ?, ?)',
      symbol,
      observedAt,
      from,
      to,
    );
}

/** Reads the recorded empty windows of a symbol. */
export const readEmptyWindows = (db: Database, symbol: string): EmptyWindow[] =>
  db.all<{ symbol: string; observedAt: number; from: number; to: number }>(
    'select symbol, observed_at as "observedAt", t_from as "from", t_to as "to" from empty_windows where symbol = ?',
    symbol,
  );

/** Reads a text about the last night of a source that `recordNight` wrote; undefined: none. */
export const readNight = (db: Database, source: string | null): string | undefined =>
  getMeta(db, toSourceKey('longest_silences', source));

export const recordNight = (db: Database, text: string, source: string | null): void =>
  setMeta(db, toSourceKey('longest_silences', source), text);
