import type { Database } from './database.ts';
import { getMeta, setMeta } from './meta.ts';

// When each published file was last hashed and found as published, or written. Of another file at that path it says nothing.

export interface HashedFile {
  readonly path: string;
  readonly sha256: string;
}

/** When the file of a path and hash was last hashed, epoch ms; undefined where that is not known. */
export type HashTimeLookup = (file: HashedFile) => number | undefined;

/** Reads all of them at once. */
export function readHashTimes(db: Database): HashTimeLookup {
  const rows = db.all<{ path: string; sha256: string; hashed_at: number }>(
    'select path, sha256, hashed_at from hash_times',
  );
  const byPath = new Map(rows.map((row) => [row.path, row]));
  return ({ path, sha256 }) => {
    const row = byPath.get(path);
    return row?.sha256 === sha256 ? row.hashed_at : undefined;
  };
}

/** Notes that files were as published at a moment (epoch ms). */
export function recordHashed(db: Database, files: Iterable<HashedFile>, atMs: number): void {
  for (const { path, sha256 } of files)
    db.run('insert or replace into hash_times (path, sha256, hashed_at) values (?, ?, ?)', path, sha256, atMs);
}

/** Forgets files that are published no more. */
export function dropHashTimes(db: Database, isPublished: (path: string) => boolean): void {
  const paths = db.all<{ path: string }>('select path from hash_times').map(({ path }) => path);
  for (const path of paths) if (!isPublished(path)) db.run('delete from hash_times where path = ?', path);
}

const hashShareKey = 'share_hashed_to';

/** Up to when the rolling share of files has been hashed, epoch ms: see `chooseShare`. Null before the first. */
export const readShareHashedTo = (db: Database): number | null => {
  const value = getMeta(db, hashShareKey);
  return value === undefined ? null : Number(value);
};

export const recordShareHashedTo = (db: Database, atMs: number): void => setMeta(db, hashShareKey, String(atMs));
