import { type Kysely, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { exitCodes, OddslakeError, UsageError } from '../core/errors.ts';
import { WorkspaceUnavailableError } from './database-unavailable.ts';

/** Its tables are as a migration finds them: no type of ours holds for all of them. */
// biome-ignore lint/suspicious/noExplicitAny: what Kysely itself hands to a migration
type AnyDatabase = Kysely<any>;

export const migrationTable = 'oddslake_migrations';

const migratorTables = { migrationTableName: migrationTable, migrationLockTableName: 'oddslake_migrations_lock' };

/**
 * Brings the schema up to `migrations`; a process that does so at the same moment is waited for.
 * @throws UsageError where a newer oddslake has been at the database
 */
export async function migrate(
  db: AnyDatabase,
  kind: 'sqlite' | 'postgres',
  migrations: Readonly<Record<string, Migration>>,
): Promise<void> {
  const done = await listAppliedMigrations(db);
  const unknown = done.find((name) => !Object.hasOwn(migrations, name));
  if (unknown !== undefined) {
    throw new UsageError(
      `The service's database was brought to a newer schema (${unknown}) by a newer oddslake: use that one, or another database.`,
    );
  }
  if (done.length === Object.keys(migrations).length) return;
  if (kind === 'postgres') return runMigrations(db, migrations);
  // PostgreSQL's dialect locks and wraps by itself; SQLite's leaves both to us.
  await db.connection().execute(async (connection) => {
    await sql`begin immediate`.execute(connection);
    try {
      await runMigrations(connection, migrations);
      await sql`commit`.execute(connection);
    } catch (error) {
      await sql`rollback`.execute(connection);
      throw error;
    }
  });
}

async function runMigrations(db: AnyDatabase, migrations: Readonly<Record<string, Migration>>): Promise<void> {
  const migrator = new Migrator({
    db,
    provider: { getMigrations: async () => ({ ...migrations }) },
    ...migratorTables,
  });
  const { error } = await migrator.migrateToLatest();
  if (error === undefined) return;
  if (error instanceof WorkspaceUnavailableError) throw error;
  throw new OddslakeError(
    exitCodes.unexpected,
    `The tables of the service's database cannot be made: ${(error as Error).message}.`,
    { cause: error },
  );
}

/** Names of the migrations that were made in a database. */
export async function listAppliedMigrations(db: AnyDatabase): Promise<string[]> {
  const known = await db.introspection.getTables({ withInternalKyselyTables: true });
  if (!known.some(({ name }) => name === migratorTables.migrationTableName)) return [];
  const { rows } = await sql<{
    name: string;
  }>`select name from ${sql.table(migratorTables.migrationTableName)}`.execute(db);
  return rows.map(({ name }) => name);
}
