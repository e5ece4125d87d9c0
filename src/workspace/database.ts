import { Kysely } from 'kysely';
import type { Location } from './database-url.ts';
import { migrate } from './migrate.ts';
import { migrations } from './migrations.ts';
import { postgresDialect } from './postgres.ts';
import { sqliteDialect } from './sqlite.ts';
import type { Tables } from './tables.ts';

export type WorkspaceDatabase = Kysely<Tables>;

/**
 * Opens the database and brings its tables up to date.
 * @throws UsageError for a URL that is none, or a database of a newer oddslake; OddslakeError where it cannot be reached
 */
export async function openWorkspaceDatabase(location: Location): Promise<WorkspaceDatabase> {
  const dialect = location.kind === 'sqlite' ? sqliteDialect(location.path) : await postgresDialect(location.url);
  const db = new Kysely<Tables>({ dialect });
  try {
    await migrate(db, location.kind, migrations);
    return db;
  } catch (error) {
    await db.destroy();
    throw error;
  }
}
