import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { openWorkspaceDatabase } from '../../src/server/workspace/workspace-database.ts';
import { opened } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { freshDatabase, overEachDatabase, urlOf } from '../server/workspace/databases.ts';
import { type Ended, expectDone, folder, startLongRunning } from './lake.ts';
import { run } from './run-program.ts';

const secret = 'a secret of more than 32 characters, for tests';

/** An empty archive. */
function lake(): string {
  const archive = opened({ root: folder() });
  archive.close();
  return archive.layout.root;
}

/** The service in its own process, and its standard error. */
async function served(output: string, env: Record<string, string> = {}, flags: readonly string[] = []) {
  const args = ['serve', '--output', output, '--set', 'service.port=0', '--json', ...flags];
  const { first, printed, child, ended } = await startLongRunning(args, env);
  const { url } = JSON.parse(first) as { url: string };
  const status = async (credential: string, path = '/api/v1/me') =>
    (await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${credential}` } })).status;
  return { url, printed, status, child, ended };
}

const jsonOf = <T>({ code, stdout, stderr }: Ended): T => {
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as T;
};

test('prints a key once, lists it without its secret, and rejects it once revoked', async () => {
  const output = lake();
  const keys = (...args: string[]) => run(['keys', ...args, '--output', output]);
  expect((await keys('list')).stdout).toMatch(
    /^no keys\. Create one: \S*bin\/oddslake keys create --output \S+ --name NAME\n$/,
  );
  const service = await served(output);
  await waitFor(
    () => service.printed.stderr.includes('create one with oddslake keys create --name NAME'),
    'the word on how to make a key',
  );

  const made = await keys('create', '--name', 'my laptop', '--expires', '2099-01-01', '--requests-per-minute', '1200');
  expect([made.code, made.stdout]).toEqual([0, expect.stringMatching(/^olk_[0-9a-f]{12}_[\w-]{43}\n$/)]);
  const key = made.stdout.trim();
  const id = key.slice(4, 16);
  expect(made.stderr).toBe(`key ${id} expires 2099-01-01T00:00:00Z; store it now: it is not shown again\n`);
  expect(await service.status(key)).toBe(200);

  const other = await keys('create', '--name', 'other', '--json', '--quiet');
  expect(other.stderr).toBe('');
  const second = jsonOf<Record<string, unknown>>(other);
  expect(Object.keys(second).join(' ')).toBe('id name key scopes datasets created_at expires_at requests_per_minute');

  const listed = await keys('list');
  const lines = listed.stdout.trimEnd().split('\n');
  expect(lines).toHaveLength(2 + 2 + 1);
  expect(lines.find((line) => line.startsWith(id))).toMatch(
    /active until 2099-01-01T00:00:00Z {2}my laptop {2}\d{4}-\d\d-\d\d {2}\d{4}-\d\d-\d\dT\d\d:\d\dZ {2}1,200 +all$/,
  );
  expect(lines.at(-1)).toBe('2 keys, 2 active');
  const inJson = jsonOf<{ keys: Record<string, unknown>[]; count: number }>(await keys('list', '--json'));
  expect(inJson.count).toBe(2);
  expect(Object.keys(inJson.keys[0]!).join(' ')).toBe(
    'id name state scopes datasets created_at expires_at revoked_at last_used_at requests_per_minute ' + 'secrets',
  );
  for (const text of [listed.stdout, JSON.stringify(inJson)]) expect(text).not.toContain(key.slice(-43));

  const revoked = await keys('revoke', id);
  expect([revoked.code, revoked.stdout]).toEqual([0, expect.stringMatching(/^key \w+ \(my laptop\) was revoked at /)]);
  const again = jsonOf<{ revoked: { id: string }[] }>(await keys('revoke', key, id, '--json'));
  expect(again.revoked.map((each) => each.id)).toEqual([id]);
  await waitFor(async () => (await service.status(key)) === 401, 'the refusal of the key');
  expect(await service.status(String(second.key))).toBe(200);
});

test('a key has the given permissions, and keeps them when it is rotated', async () => {
  const output = lake();
  const keys = (...args: string[]) => run(['keys', ...args, '--output', output]);
  const service = await served(output);
  const flags = ['--scope', 'read', '--dataset', 'ticks', '--dataset', 'candles_1h', '--expires', '6d'];
  const made = jsonOf<Record<string, unknown>>(await keys('create', '--name', 'chart', ...flags, '--json'));
  expect(made).toMatchObject({ scopes: ['read'], datasets: ['ticks', 'candles_1h'] });
  expect(Number(made.expires_at) - Number(made.created_at)).toBe(6 * 86_400_000);
  const first = String(made.key);
  const permits = async (key: string) => [
    await service.status(key),
    await service.status(key, '/api/v1/historical/ticks?limit=1'),
    await service.status(key, '/api/v1/historical/markets?limit=1'),
    await service.status(key, '/api/v1/export/files/symbols/part-00.parquet'),
  ];
  expect(await permits(first)).toEqual([200, 200, 403, 403]);

  const rotated = await keys('rotate', 'chart', '--overlap', '2h', '--expires', '2099-01-01');
  expect([rotated.code, rotated.stdout]).toEqual([0, expect.stringMatching(/^olk_[0-9a-f]{12}_[\w-]{43}\n$/)]);
  expect(rotated.stderr).toMatch(/has a new secret; store it now: it is not shown again; the earlier secret ends 20/);
  const second = rotated.stdout.trim();
  for (const key of [second, first]) expect(await service.status(key)).toBe(200);
  expect(await permits(second)).toEqual([200, 200, 403, 403]);
  const listed = await keys('list');
  expect(listed.stdout).toMatch(/earlier secret ends/);
  expect(listed.stdout).toMatch(/read, ticks, candles_1h {2}20\d\d-/);
  expect(listed.stdout).not.toContain('expiring');

  const ended = jsonOf<Record<string, unknown>>(
    await keys('rotate', 'chart', '--overlap', '0s', '--expires', '7d', '--json', '--quiet'),
  );
  expect(Object.keys(ended)).toEqual(['id', 'name', 'key', 'expires_at', 'previous_until']);
  for (const key of [first, second])
    await waitFor(async () => (await service.status(key)) === 401, 'the refusal of an earlier secret');
  expect(await service.status(String(ended.key))).toBe(200);
  expect((await keys('list')).stdout).toMatch(/1 key, 1 active, 1 expiring within 7 days\n$/);
  for (const key of [first, second, String(ended.key)]) expect(service.printed.stderr).not.toContain(key.slice(-43));
});

test('shows the usage of keys that a stopped service has counted', async () => {
  const output = lake();
  const keys = (...args: string[]) => run(['keys', ...args, '--output', output]);
  const service = await served(output);
  const { key, id } = jsonOf<{ key: string; id: string }>(await keys('create', '--name', 'busy', '--json'));
  await keys('create', '--name', 'idle');
  for (let i = 0; i < 3; i++) expect(await service.status(key)).toBe(200);
  service.child.kill('SIGTERM');
  await expectDone(service.ended);
  const all = await keys('usage');
  expect(all.stdout).toMatch(new RegExp(`^${id} {2}busy +3 +[\\d.]+ kB +20\\S+Z$`, 'm'));
  expect(all.stdout).toMatch(/2 keys, 3 requests\n$/);
  const day = new Date().toISOString().slice(0, 10);
  const reported = jsonOf<{ since: number; keys: { days: { day: string; bytes: number }[] }[] }>(
    await keys('usage', 'busy', '--since', day, '--json'),
  );
  const [counted] = reported.keys;
  expect(Object.keys(counted!)).toEqual(['id', 'name', 'last_used_at', 'requests', 'bytes', 'days']);
  expect(reported).toMatchObject({
    since: Date.parse(day),
    count: 1,
    keys: [{ id, requests: 3, days: [{ day, requests: 3 }] }],
  });
  expect((await keys('usage', 'busy', '--since', '2099-01-01')).stdout).toMatch(/0 days, 0 requests\n$/);
  expect((await keys('usage', key)).stdout).toMatch(/1 day, 3 requests\n$/);
});

test('issues tokens signed with the service secret, for thirty days by default', async () => {
  const env = { ODDSLAKE_TOKEN_SECRET: secret };
  const service = await served(lake(), env);
  const issue = (...args: string[]) => run(['tokens', 'issue', ...args], env);
  const plain = await issue('--user', 'alice');
  expect([plain.code, plain.stderr]).toEqual([
    0,
    expect.stringMatching(
      /^token (\w+) of user "alice", expires \S+; to end it earlier: \S+oddslake tokens revoke (?:--\w+ \S+ )*\1\n$/,
    ),
  ]);
  const reported = jsonOf<Record<string, unknown>>(
    await issue(
      '--user',
      'alice',
      '--workspace',
      'trading',
      '--scope',
      'research',
      '--expires',
      '2099-01-01',
      '--json',
    ),
  );
  expect(reported).toMatchObject({
    user: 'alice',
    workspace: 'trading',
    scopes: ['research'],
    expires_at: Date.UTC(2099, 0, 1),
  });
  const days = jsonOf<{ expires_at: number }>(await issue('--user', 'a', '--json')).expires_at;
  expect(Math.round((days - Date.now()) / 86_400_000)).toBe(30);
  const research = async (token: string) => {
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(`${service.url}/api/v1/research/backtest`, { method: 'POST', headers })).status;
  };
  expect([await research(plain.stdout.trim()), await research(String(reported.token))]).toEqual([403, 400]);
  expect(await service.status(plain.stdout.trim(), '/api/v1/bots')).toBe(200);
  expect(service.printed.stderr).not.toContain(secret);
});

test('revokes a token by its ID or itself, and all tokens of a user', async () => {
  const env = { ODDSLAKE_TOKEN_SECRET: secret };
  const output = lake();
  const tokens = (...args: string[]) => run(['tokens', ...args], env);
  const issue = async (user: string) =>
    jsonOf<{ token: string; jti: string }>(await tokens('issue', '--user', user, '--json', '--quiet'));
  const [one, two, three, four] = [
    await issue('alice'),
    await issue('alice'),
    await issue('bob'),
    await issue('alice'),
  ];
  expect((await tokens('list', '--output', output)).stdout).toMatch(/^no revoked tokens/);
  const revoked = await tokens('revoke', one.jti, two.token, '--output', output);
  expect([revoked.code, revoked.stdout]).toEqual([0, `token ${one.jti} is revoked\ntoken ${two.jti} is revoked\n`]);
  const at = String(Date.now());
  const byUser = await tokens('revoke', '--user', 'bob', '--issued-before', at, '--json', '--output', output);
  expect(jsonOf(byUser)).toEqual({ revoked: [], user: 'bob', issued_before: Number(at) });
  const service = await served(output, env);
  const statuses = [one, two, three, four].map(({ token }) => service.status(token));
  expect(await Promise.all(statuses)).toEqual([401, 401, 401, 200]);
  const listed = await tokens('list', '--output', output);
  expect(listed.stdout).toMatch(/bob +20\S+Z/);
  expect(listed.stdout).toMatch(/3 revocations\n$/);
  const reported = jsonOf<{ revocations: object[]; count: number }>(await tokens('list', '--json', '--output', output));
  expect(reported.count).toBe(3);
  expect(Object.keys(reported.revocations[0]!)).toEqual(['jti', 'user', 'issued_before', 'revoked_at', 'expires_at']);
  for (const text of [revoked.stdout, listed.stdout, service.printed.stderr])
    expect(text).not.toContain(two.token.split('.')[2]);
});

overEachDatabase((kind) => {
  test('keys and service share the database of a URL, and never print its password', async () => {
    const location = await freshDatabase(kind);
    const env = { ODDSLAKE_DATABASE_URL: urlOf(location) };
    // Keys do not need an archive.
    const made = await expectDone(run(['keys', 'create', '--name', 'n'], env, folder()));
    const service = await served(lake(), env, ['--log-level', 'trace']);
    expect(await service.status(made.stdout.trim())).toBe(200);
    expect(service.printed.stderr).not.toContain('keys create');
    const db = await openWorkspaceDatabase(location);
    await sql`insert into oddslake_migrations values ('999_later', '2030-01-01T00:00:00.000Z')`.execute(db);
    await db.destroy();
    const newer = await run(['keys', 'list'], env, folder());
    expect([newer.code, newer.stderr]).toEqual([2, expect.stringMatching(/^oddslake: .*another oddslake.*\n$/)]);
    if (location.kind === 'postgres')
      expect(`${made.stderr}${service.printed.stderr}${newer.stderr}`).not.toContain(new URL(location.url).password);
  });
});

test('serve and keys exit 1 if the database is unreachable, without its password', async () => {
  const env = { ODDSLAKE_DATABASE_URL: 'postgres://me:hunter2hunter2@127.0.0.1:9/none' };
  for (const args of [
    ['serve', '--output', lake(), '--set', 'service.port=0'],
    ['keys', 'list'],
  ]) {
    const { code, stdout, stderr } = await run(args, env);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      "oddslake: Cannot reach the service's database (PostgreSQL at 127.0.0.1:9, database none): ECONNREFUSED.\n",
    );
  }
});

test('a flag before the command of keys is refused in JSON too', async () => {
  const { code, stdout, stderr } = await run(['keys', '--json', 'list', '--output', lake()]);
  expect([code, JSON.parse(stdout)]).toEqual([2, { error: expect.any(String), exit_code: 2 }]);
  expect(stderr).toMatch(/--json must follow the command: oddslake keys COMMAND/);
});
