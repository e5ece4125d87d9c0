import type { Database } from './database.ts';

/** The values of a row's sort key, in its order. Times are epoch milliseconds. */
export type SortKey = readonly (string | number | null)[];

/** One row group of a Parquet file. */
export interface RowGroup {
  /** Its bytes in the file: `start` included, `end` excluded. */
  readonly start: number;
  readonly end: number;
  /** Of these bytes. */
  readonly sha256: string;
  readonly rows: number;
  /** Keys of its first and its last row. */
  readonly first: SortKey;
  readonly last: SortKey;
}

/** What one published file is made of. */
export interface FileRecord {
  /** Relative to the archive's root. */
  readonly path: string;
  /** Of the whole file: of another one this says nothing. */
  readonly sha256: string;
  /** What stands behind the last row group, to the end of the file. */
  readonly footer: Uint8Array;
  readonly groups: readonly RowGroup[];
}

/** Keeps the records of files; each takes the place of what was known of its path. */
export function recordRowGroups(db: Database, records: Iterable<FileRecord>): void {
  for (const { path, sha256, footer, groups } of records) {
    db.run('insert or replace into row_groups values (?, ?, ?, ?)', path, sha256, footer, JSON.stringify(groups));
  }
}

/** What the file of this path and hash is made of; undefined where that was never noted. */
export function readRowGroups(db: Database, path: string, sha256: string): FileRecord | undefined {
  const row = db.one<{ footer: Uint8Array; groups: string }>(
    'select footer, groups from row_groups where path = ? and sha256 = ?',
    path,
    sha256,
  );
  if (row === undefined) return undefined;
  return { path, sha256, footer: row.footer, groups: JSON.parse(row.groups) as RowGroup[] };
}

/** Whether it is noted. */
export const hasRowGroups = (db: Database, path: string, sha256: string): boolean =>
  db.one('select 1 from row_groups where path = ? and sha256 = ?', path, sha256) !== undefined;

/** Forgets files that are gone. */
export function dropRowGroups(db: Database, paths: Iterable<string>): void {
  for (const path of paths) db.run('delete from row_groups where path = ?', path);
}

/** The paths of which anything is noted. */
export const listRecordedPaths = (db: Database): string[] =>
  db.all<{ path: string }>('select path from row_groups order by path').map(({ path }) => path);
