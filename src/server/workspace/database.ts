import { Kysely } from 'kysely';
import type { DatabaseLocation } from './database-url.ts';
import { migrate, migrations } from './migrations.ts';
import { openPostgresDialect } from './postgres.ts';
import { openSqliteDialect } from './sqlite.ts';
import type { Tables } from './tables.ts';

export type WorkspaceDatabase = Kysely<Tables>;

/**
 * Opens the database and brings its schema up to date.
 * @throws UsageError for an invalid URL or the database of a newer oddslake; OddslakeError if it cannot be opened
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
