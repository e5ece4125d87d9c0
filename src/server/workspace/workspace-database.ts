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

/** When a key that is not revoked expires; null: never. Epoch milliseconds. */
export type KeyExpiry = Pick<Tables['keys'], 'id' | 'name' | 'expires_at'>;

/** The result of inspecting the service's database. */
interface WorkspaceInspection {
  /** Number of migrations not yet applied. */
  readonly pending: number;
  /** The keys that are not revoked. */
  readonly keys: readonly KeyExpiry[];
}

/**
 * Inspects the service's database without changing anything; null if its file does not exist.
 * @throws OddslakeError if the database cannot be read; UsageError if a newer oddslake has migrated it
 */
export async function inspectWorkspace(location: DatabaseLocation): Promise<WorkspaceInspection | null> {
  if (location.kind === 'sqlite' && !existsSync(location.path)) return null;
  return location.kind === 'sqlite' ? inspectSqlite(location.path) : inspectPostgres(location.url);
}

/** Whether the table of keys exists: the first migration creates it, with the columns that are read here. */
const hasKeys = (applied: readonly string[]): boolean => applied.includes('001_keys');

const inspectSqlite = (path: string): WorkspaceInspection =>
  inspectDatabase(path, (db) => {
    const isNew = db.one('select 1 from sqlite_master where name = ?', migrationTable) === undefined;
    const applied = isNew ? [] : db.all<{ name: string }>(`select name from ${migrationTable}`).map(({ name }) => name);
    // First: the tables of a newer version are unknown.
    const pending = countMissingMigrations(applied);
    const sql = 'select id, name, expires_at from keys where revoked_at is null order by id';
    return { pending, keys: hasKeys(applied) ? db.all<KeyExpiry>(sql) : [] };
  });

async function inspectPostgres(url: string): Promise<WorkspaceInspection> {
  const db: WorkspaceDatabase = new Kysely<Tables>({ dialect: await openPostgresDialect(url) });
  try {
    const applied = await listAppliedMigrations(db);
    const pending = countMissingMigrations(applied);
    if (!hasKeys(applied)) return { pending, keys: [] };
    const active = db.selectFrom('keys').where('revoked_at', 'is', null);
    return { pending, keys: await active.select(['id', 'name', 'expires_at']).orderBy('id').execute() };
  } finally {
    await db.destroy();
  }
}
