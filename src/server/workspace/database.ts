import { existsSync } from 'node:fs';
import { Kysely } from 'kysely';
import { inspectDatabase } from '../../archive/journal/state.ts';
import type { DatabaseLocation } from './database-url.ts';
import { countMissingMigrations, listAppliedMigrations, migrate, migrations, migrationTable } from './migrations.ts';
import { openPostgresDialect } from './postgres.ts';
import { openSqliteDialect } from './sqlite.ts';
import type { Tables } from './tables.ts';

export type WorkspaceDatabase = Kysely<Tables>;

/**
 * Opens the database and brings its schema up to date.
 * @throws UsageError for an invalid URL, or if a newer oddslake has migrated the database; OddslakeError if it cannot
 *   be opened
 */
export async function openWorkspaceDatabase(location: DatabaseLocation): Promise<WorkspaceDatabase> {
  const dialect =
    location.kind === 'sqlite' ? openSqliteDialect(location.path) : await openPostgresDialect(location.url);
  const db = new Kysely<Tables>({ dialect });
  try {
    await migrate(db, location.kind, migrations);
    return db;
  } catch (error) {
    await db.destroy();
    throw error;
  }
}

/**
 * Number of migrations not yet applied to the service's database; null if its file does not exist. Changes nothing.
 * @throws OddslakeError if the database cannot be read; UsageError if a newer oddslake has migrated it
 */
export async function inspectWorkspace(location: DatabaseLocation): Promise<number | null> {
  if (location.kind === 'sqlite' && !existsSync(location.path)) return null;
  return countMissingMigrations(
    location.kind === 'sqlite' ? readSqliteMigrations(location.path) : await readPostgresMigrations(location.url),
  );
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
