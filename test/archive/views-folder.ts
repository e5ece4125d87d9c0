import { execFileSync } from 'node:child_process';
import { expect } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';

export type Row = Record<string, unknown>;

/** Runs views.sql (or another file) and statements in a process whose working folder is the archive. */
export function inFolder(root: string, statements: readonly string[], views = 'views.sql'): Row[][] {
  const program = new URL('views-process.ts', import.meta.url).pathname;
  const args = ['--disable-warning=ExperimentalWarning', program, views, ...statements];
  return JSON.parse(execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' })) as Row[][];
}

/** Reads the rows as `oddslake sql` does. */
export async function readOwn(archive: Archive, sql: string): Promise<Row[]> {
  const { query, close } = await openArchiveQuery(archive, sql, () => 0.5);
  try {
    return await query.readRows(sql);
  } finally {
    await close();
  }
}

/** Reads the rows with the archive's views.sql and, if they are the same, with `oddslake sql`. */
export async function readBoth(root: string, archive: Archive, sql: string): Promise<Row[]> {
  const [rows] = inFolder(root, [sql]);
  expect(await readOwn(archive, sql)).toEqual(rows);
  return rows!;
}
