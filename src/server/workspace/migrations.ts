import { type Kysely, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import { WorkspaceUnavailableError } from './database-url.ts';

/**
 * Migrations by name, applied in the order of the names. A released migration is never changed. Use only types that
 * both databases support: text, and bigint for epoch milliseconds and counts. Add new migrations at the end.
 */
export const migrations: Readonly<Record<string, Migration>> = {
  '001_keys': {
    async up(db) {
      await db.schema
        .createTable('keys')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('digest', 'text', (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .addColumn('expires_at', 'bigint')
        .addColumn('revoked_at', 'bigint')
        .addColumn('last_used_at', 'bigint')
        .addColumn('requests_per_minute', 'bigint')
        .execute();
    },
  },
  '002_export_jobs': {
    async up(db) {
      await db.schema
        .createTable('export_jobs')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('ordinal', 'bigint', (column) => column.notNull())
        .addColumn('key_id', 'text', (column) => column.notNull())
        .addColumn('idempotency_key', 'text')
        .addColumn('place', 'text', (column) => column.notNull())
        .addColumn('state', 'text', (column) => column.notNull())
        .addColumn('dataset', 'text', (column) => column.notNull())
        .addColumn('symbols', 'text', (column) => column.notNull())
        .addColumn('from_ms', 'bigint')
        .addColumn('to_ms', 'bigint')
        .addColumn('format', 'text', (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .addColumn('finished_at', 'bigint')
        .addColumn('expires_at', 'bigint')
        .addColumn('runner', 'bigint')
        .addColumn('rows_done', 'bigint', (column) => column.notNull())
        .addColumn('rows_total', 'bigint')
        .addColumn('bytes', 'bigint')
        .addColumn('sha256', 'text')
        .addColumn('rows', 'bigint')
        .addColumn('generation', 'bigint')
        .addColumn('error', 'text')
        .execute();
      await db.schema
        .createIndex('export_jobs_of_keys')
        .on('export_jobs')
        .columns(['place', 'key_id', 'ordinal'])
        .execute();
      // Nulls are distinct in a unique index, in SQLite as in PostgreSQL.
      await db.schema
        .createIndex('export_jobs_once')
        .unique()
        .on('export_jobs')
        .columns(['place', 'key_id', 'idempotency_key'])
        .execute();
    },
  },
  '003_users_objects': {
    async up(db) {
      await db.schema
        .createTable('owners')
        .addColumn('owner', 'text', (column) => column.notNull())
        .addColumn('workspace', 'text', (column) => column.notNull())
        .addColumn('made', 'bigint', (column) => column.notNull())
        .addPrimaryKeyConstraint('owners_key', ['owner', 'workspace'])
        .execute();
      const object = (name: string) =>
        db.schema
          .createTable(name)
          .addColumn('id', 'text', (column) => column.primaryKey())
          .addColumn('ordinal', 'bigint', (column) => column.notNull())
          .addColumn('owner', 'text', (column) => column.notNull())
          .addColumn('workspace', 'text', (column) => column.notNull())
          .addColumn('idempotency_key', 'text')
          .addColumn('created_at', 'bigint', (column) => column.notNull());
      await object('strategies')
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('version', 'bigint', (column) => column.notNull())
        .addColumn('versions_given', 'bigint', (column) => column.notNull())
        .addColumn('definition', 'text', (column) => column.notNull())
        .addColumn('body_sha256', 'text', (column) => column.notNull())
        .execute();
      await object('bots')
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('strategy_id', 'text', (column) => column.notNull())
        .addColumn('symbols', 'text')
        .addColumn('filter', 'text', (column) => column.notNull())
        .addColumn('mode', 'text', (column) => column.notNull())
        .addColumn('status', 'text', (column) => column.notNull())
        .addColumn('updated_at', 'bigint', (column) => column.notNull())
        .addColumn('body_sha256', 'text', (column) => column.notNull())
        .execute();
      await object('backtests')
        .addColumn('place', 'text', (column) => column.notNull())
        .addColumn('state', 'text', (column) => column.notNull())
        .addColumn('asked', 'text', (column) => column.notNull())
        .addColumn('body_sha256', 'text')
        .addColumn('strategy', 'text', (column) => column.notNull())
        .addColumn('strategy_version', 'bigint')
        .addColumn('runner', 'bigint')
        .addColumn('attempts', 'bigint', (column) => column.notNull())
        .addColumn('started_at', 'bigint')
        .addColumn('finished_at', 'bigint')
        .addColumn('batches_done', 'bigint', (column) => column.notNull())
        .addColumn('batches_total', 'bigint')
        .addColumn('error', 'text')
        .addColumn('value', 'double precision')
        .addColumn('result', 'text')
        .execute();
      for (const table of ['strategies', 'bots', 'backtests']) {
        const place = table === 'backtests' ? ['place'] : [];
        await db.schema
          .createIndex(`${table}_of_owners`)
          .on(table)
          .columns([...place, 'owner', 'workspace', 'ordinal'])
          .execute();
        await db.schema
          .createIndex(`${table}_once`)
          .unique()
          .on(table)
          .columns([...place, 'owner', 'workspace', 'idempotency_key'])
          .execute();
      }
      await db.schema
        .createIndex('strategies_by_name')
        .unique()
        .on('strategies')
        .columns(['owner', 'workspace', 'name', 'version'])
        .execute();
    },
  },
  '004_export_attempts': {
    async up(db) {
      await db.schema
        .alterTable('export_jobs')
        .addColumn('attempts', 'bigint', (column) => column.notNull().defaultTo(0))
        .execute();
    },
  },
  '005_places': {
    async up(db) {
      await db.schema
        .createTable('places')
        .addColumn('place', 'text', (column) => column.primaryKey())
        .addColumn('archive', 'text', (column) => column.notNull())
        .addColumn('served_at', 'bigint', (column) => column.notNull())
        .execute();
    },
  },
  '006_backtest_names': {
    async up(db) {
      await db.schema.alterTable('backtests').renameColumn('asked', 'request').execute();
      // One row at a time, because a result can take a megabyte.
      for (const { id } of await db.selectFrom('backtests').select('id').where('result', 'is not', null).execute()) {
        const { result } = await db
          .selectFrom('backtests')
          .select('result')
          .where('id', '=', id)
          .executeTakeFirstOrThrow();
        await db
          .updateTable('backtests')
          .set({ result: renameResultFields(result) })
          .where('id', '=', id)
          .execute();
      }
    },
  },
  '007_key_secrets': {
    async up(db) {
      await db.schema
        .alterTable('keys')
        .addColumn('scopes', 'text', (column) => column.notNull().defaultTo('read export'))
        .execute();
      await db.schema.alterTable('keys').addColumn('datasets', 'text').execute();
      await db.schema
        .createTable('key_secrets')
        .addColumn('digest', 'text', (column) => column.primaryKey())
        .addColumn('key_id', 'text', (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .addColumn('expires_at', 'bigint')
        .execute();
      await db.schema.createIndex('key_secrets_of_keys').on('key_secrets').column('key_id').execute();
      await db
        .insertInto('key_secrets')
        .columns(['digest', 'key_id', 'created_at'])
        .expression(db.selectFrom('keys').select(['digest', 'id', 'created_at']))
        .execute();
      // A running service of an older version would ignore scopes. Without the digest it rejects every key.
      await db.schema.alterTable('keys').dropColumn('digest').execute();
    },
  },
  '008_key_usage': {
    async up(db) {
      await db.schema
        .createTable('key_usage')
        .addColumn('key_id', 'text', (column) => column.notNull())
        .addColumn('day', 'bigint', (column) => column.notNull())
        .addColumn('requests', 'bigint', (column) => column.notNull())
        .addColumn('bytes', 'bigint', (column) => column.notNull())
        .addPrimaryKeyConstraint('key_usage_key', ['key_id', 'day'])
        .execute();
    },
  },
  '009_revoked_tokens': {
    async up(db) {
      await db.schema
        .createTable('revoked_tokens')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('jti', 'text')
        .addColumn('user_id', 'text')
        .addColumn('issued_before', 'bigint')
        .addColumn('revoked_at', 'bigint', (column) => column.notNull())
        .addColumn('expires_at', 'bigint')
        .execute();
    },
  },
  '010_csv_safe': {
    async up(db) {
      await db.schema
        .alterTable('export_jobs')
        .addColumn('csv_safe', 'integer', (column) => column.notNull().defaultTo(0))
        .execute();
    },
  },
  '011_backtest_trades': {
    async up(db) {
      await db.schema.alterTable('backtests').addColumn('trades_rows', 'bigint').execute();
      await db.schema.alterTable('backtests').addColumn('trades_bytes', 'bigint').execute();
      await db.schema.alterTable('backtests').addColumn('trades_sha256', 'text').execute();
    },
  },
};

/**
 * Renames the fields of a saved result to the names of migration 006. Values and their order do not change. Returns a
 * result of another shape, such as a damaged one, unchanged, so that it does not prevent the migration of the others.
 */
function renameResultFields(resultJson: string): string {
  try {
    return toNewResultFields(resultJson);
  } catch (error) {
    if (error instanceof TypeError || error instanceof SyntaxError) return resultJson;
    throw error;
  }
}

/** @throws TypeError or SyntaxError for a result of another shape */
function toNewResultFields(resultJson: string): string {
  type Fields = Record<string, unknown>;
  const rename = (fields: unknown, names: Readonly<Record<string, string>>): Fields =>
    Object.fromEntries(Object.entries(fields as Fields).map(([name, value]) => [names[name] ?? name, value]));
  const result = rename(JSON.parse(resultJson), { asked: 'request' });
  const symbols = rename(result.symbols, { listed: 'items' });
  const trades = rename(result.trades, { listed: 'items' });
  const tradeNames = { paid: 'entry_price', got: 'exit_price', exit: 'exit_reason' };
  return JSON.stringify({
    ...result,
    summary: rename(result.summary, { traded: 'symbols_traded' }),
    symbols,
    trades: { ...trades, items: (trades.items as unknown[]).map((trade) => rename(trade, tradeNames)) },
    calibration: (result.calibration as unknown[]).map((row) => rename(row, { from: 'price_from', to: 'price_to' })),
    coverage: rename(result.coverage, { asked_ms: 'lifetime_ms', lacking_ms: 'gap_ms', lacking_share: 'gap_share' }),
  });
}

/** The tables are as they were when the migration was written, so none of our types applies. */
// biome-ignore lint/suspicious/noExplicitAny: what Kysely itself hands to a migration
type AnyDatabase = Kysely<any>;

export const migrationTable = 'oddslake_migrations';

const migratorTables = { migrationTableName: migrationTable, migrationLockTableName: 'oddslake_migrations_lock' };

/**
 * Applies missing migrations; waits for another process that does so at the same time.
 * @throws UsageError if a newer oddslake has migrated the database
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
 * @throws UsageError if a newer oddslake has migrated it
 */
export function countMissingMigrations(
  applied: readonly string[],
  known: Readonly<Record<string, Migration>> = migrations,
): number {
  const unknown = applied.find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return Object.keys(known).length - applied.length;
  throw new UsageError(
    `The service's database was written by a newer oddslake (migration ${unknown}). Use that version, or another database.`,
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

/** Names of the applied migrations. */
export async function listAppliedMigrations(db: AnyDatabase): Promise<string[]> {
  const known = await db.introspection.getTables({ withInternalKyselyTables: true });
  if (!known.some(({ name }) => name === migratorTables.migrationTableName)) return [];
  const { rows } = await sql<{
    name: string;
  }>`select name from ${sql.table(migratorTables.migrationTableName)}`.execute(db);
  return rows.map(({ name }) => name);
}
