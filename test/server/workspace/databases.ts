import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { describe, onTestFinished } from 'vitest';
import type { DatabaseLocation } from '../../../src/server/workspace/database-url.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { isWithoutPostgres, skipWithReason, withoutPostgres } from '../../harness/needs.ts';

// Databases for the workspace tests: always SQLite, and PostgreSQL if test/postgres.sh has started it.

/** A PostgreSQL server in which these tests may create and drop databases. */
export const postgresUrl = process.env.ODDSLAKE_TEST_POSTGRES ?? null;

if (postgresUrl === null && process.env.CI === 'true' && !isWithoutPostgres)
  throw new Error('ODDSLAKE_TEST_POSTGRES is not set, and CI does without no test: run test/postgres.sh COMMAND');

/** Options of tests that need PostgreSQL. */
export const needsPostgres = skipWithReason(
  postgresUrl !== null
    ? null
    : isWithoutPostgres
      ? withoutPostgres
      : 'no PostgreSQL: test/postgres.sh COMMAND runs one',
);

export type Kind = DatabaseLocation['kind'];

/** Runs the same tests on each database. */
export function overEachDatabase(tests: (kind: Kind) => void): void {
  describe('over SQLite', () => tests('sqlite'));
  describe('over PostgreSQL', needsPostgres, () => tests('postgres'));
}

/** A new empty database, which is dropped when the test ends. */
export async function freshDatabase(kind: Kind): Promise<DatabaseLocation> {
  if (kind === 'sqlite') return { kind, path: `${scratchFolder()}/service.sqlite` };
  const name = `t_${randomUUID().replaceAll('-', '')}`;
  await administer(`create database ${name}`);
  onTestFinished(() => administer(`drop database if exists ${name} with (force)`));
  const url = new URL(postgresUrl!);
  url.pathname = `/${name}`;
  return { kind, url: url.href };
}

/** Runs an administrative statement on the server. */
export async function administer(sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: postgresUrl! });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

export const urlOf = (location: DatabaseLocation): string =>
  location.kind === 'sqlite' ? `sqlite:${location.path}` : location.url;
