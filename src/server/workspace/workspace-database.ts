import { existsSync } from 'node:fs';
import { Kysely } from 'kysely';
import type { Database } from '../../archive/journal/database.ts';
import { inspectDatabase, refuseUnopened } from '../../archive/journal/state.ts';
import type { DatabaseLocation } from './database-url.ts';
import { countMissingMigrations, listAppliedMigrations, migrate, migrations, migrationTable } from './migrations.ts';
import { openPostgresDialect } from './postgres.ts';
import { openSqliteDialect } from './sqlite.ts';
import type { Tables } from './tables.ts';

export type WorkspaceDatabase = Kysely<Tables>;

/**
 * Opens the database and brings its schema up to date.
 * @throws UsageError for an invalid URL, or if another oddslake has migrated the database; OddslakeError if it cannot
 *   be opened
 */
export async function openWorkspaceDatabase(location: DatabaseLocation): Promise<WorkspaceDatabase> {
  if (location.kind === 'sqlite') refuseOtherTables(location.path);
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

/** When a key that is not revoked expires; null: never. Epoch milliseconds. */
export type KeyExpiry = Pick<Tables['keys'], 'id' | 'name' | 'expires_at'>;

/**
 * Reads the keys that are not revoked, without changing the database; null if its tables do not exist yet.
 * @throws OddslakeError if the database cannot be read; UsageError if another oddslake has migrated it
 */
export async function inspectWorkspace(location: DatabaseLocation): Promise<readonly KeyExpiry[] | null> {
  if (location.kind === 'postgres') return await inspectPostgres(location.url);
  if (!existsSync(location.path)) return null;
  refuseOtherTables(location.path);
  return inspectDatabase(location.path, (db) =>
    hasTables(db)
      ? db.all<KeyExpiry>('select id, name, expires_at from keys where revoked_at is null order by id')
      : null,
  );
}

/** @throws UsageError if another oddslake has migrated the database */
function hasTables(db: Database): boolean {
  if (db.one('select 1 from sqlite_master where name = ?', migrationTable) === undefined) return false;
  const applied = db.all<{ name: string }>(`select name from ${migrationTable}`).map(({ name }) => name);
  return countMissingMigrations(applied) === 0;
}

/**
 * Refuses a database that another oddslake has migrated, without changing its folder: see `refuseUnopened`.
 * @throws UsageError
 */
const refuseOtherTables = (path: string): void => refuseUnopened(path, (db) => void hasTables(db));

async function inspectPostgres(url: string): Promise<readonly KeyExpiry[] | null> {
  const db: WorkspaceDatabase = new Kysely<Tables>({ dialect: await openPostgresDialect(url) });
  try {
    if (countMissingMigrations(await listAppliedMigrations(db)) > 0) return null;
    const active = db.selectFrom('keys').where('revoked_at', 'is', null);
    return await active.select(['id', 'name', 'expires_at']).orderBy('id').execute();
  } finally {
    await db.destroy();
  }
}
