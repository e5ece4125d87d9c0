import { type Kysely, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import { WorkspaceUnavailableError } from './database-url.ts';

/** The tables that tables.ts describes, in words that both databases know. Nulls are distinct in a unique index in both. */
const tables = `
create table keys (
  id text primary key, name text not null, created_at bigint not null, expires_at bigint, revoked_at bigint,
  last_used_at bigint, requests_per_minute bigint, scopes text not null, datasets text
);
create table key_secrets (
  digest text primary key, key_id text not null, created_at bigint not null, expires_at bigint
);
create index key_secrets_of_keys on key_secrets (key_id);
create table key_usage (
  key_id text not null, day bigint not null, requests bigint not null, bytes bigint not null, primary key (key_id, day)
);
create table revoked_tokens (
  id text primary key, jti text, user_id text, issued_before bigint, revoked_at bigint not null, expires_at bigint
);

create table owners (
  owner text not null, workspace text not null, changes bigint not null, primary key (owner, workspace)
);
create table strategies (
  id text primary key, ordinal bigint not null, owner text not null, workspace text not null, idempotency_key text,
  created_at bigint not null, name text not null, version bigint not null, versions_assigned bigint not null,
  definition text not null, body_sha256 text not null
);
create index strategies_of_owners on strategies (owner, workspace, ordinal);
create unique index strategies_once on strategies (owner, workspace, idempotency_key);
create unique index strategies_by_name on strategies (owner, workspace, name, version);
create table bots (
  id text primary key, ordinal bigint not null, owner text not null, workspace text not null, idempotency_key text,
  created_at bigint not null, name text not null, strategy_id text not null, symbols text, filter text not null,
  mode text not null, status text not null, updated_at bigint not null, body_sha256 text not null
);
create index bots_of_owners on bots (owner, workspace, ordinal);
create unique index bots_once on bots (owner, workspace, idempotency_key);
create table backtests (
  id text primary key, ordinal bigint not null, owner text not null, workspace text not null, idempotency_key text,
  created_at bigint not null, lease_id text not null, state text not null, request text not null, body_sha256 text,
  strategy text not null, strategy_version bigint, runner bigint, attempts bigint not null, started_at bigint,
  finished_at bigint, batches_done bigint not null, batches_total bigint, error text, value double precision,
  result text, trades_rows bigint, trades_bytes bigint, trades_sha256 text
);
create index backtests_of_owners on backtests (lease_id, owner, workspace, ordinal);
create unique index backtests_once on backtests (lease_id, owner, workspace, idempotency_key);

create table archive_leases (lease_id text primary key, archive text not null, served_at bigint not null);
`;

/**
 * Migrations by name, applied in the order of the names. A released migration is never changed. Use only types that
 * both databases support: text, bigint for epoch milliseconds and counts, and double precision. Add new migrations at the end.
 */
export const migrations: Readonly<Record<string, Migration>> = {
  '001_tables': {
    async up(db) {
      for (const statement of tables.split(';\n').filter((text) => text.trim() !== ''))
        await sql.raw(statement).execute(db);
    },
  },
};

/** The tables are as they were when the migration was written, so none of our types applies. */
// biome-ignore lint/suspicious/noExplicitAny: what Kysely itself hands to a migration
type AnyDatabase = Kysely<any>;

export const migrationTable = 'oddslake_migrations';

const migratorTables = { migrationTableName: migrationTable, migrationLockTableName: 'oddslake_migrations_lock' };

/**
 * Applies missing migrations; waits for another process that does so at the same time.
 * @throws UsageError if another oddslake has migrated the database
 */
export async function migrate(
  db: AnyDatabase,
  kind: 'sqlite' | 'postgres',
  migrations: Readonly<Record<string, Migration>>,
): Promise<void> {
  if (countMissingMigrations(await listAppliedMigrations(db), migrations) === 0) return;
  if (kind === 'postgres') return runMigrations(db, migrations);
  // Kysely's PostgreSQL adapter locks and uses a transaction; for SQLite we have to.
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

/**
 * Number of migrations not yet applied to a database.
 * @throws UsageError if another oddslake has migrated it
 */
export function countMissingMigrations(
  applied: readonly string[],
  known: Readonly<Record<string, Migration>> = migrations,
): number {
  const unknown = applied.find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return Object.keys(known).length - applied.length;
  throw new UsageError(
    `The service's database was written by another oddslake (migration ${unknown}): use that version, or another database.`,
  );
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
    `Cannot create the tables of the service's database: ${(error as Error).message}.`,
    { cause: error },
  );
}

export async function listAppliedMigrations(db: AnyDatabase): Promise<string[]> {
  const known = await db.introspection.getTables({ withInternalKyselyTables: true });
  if (!known.some(({ name }) => name === migratorTables.migrationTableName)) return [];
  const { rows } = await sql<{
    name: string;
  }>`select name from ${sql.table(migratorTables.migrationTableName)}`.execute(db);
  return rows.map(({ name }) => name);
}
