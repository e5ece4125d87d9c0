import { type Database, getMeta, setMeta, toSourceKey } from './database.ts';
import { readSymbolsWhere } from './symbol-store.ts';

/*
 * The end of the collector's own polls, for symbols with live reads. A live read covers a window seconds after its end,
 * when late ticks may still be missing. So the collector's next poll reads again from here, and not from the end of the
 * coverage. A symbol without an entry has had no live reads: its coverage ends where the collector's last poll ended.
 */

const keyPrefix = 'collected_to:';

/** Reads the recorded ends, epoch milliseconds. */
export const readCollectedEnds = (db: Database): Map<string, number> =>
  new Map(
    db
      .all<{ key: string; value: string }>(
        'select key, value from meta where key >= ? and key < ?',
        keyPrefix,
        'collected_to;',
      )
      .map(({ key, value }) => [key.slice(keyPrefix.length), Number(value)]),
  );

/** Records, before the first live read of a symbol, where the collector's polls end. Later calls change nothing. */
export function keepCollectedEnd(db: Database, symbol: string, toMs: number): void {
  db.run('insert or ignore into meta (key, value) values (?, ?)', keyPrefix + symbol, String(toMs));
}

/** Moves the recorded end of a symbol, after a poll by the collector. */
export const recordCollectedEnd = (db: Database, symbol: string, toMs: number): void =>
  setMeta(db, keyPrefix + symbol, String(toMs));

const toBeginKey = (origin: string, source: string | null): string => toSourceKey(`${origin}_begun`, source);

/** Reads when the first collection since the last finished one began, epoch ms by the service; null: none was cut off. */
export const readUnfinished = (db: Database, origin: string, source: string | null): number | null =>
  Number(getMeta(db, toBeginKey(origin, source)) || 0) || null;

/** Records that a collection begins, or with null that one has finished. What it claimed before that is not judged yet. */
export const recordUnfinished = (db: Database, origin: string, source: string | null, begunMs: number | null): void =>
  setMeta(db, toBeginKey(origin, source), `${begunMs ?? ''}`);

/** The symbols with claims without proof of collections since `begunMs`. Polls do not return to ended ones. */
export function listUnprovenClaims(db: Database, origin: string, source: string | null, begunMs: number): string[] {
  const isClaim = `origin = ? and fetched_at >= ? and evidence = 'inferred'`;
  return readSymbolsWhere(
    db,
    `suspended_at is null and (inactive_since is null or ? = 'backfill') and symbol in
       (select symbol from coverage where ${isClaim} union select symbol from journal_coverage where ${isClaim})`,
    [origin, origin, begunMs, origin, begunMs],
    source,
  ).map(({ symbol }) => symbol);
}
