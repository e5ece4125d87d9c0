import { existsSync } from 'node:fs';
import { Kysely } from 'kysely';
import { exitCodes, OddslakeError } from '../core/errors.ts';
import { lookInto } from '../state/inspect.ts';
import type { Location } from './database-url.ts';
import { migrationsIn, migrationTable } from './migrate.ts';
import { migrations } from './migrations.ts';
import { postgresDialect } from './postgres.ts';

/**
 * How many of our migrations the service's database lacks; null where its file is not there. Nothing is made or changed.
 * @throws OddslakeError where it cannot be asked, or is a newer oddslake's
 */
export async function lookAtWorkspace(location: Location): Promise<number | null> {
  if (location.kind === 'sqlite' && !existsSync(location.path)) return null;
  const done = location.kind === 'sqlite' ? inFile(location.path) : await inPostgres(location.url);
  const unknown = done.find((name) => !Object.hasOwn(migrations, name));
  if (unknown !== undefined)
    throw new OddslakeError(
      exitCodes.usage,
      `The service's database is of a newer oddslake (${unknown}): use that one, or another database.`,
    );
  return Object.keys(migrations).length - done.length;
}

const inFile = (path: string): string[] =>
  lookInto(path, (db) =>
    db.one('select 1 from sqlite_master where name = ?', migrationTable) === undefined
      ? []
      : db.all<{ name: string }>(`select name from ${migrationTable}`).map(({ name }) => name),
  );

async function inPostgres(url: string): Promise<string[]> {
  const db = new Kysely<object>({ dialect: await postgresDialect(url) });
  try {
    return await migrationsIn(db);
  } finally {
    await db.destroy();
  }
}
