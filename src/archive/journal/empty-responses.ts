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

const nightKey = 'night';

/** What is kept of the nights of a source. */
interface NightRecord<T> {
  /** The first night, epoch ms. */
  readonly since: number;
  /** Why days of this source may stay provisional, one clause; null: no cause is known. */
  readonly cause: string | null;
  /** The longest silences that they showed. */
  readonly silences: T;
}

/** Reads the record of a source; undefined: there was no night. */
export function readNight<T>(db: Database, source: string | null): NightRecord<T> | undefined {
  const text = getMeta(db, toSourceKey(nightKey, source));
  return text === undefined ? undefined : (JSON.parse(text) as NightRecord<T>);
}

export const recordNight = (db: Database, night: NightRecord<unknown>, source: string | null): void =>
  setMeta(db, toSourceKey(nightKey, source), JSON.stringify(night));

/** Reads the records of all sources, with the name of each; of the only one it is null. */
export const readNights = (db: Database): (NightRecord<unknown> & { readonly source: string | null })[] =>
  db
    .all<{ key: string; value: string }>(
      'select key, value from meta where key = ? or key glob ?',
      nightKey,
      `${nightKey}:*`,
    )
    .map(({ key, value }) => ({
      ...(JSON.parse(value) as NightRecord<unknown>),
      source: key === nightKey ? null : key.slice(nightKey.length + 1),
    }));
