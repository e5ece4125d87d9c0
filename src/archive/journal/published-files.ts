import type { FileRecord, RowGroup } from '../parquet/row-group-index.ts';
import { type Database, getMeta, setMeta } from './database.ts';

/** Records the row groups of files. Each record replaces that of its path. */
export function recordRowGroups(db: Database, records: Iterable<FileRecord>): void {
  for (const { path, sha256, footer, groups } of records) {
    db.run('insert or replace into row_groups values (?, ?, ?, ?)', path, sha256, footer, JSON.stringify(groups));
  }
}

/** Reads the row groups of the file with this path and hash; undefined if not recorded. */
export function readRowGroups(db: Database, path: string, sha256: string): FileRecord | undefined {
  const row = db.one<{ footer: Uint8Array; groups: string }>(
    'select footer, groups from row_groups where path = ? and sha256 = ?',
    path,
    sha256,
  );
  if (row === undefined) return undefined;
  return { path, sha256, footer: row.footer, groups: JSON.parse(row.groups) as RowGroup[] };
}

/** Whether the row groups of a file are recorded. */
export const hasRowGroups = (db: Database, path: string, sha256: string): boolean =>
  db.one('select 1 from row_groups where path = ? and sha256 = ?', path, sha256) !== undefined;

/** Deletes the records of removed files. */
export function dropRowGroups(db: Database, paths: Iterable<string>): void {
  for (const path of paths) db.run('delete from row_groups where path = ?', path);
}

/** Lists the paths with recorded row groups. */
export const listRecordedPaths = (db: Database): string[] =>
  db.all<{ path: string }>('select path from row_groups order by path').map(({ path }) => path);

// When each published file was last written, or last hashed and matched its checksum. Applies only to the file with
// that hash.

interface HashedFile {
  readonly path: string;
  readonly sha256: string;
}

/** Returns when the file of a path and hash was last hashed, epoch ms; undefined if not known. */
type HashTimeLookup = (file: HashedFile) => number | undefined;

/** Reads all hash times at once. */
export function readHashTimes(db: Database): HashTimeLookup {
  const rows = db.rows<[path: string, sha256: string, hashedAt: number]>(
    'select path, sha256, hashed_at from hash_times',
  );
  const byPath = new Map<string, (typeof rows)[number]>();
  for (const row of rows) byPath.set(row[0], row);
  return ({ path, sha256 }) => {
    const row = byPath.get(path);
    return row?.[1] === sha256 ? row[2] : undefined;
  };
}

/**
 * Computes the time since which every byte has been hashed, epoch ms; null if some never were, or if there are no
 * files.
 */
export function computeVerifiedThrough(files: Iterable<HashedFile>, getHashTime: HashTimeLookup): number | null {
  let oldestMs: number | null = null;
  for (const file of files) {
    const hashedAt = getHashTime(file);
    if (hashedAt === undefined) return null;
    oldestMs = Math.min(oldestMs ?? hashedAt, hashedAt);
  }
  return oldestMs;
}

/** Records that files matched their checksums at `atMs` (epoch ms). */
export function recordHashed(db: Database, files: Iterable<HashedFile>, atMs: number): void {
  for (const { path, sha256 } of files)
    db.run('insert or replace into hash_times (path, sha256, hashed_at) values (?, ?, ?)', path, sha256, atMs);
}

/** Deletes the hash times of files that are no longer published. */
export function dropHashTimes(db: Database, isPublished: (path: string) => boolean): void {
  const paths = db.all<{ path: string }>('select path from hash_times').map(({ path }) => path);
  for (const path of paths) if (!isPublished(path)) db.run('delete from hash_times where path = ?', path);
}

const hashShareKey = 'share_hashed_to';

/**
 * Reads the time up to which the rolling hash check has progressed, epoch ms; see `chooseHashShare`. Null before its
 * first share.
 */
export const readShareHashedTo = (db: Database): number | null => {
  const value = getMeta(db, hashShareKey);
  return value === undefined ? null : Number(value);
};

export const recordShareHashedTo = (db: Database, atMs: number): void => setMeta(db, hashShareKey, String(atMs));

/** How a file differs from what was published; `state`: the state database is damaged, or its coverage differs. */
export type DamageKind = 'missing' | 'size mismatch' | 'checksum mismatch' | 'orphan' | 'state';

export interface FileDamage {
  /** Relative to the archive's root. */
  readonly path: string;
  readonly kind: DamageKind;
}

export interface RecordedDamage extends FileDamage {
  /** When it was first found, epoch ms. */
  readonly foundAt: number;
  /** The run that found it. */
  readonly runId: string;
}

/** Reads the recorded damage by path; empty if the last verify or repair was clean. */
export const readRecordedDamage = (db: Database): RecordedDamage[] =>
  db.all<RecordedDamage & Record<string, never>>(
    'select path, kind, found_at as "foundAt", run_id as "runId" from damage order by path',
  );

/** Adds the damage that a run found. For a recorded path, the earlier time is kept. */
export function recordDamage(db: Database, damage: readonly FileDamage[], runId: string, nowMs: number): void {
  if (damage.length === 0) return;
  db.transaction(() => {
    for (const { path, kind } of damage) {
      db.run(
        `insert into damage (path, kind, found_at, run_id) values (?, ?, ?, ?)
         on conflict do update set kind = excluded.kind where kind <> excluded.kind`,
        path,
        kind,
        nowMs,
        runId,
      );
    }
  });
}

/** Replaces the recorded damage with the result of a check of the whole archive. */
export function replaceDamage(db: Database, damage: readonly FileDamage[], runId: string, nowMs: number): void {
  const paths = new Set(damage.map(({ path }) => path));
  const repaired = readRecordedDamage(db).filter(({ path }) => !paths.has(path));
  if (damage.length + repaired.length === 0) return;
  db.transaction(() => {
    for (const { path } of repaired) db.run('delete from damage where path = ?', path);
    recordDamage(db, damage, runId, nowMs);
  });
}
