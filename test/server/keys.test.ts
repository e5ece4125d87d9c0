import { expect, test } from 'vitest';
import { systemClock, systemRandomBytes } from '../../src/base/system.ts';
import { openWorkspace } from '../../src/server/workspace/workspace.ts';
import { now, opened } from '../archive/scratch.ts';
import { serving } from './serving.ts';
import { administer, freshDatabase, needsPostgres, overEachDatabase } from './workspace/databases.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const plain = { name: 'n', expiresAt: null, requestsPerMinute: null };

test('describes the key of a request; a missing or invalid one gives 401 with a challenge', async () => {
  const { url, json, workspace } = await serving(opened());
  const { id, key } = await workspace.createKey({ ...plain, name: 'mine', requestsPerMinute: 5 }, now);
  const ask = (authorization: string) => json('/api/v1/me', { headers: { authorization } });
  const good = await ask(`bEARER   ${key} `);
  expect([good.status, good.body]).toEqual([
    200,
    {
      kind: 'key',
      key: { id, name: 'mine', datasets: null },
      scopes: ['read', 'export'],
      requests_per_minute: 5,
      generated_at: now,
    },
  ]);
  expect(JSON.stringify(good.body)).not.toContain(key.slice(-43));
  for (const [authorization, challenge] of [
    ['', 'Bearer'],
    ...[
      key,
      `Basic ${key}`,
      'Bearer',
      'Bearer ',
      `Bearer ${key} x`,
      `Bearer ${key}A`,
      `Token ${key}`,
      'Bearer \u00e9',
    ].map((text) => [text, 'Bearer error="invalid_token"'] as const),
  ]) {
    const { status, headers, body } = await ask(authorization!);
    expect([status, headers.get('www-authenticate')], authorization).toEqual([401, challenge]);
    expect(headers.get('content-type')).toContain('application/problem+json');
    expect(body).toMatchObject({ status: 401, title: 'Credential missing or invalid' });
    expect(JSON.stringify(body)).not.toContain(key);
  }
  // A key in the URL would be logged everywhere.
  for (const name of ['key', 'api_key', 'access_token'])
    expect((await fetch(`${url}/api/v1/me?${name}=${key}`)).status).toBe(401);
  expect((await fetch(`${url}/api/v1/me`, { headers: { 'x-api-key': key } })).status).toBe(401);
});

overEachDatabase((kind) => {
  test('a running service accepts keys of another process, and rejects those it revokes', async () => {
    const database = await freshDatabase(kind);
    const clock = steppedClock(now);
    const { url } = await serving(opened(), { database, clock });
    const cli = await openWorkspace({
      location: database,
      tokens: null,
      randomBytes: systemRandomBytes,
      clock: systemClock,
      log: silent,
    });
    const { id, key } = await cli.createKey(plain, now);
    const status = async () =>
      (await fetch(`${url}/api/v1/me`, { headers: { authorization: `Bearer ${key}` } })).status;
    expect(await status()).toBe(200);
    await cli.revokeKeys([id], now);
    await cli.close();
    clock.forward(1_000);
    expect(await status()).toBe(401);
  });
});

test('gives 503 without details while the database is unavailable, and recovers', needsPostgres, async () => {
  const database = await freshDatabase('postgres');
  const clock = steppedClock(now);
  const logged: string[] = [];
  const log = { ...silent, error: (facts: { err?: Error }) => void logged.push(String(facts.err?.stack)) };
  const { json } = await serving(opened(), { database, clock, log });
  expect((await json('/api/v1/me')).status).toBe(200);
  const url = new URL((database as { url: string }).url);
  const name = url.pathname.slice(1);
  await administer(`alter database ${name} with allow_connections false`);
  await administer(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
  // A key that was used lately stays valid for five minutes.
  clock.forward(299_999);
  expect((await json('/api/v1/me')).status).toBe(200);
  clock.forward(1);
  for (const _ of [1, 2]) {
    const { status, headers, body } = await json('/api/v1/me');
    expect([status, headers.get('retry-after'), body.title]).toEqual([503, '5', 'Service unavailable']);
    expect(JSON.stringify(body)).not.toMatch(/127\.0\.0\.1|postgres|t_[0-9a-f]{8}/i);
  }
  expect((await json('/healthz')).status).toBe(200);
  expect(logged.join()).toMatch(/PostgreSQL at 127\.0\.0\.1:\d+/);
  expect(logged.join()).not.toContain(url.password);
  await administer(`alter database ${name} with allow_connections true`);
  expect((await json('/api/v1/me')).status).toBe(200);
});
