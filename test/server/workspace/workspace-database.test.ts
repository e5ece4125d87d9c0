import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, globSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { OddslakeError, UsageError } from '../../../src/base/errors.ts';
import { type DatabaseLocation, parseDatabaseUrl } from '../../../src/server/workspace/database-url.ts';
import { migrations } from '../../../src/server/workspace/migrations.ts';
import { inspectWorkspace, openWorkspaceDatabase } from '../../../src/server/workspace/workspace-database.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { hashTree } from '../../harness/hash-tree.ts';
import { freshDatabase, overEachDatabase } from './databases.ts';

overEachDatabase((kind) => {
  test('creates the tables on first use and keeps them', async () => {
    const location = await freshDatabase(kind);
    const first = await openWorkspaceDatabase(location);
    const row = {
      id: 'a',
      name: 'n',
      scopes: 'read',
      datasets: null,
      created_at: 8_640_000_000_000_000,
      expires_at: null,
    };
    await first
      .insertInto('keys')
      .values({ ...row, revoked_at: null, last_used_at: null, requests_per_minute: 7 })
      .execute();
    await first.destroy();
    const second = await openWorkspaceDatabase(location);
    const read = await second.selectFrom('keys').selectAll().executeTakeFirstOrThrow();
    // Epoch milliseconds are numbers with every driver.
    expect(read).toEqual({ ...row, revoked_at: null, last_used_at: null, requests_per_minute: 7 });
    const counted = await second
      .selectFrom('keys')
      .select((e) => e.fn.countAll<number>().as('n'))
      .executeTakeFirst();
    expect(counted).toEqual({ n: 1 });
    await second.destroy();
  });

  test('four processes can open a new database at once', async () => {
    const location = await freshDatabase(kind);
    const program = new URL('./open-once.ts', import.meta.url).pathname;
    const ends = Array.from({ length: 4 }, async () => {
      const child = spawn(process.execPath, [program, JSON.stringify(location)], { stdio: ['ignore', 'pipe', 'pipe'] });
      let reported = '';
      child.stderr.on('data', (text) => {
        reported += String(text);
      });
      const [code] = await once(child, 'close');
      return code === 0 ? 'opened' : reported;
    });
    expect(await Promise.all(ends)).toEqual(['opened', 'opened', 'opened', 'opened']);
    const db = await openWorkspaceDatabase(location);
    const { rows } = await sql<{ name: string }>`select name from oddslake_migrations order by name`.execute(db);
    expect(rows.map(({ name }) => name)).toEqual(Object.keys(migrations));
    await db.destroy();
  });

  test.each(['001_keys', '999_later'])(
    'refuses a database with the migration %s, and changes nothing',
    async (name) => {
      const location = await freshDatabase(kind);
      const db = await openWorkspaceDatabase(location);
      await sql`insert into oddslake_migrations values (${name}, '2030-01-01T00:00:00.000Z')`.execute(db);
      await db.destroy();
      const hash = () => (location.kind === 'sqlite' ? hashTree(dirname(location.path)) : null);
      const before = hash();
      for (const open of [openWorkspaceDatabase, inspectWorkspace]) {
        const refused = await open(location).catch((error: unknown) => error);
        expect(refused).toBeInstanceOf(UsageError);
        expect((refused as Error).message).toContain(`another oddslake (migration ${name})`);
      }
      expect(hash()).toEqual(before);
    },
  );

  test('concurrent queries do not join a transaction', async () => {
    const db = await openWorkspaceDatabase(await freshDatabase(kind));
    const key = (id: string) => ({
      id,
      name: id,
      scopes: 'read',
      datasets: null,
      created_at: 1,
      expires_at: null,
      revoked_at: null,
      last_used_at: null,
      requests_per_minute: null,
    });
    const broken = db.transaction().execute(async (inside) => {
      await inside.insertInto('keys').values(key('inside')).execute();
      throw new Error('on purpose');
    });
    await Promise.allSettled([
      broken,
      ...[1, 2, 3].map((n) =>
        db
          .insertInto('keys')
          .values(key(`k${n}`))
          .execute(),
      ),
    ]);
    const left = await db.selectFrom('keys').select('id').orderBy('id').execute();
    expect(left.map(({ id }) => id)).toEqual(['k1', 'k2', 'k3']);
    await db.destroy();
  });
});

test('reports an unreachable database at once, without its password', async () => {
  const secret = 'hunter2-very-secret';
  const cases: [DatabaseLocation, RegExp][] = [
    [
      { kind: 'postgres', url: `postgres://me:${secret}@127.0.0.1:9/none` },
      /PostgreSQL at 127\.0\.0\.1:9.*ECONNREFUSED/,
    ],
    [{ kind: 'postgres', url: `postgres://me@127.0.0.1:9/none?password=${secret}` }, /Cannot reach/],
    [{ kind: 'sqlite', path: `${scratchFolder()}/no/such/folder.sqlite` }, /Cannot open.*folder/],
  ];
  for (const [location, sentence] of cases) {
    const error = (await openWorkspaceDatabase(location).catch((thrown: unknown) => thrown)) as OddslakeError;
    expect(error).toBeInstanceOf(OddslakeError);
    expect([error.exitCode, error.message]).toEqual([1, expect.stringMatching(sentence)]);
    expect(`${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`).not.toContain(secret);
  }
});

test('an invalid URL is a usage error that does not repeat it', async () => {
  const secret = 'hunter2-very-secret';
  for (const url of [
    `mysql://me:${secret}@host/db`,
    secret,
    `postgres://me:${secret}@host:port/db`,
    `postgres://me:${secret}@[host/db`,
    // A special character in a password ends the host; the rest must not become the name of a database.
    `postgres://me:/${secret}@host/db`,
    `postgres://me:12/${secret}@host/db`,
    `postgres://me:@12/${secret}@host/db`,
    `postgres://me:12?${secret}@host/db`,
    `postgres://me:#${secret}@host/db`,
    'sqlite:',
    'sqlite:  ',
    'sqlite://host',
  ]) {
    const opened = async () => openWorkspaceDatabase(parseDatabaseUrl(url, 'unused'));
    const error = (await opened().catch((thrown: unknown) => thrown)) as UsageError;
    expect(error, url).toBeInstanceOf(UsageError);
    expect(error.message).toMatch(/postgres:\/\/user:password@host\/database/);
    expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain(secret);
  }
});

test('creates the file for its owner only, and keeps the mode of an existing one', async () => {
  const folder = scratchFolder();
  const modesOf = async (path: string): Promise<string[]> => {
    const db = await openWorkspaceDatabase({ kind: 'sqlite', path });
    const modes = globSync(`${path}*`).map((each) => (statSync(each).mode & 0o777).toString(8));
    await db.destroy();
    return [...new Set(modes)];
  };
  expect(await modesOf(join(folder, 'new.sqlite'))).toEqual(['600']);
  const known = join(folder, 'known.sqlite');
  writeFileSync(known, '');
  chmodSync(known, 0o640);
  expect(await modesOf(known)).toEqual(['640']);
});
