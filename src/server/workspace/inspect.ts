import { existsSync } from 'node:fs';
import { Kysely } from 'kysely';
import { inspectDatabase } from '../../archive/journal/state.ts';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import type { DatabaseLocation } from './database-url.ts';
import { listAppliedMigrations, migrations, migrationTable } from './migrations.ts';
import { openPostgresDialect } from './postgres.ts';

/**
 * Number of migrations that the service's database lacks; null if its file does not exist. Changes nothing.
 * @throws OddslakeError if the database cannot be read or is of a newer oddslake
 */
export async function inspectWorkspace(location: DatabaseLocation): Promise<number | null> {
  if (location.kind === 'sqlite' && !existsSync(location.path)) return null;
  const done =
    location.kind === 'sqlite' ? readSqliteMigrations(location.path) : await readPostgresMigrations(location.url);
  const unknown = done.find((name) => !Object.hasOwn(migrations, name));
  if (unknown !== undefined)
    throw new OddslakeError(
      exitCodes.usage,
      `The service's database was written by a newer oddslake (migration ${unknown}). Use that version, or another database.`,
    );
  return Object.keys(migrations).length - done.length;
}

const readSqliteMigrations = (path: string): string[] =>
  inspectDatabase(path, (db) =>
    db.one('select 1 from sqlite_master where name = ?', migrationTable) === undefined
      ? []
      : db.all<{ name: string }>(`select name from ${migrationTable}`).map(({ name }) => name),
  );

async function readPostgresMigrations(url: string): Promise<string[]> {
  const db = new Kysely<object>({ dialect: await openPostgresDialect(url) });
  try {
    return await listAppliedMigrations(db);
  } finally {
    await db.destroy();
  }
}
