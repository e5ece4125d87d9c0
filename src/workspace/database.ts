import { Kysely } from 'kysely';
import type { ExportJobRow } from './export-jobs.ts';
import type { Location } from './location.ts';
import { migrate } from './migrate.ts';
import { migrations } from './migrations.ts';
import { postgresDialect } from './postgres.ts';
import { sqliteDialect } from './sqlite.ts';

/** Tables of the service's database, as migrations.ts makes them. Times are epoch milliseconds. */
export interface Tables {
  keys: {
    id: string;
    name: string;
    /** sha256 of the secret, in hex: the secret itself is shown once and kept nowhere. */
    digest: string;
    created_at: number;
    expires_at: number | null;
    revoked_at: number | null;
    /** To the minute, not to the request. */
    last_used_at: number | null;
    requests_per_minute: number | null;
  };
  export_jobs: ExportJobRow;
}

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
