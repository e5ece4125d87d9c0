import { expect, onTestFinished, test } from 'vitest';
import { UsageError } from '../../../src/base/errors.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { systemClock, systemRandomBytes } from '../../../src/base/system.ts';
import { type DatabaseLocation, WorkspaceUnavailableError } from '../../../src/server/workspace/database-url.ts';
import { openWorkspace, type Workspace } from '../../../src/server/workspace/workspace.ts';
import { inspectWorkspace } from '../../../src/server/workspace/workspace-database.ts';
import { waitFor } from '../../harness/limits.ts';
import { administer, freshDatabase, type Kind, overEachDatabase } from './databases.ts';
import { steppedClock } from './stepped-clock.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const nowMs = Date.UTC(2026, 5, 4, 12);

async function workspaceAt(location: DatabaseLocation, clock: Clock): Promise<Workspace> {
  return openWorkspace({ location, tokens: null, randomBytes: systemRandomBytes, clock, log: silent });
}

const plain = { name: 'n', expiresAt: null, requestsPerMinute: null };

/** Two processes with one database. */
async function twoProcesses(kind: Kind) {
  const location = await freshDatabase(kind);
  const clock = steppedClock(nowMs);
  const [service, cli] = [await workspaceAt(location, clock), await workspaceAt(location, systemClock)];
  onTestFinished(async () => {
    await service.close();
    await cli.close();
  });
  return { location, clock, service, cli };
}

overEachDatabase((kind) => {
  test('an inspection lists the keys that are not revoked, and changes nothing', async () => {
    const location = await freshDatabase(kind);
    expect(await inspectWorkspace(location)).toBeNull();
    expect(await inspectWorkspace(location)).toBeNull();
    const workspace = await workspaceAt(location, steppedClock(nowMs));
    const expires_at = nowMs + 1;
    const { id } = await workspace.createKey({ ...plain, expiresAt: expires_at }, nowMs);
    const { id: revoked } = await workspace.createKey(plain, nowMs);
    await workspace.revokeKeys([revoked], nowMs);
    expect(await inspectWorkspace(location)).toEqual([{ id, name: 'n', expires_at }]);
    await workspace.close();
  });

  test('a key of another process is valid at once, and invalid a second after that revokes it', async () => {
    const { clock, service, cli } = await twoProcesses(kind);
    const { id, key } = await cli.createKey({ ...plain, name: 'Zoë 🚀', requestsPerMinute: 7 }, nowMs);
    const holder = {
      kind: 'key',
      id,
      name: 'Zoë 🚀',
      requestsPerMinute: 7,
      scopes: ['read', 'export'],
      datasets: null,
    };
    expect(await service.authenticate(key, nowMs)).toEqual(holder);
    await cli.revokeKeys([id], nowMs);
    clock.forward(999);
    expect(await service.authenticate(key, nowMs)).toEqual(holder);
    clock.forward(1);
    expect(await service.authenticate(key, nowMs)).toBeNull();
  });

  test('concurrent requests share one query, and cached keys need none for a second', async () => {
    const { location, clock, service, cli } = await twoProcesses(kind);
    const { key } = await cli.createKey(plain, nowMs);
    expect(await Promise.all(Array.from({ length: 50 }, () => service.authenticate(key, nowMs)))).toHaveLength(50);
    await cli.db.schema.alterTable('keys').renameTo('elsewhere').execute();
    // Without the table every query would fail.
    expect(await service.authenticate(key, nowMs)).toMatchObject({ kind: 'key' });
    expect(await service.authenticate(`${key.slice(0, -3)}abc`, nowMs)).toBeNull();
    clock.forward(1_000);
    await expect(service.authenticate(key, nowMs)).rejects.toThrow();
    expect(location.kind).toBe(kind);
  });

  test('a key is valid until its expiry time, to the millisecond', async () => {
    const { service, cli } = await twoProcesses(kind);
    const { key } = await cli.createKey({ ...plain, expiresAt: nowMs + 1_000 }, nowMs);
    expect(await service.authenticate(key, nowMs + 999)).not.toBeNull();
    expect(await service.authenticate(key, nowMs + 1_000)).toBeNull();
  });

  test('rejects texts that are not keys', async () => {
    const { service, cli } = await twoProcesses(kind);
    const { id, key } = await cli.createKey(plain, nowMs);
    const other = await cli.createKey(plain, nowMs);
    const secret = key.slice(-43);
    for (const text of [
      '',
      'olk_',
      `olk_${id}_`,
      `olk_${id}_${'A'.repeat(43)}`,
      secret,
      id,
      `${key}A`,
      key.slice(0, -1),
      `${key}\n`,
      ` ${key}`,
      key.toUpperCase(),
      `olk_${other.id}_${secret}`,
      `olk_${"' or '1'='1"}_${secret}`,
      `olk_${'x'.repeat(12)}_${secret}`,
    ])
      expect(await service.authenticate(text, nowMs), JSON.stringify(text)).toBeNull();
    expect(await service.authenticate(key, nowMs)).toMatchObject({ id });
  });

  test('lists keys with their state and last use, without secrets', async () => {
    const { clock, service, cli } = await twoProcesses(kind);
    const first = await cli.createKey({ ...plain, name: 'first' }, nowMs);
    const second = await cli.createKey({ ...plain, name: 'second', expiresAt: nowMs + 1 }, nowMs);
    const third = await cli.createKey({ ...plain, name: 'third' }, nowMs + 2);
    await cli.revokeKeys([third.id], nowMs + 3);
    await service.authenticate(first.key, nowMs + 4);
    clock.forward(5_000);
    await service.authenticate(first.key, nowMs + 59_999);
    await service.close();
    const listed = await cli.listKeys(nowMs + 59_999);
    const row = {
      expires_at: null,
      revoked_at: null,
      last_used_at: null,
      requests_per_minute: null,
      scopes: ['read', 'export'],
      datasets: null,
    };
    const secrets = (at: number) => [{ created_at: at, expires_at: null }];
    expect(new Set(listed)).toEqual(
      new Set([
        {
          ...row,
          id: third.id,
          name: 'third',
          state: 'revoked',
          created_at: nowMs + 2,
          revoked_at: nowMs + 3,
          secrets: secrets(nowMs + 2),
        },
        // With a resolution of a minute, the second use is not recorded.
        {
          ...row,
          id: first.id,
          name: 'first',
          state: 'active',
          created_at: nowMs,
          last_used_at: nowMs + 4,
          secrets: secrets(nowMs),
        },
        {
          ...row,
          id: second.id,
          name: 'second',
          state: 'expired',
          created_at: nowMs,
          expires_at: nowMs + 1,
          secrets: secrets(nowMs),
        },
      ]),
    );
    expect(listed[0]!.name).toBe('third');
    const stored = JSON.stringify([
      listed,
      await cli.db.selectFrom('keys').selectAll().execute(),
      await cli.db.selectFrom('key_secrets').selectAll().execute(),
    ]);
    for (const { key } of [first, second, third]) expect(stored).not.toContain(key.slice(-43));
  });

  test('revoking twice keeps the first time; an unknown ID revokes none', async () => {
    const { cli } = await twoProcesses(kind);
    const { id, key } = await cli.createKey(plain, nowMs);
    const other = await cli.createKey(plain, nowMs);
    const wrong = cli.revokeKeys([other.id, 'ffffffffffff'], nowMs);
    await expect(wrong).rejects.toThrow(UsageError);
    expect(await cli.revokeKeys([id], nowMs + 1)).toEqual([{ id, name: 'n', revoked_at: nowMs + 1 }]);
    expect(await cli.revokeKeys([key, id], nowMs + 2)).toEqual([{ id, name: 'n', revoked_at: nowMs + 1 }]);
    expect((await cli.listKeys(nowMs)).find((each) => each.id === other.id)!.state).toBe('active');
  });

  test('detects whether there is a valid key', async () => {
    const { cli } = await twoProcesses(kind);
    expect(await cli.hasGoodKey(nowMs)).toBe(false);
    await cli.createKey({ ...plain, expiresAt: nowMs + 5 }, nowMs);
    expect([await cli.hasGoodKey(nowMs + 4), await cli.hasGoodKey(nowMs + 5)]).toEqual([true, false]);
    const { id } = await cli.createKey(plain, nowMs);
    expect(await cli.hasGoodKey(nowMs + 5)).toBe(true);
    await cli.revokeKeys([id], nowMs);
    expect(await cli.hasGoodKey(nowMs + 5)).toBe(false);
  });

  test.each(['', ' ', 'a\nb', 'a\u0000', 'x'.repeat(201)])('rejects the key name %j', async (name) => {
    const { cli } = await twoProcesses(kind);
    await expect(cli.createKey({ ...plain, name }, nowMs)).rejects.toThrow(UsageError);
    await expect(cli.createKey({ ...plain, expiresAt: nowMs }, nowMs)).rejects.toThrow(UsageError);
  });

  // A SQLite file does not become unavailable.
  if (kind !== 'postgres') return;
  test('while the database is unavailable, keys that were read lately stay valid for five minutes', async () => {
    const { location, clock, service, cli } = await twoProcesses(kind);
    const { id, key } = await cli.createKey(plain, nowMs);
    const expiring = await cli.createKey({ ...plain, expiresAt: nowMs + 5_000 }, nowMs);
    const unread = await cli.createKey(plain, nowMs);
    expect(await service.authenticate(key, nowMs)).not.toBeNull();
    expect(await service.authenticate(expiring.key, nowMs)).not.toBeNull();
    const name = new URL((location as { url: string }).url).pathname.slice(1);
    await administer(`alter database ${name} with allow_connections false`);
    await administer(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
    clock.forward(1_000);
    expect(await service.authenticate(key, nowMs)).toMatchObject({ id });
    expect(await service.authenticate(expiring.key, nowMs + 4_999)).not.toBeNull();
    expect(await service.authenticate(expiring.key, nowMs + 5_000)).toBeNull();
    expect(await service.authenticate(`${key.slice(0, -3)}abc`, nowMs)).toBeNull();
    const gone = (await service.authenticate(unread.key, nowMs).catch((error: unknown) => error)) as Error;
    expect(gone).toBeInstanceOf(WorkspaceUnavailableError);
    expect(`${gone.stack} ${String(gone.cause)}`).not.toContain(new URL((location as { url: string }).url).password);
    clock.forward(298_999);
    expect(await service.authenticate(key, nowMs)).toMatchObject({ id });
    clock.forward(1);
    await expect(service.authenticate(key, nowMs)).rejects.toThrow(WorkspaceUnavailableError);
    await administer(`alter database ${name} with allow_connections true`);
    expect(await service.authenticate(key, nowMs)).toMatchObject({ kind: 'key' });
    expect(await service.authenticate(unread.key, nowMs)).toMatchObject({ kind: 'key' });
  });

  test('a key that was revoked while the database was unavailable is invalid soon after it is back', async () => {
    const { location, clock, service, cli } = await twoProcesses(kind);
    const { id, key } = await cli.createKey(plain, nowMs);
    expect(await service.authenticate(key, nowMs)).not.toBeNull();
    const name = new URL((location as { url: string }).url).pathname.slice(1);
    await administer(`alter database ${name} with allow_connections false`);
    await administer(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
    clock.forward(60_000);
    expect(await service.authenticate(key, nowMs)).not.toBeNull();
    await administer(`alter database ${name} with allow_connections true`);
    // Its connection was terminated, and its pool may not have noticed yet.
    await waitFor(
      () =>
        cli.revokeKeys([id], nowMs).then(
          () => true,
          () => false,
        ),
      'a connection to the database',
    );
    clock.forward(1_000);
    await waitFor(async () => (await service.authenticate(key, nowMs)) === null, 'a key that is revoked');
  });
});
