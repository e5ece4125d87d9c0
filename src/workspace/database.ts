import { Kysely, SqliteDialect } from 'kysely';
import { openStatements } from '../state/statements.ts';

/** Tables of the service's database. Times are epoch milliseconds. */
export interface Tables {
  keys: {
    id: string;
    name: string;
    /** sha256 of the secret, in hex: the secret itself is shown once and kept nowhere. */
    digest: string;
    created_at: number;
    expires_at: number | null;
    revoked_at: number | null;
    requests_per_minute: number | null;
  };
}

export type WorkspaceDatabase = Kysely<Tables>;

/** Opens the database in the SQLite file at `path`, made if need be. */
export async function openWorkspaceDatabase(path: string): Promise<WorkspaceDatabase> {
  const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database: openStatements(path) }) });
  await db.schema
    .createTable('keys')
    .ifNotExists()
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('digest', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('expires_at', 'bigint')
    .addColumn('revoked_at', 'bigint')
    .addColumn('requests_per_minute', 'bigint')
    .execute();
  return db;
}
