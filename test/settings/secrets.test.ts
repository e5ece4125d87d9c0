import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { choosePingUrl } from '../../src/collector/notifications/notify.ts';
import { settingSchemas } from '../../src/settings/layers.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { createRedactor, listSecrets } from '../../src/settings/settings.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

const settingsOf = (...set: string[]) => loadSettings({ env: {}, cwd: '/w', set });

test('redacts every secret in each of its forms from the log', async () => {
  const token = 'a secret of more than 32 characters, for tests';
  const database = 'service.database_url=postgres://me:p%40ss@w0rd@host:5432/db?password=o%2Fther&sslmode=disable';
  const settings = await settingsOf('upstream.api_key=key-1234', `service.tokens.secret=${token}`, database);
  expect(new Set(listSecrets(settings))).toEqual(
    new Set(['key-1234', token, 'p%40ss@w0rd', 'p@ss@w0rd', 'o%2Fther', 'o/ther']),
  );
});

test.each(['postgres://host/db', 'postgres://me@host/db', 'sqlite:service.sqlite'])('%s has no secret', async (url) => {
  expect(listSecrets(await settingsOf(`service.database_url=${url}`))).toEqual([]);
});

test('redacts a password with an invalid escape unchanged', async () => {
  expect(listSecrets(await settingsOf('service.database_url=postgres://me:50%off@host/db'))).toContain('50%off');
});

test.each([
  ['sqlite:service.sqlite', 'sqlite:/w/service.sqlite'],
  ['sqlite:/var/lib/a.sqlite', 'sqlite:/var/lib/a.sqlite'],
  ['SQLite:///var/lib/a.sqlite', 'sqlite:/var/lib/a.sqlite'],
  ['sqlite://host', 'sqlite://host'],
  ['postgres://me@host/db', 'postgres://me@host/db'],
])('the database %s is %s, seen from /w', async (given, resolved) => {
  expect((await settingsOf(`service.database_url=${given}`)).service.databaseUrl).toBe(resolved);
});

test('redacts the URL of a webhook and its path', async () => {
  const url = 'https://hooks.example.org/services/T000/B000/abcdef?thread=1';
  const secrets = listSecrets(await settingsOf(`notify.webhook_url=${url}`));
  expect(secrets).toEqual([url, '/services/T000/B000/abcdef?thread=1', '/services/T000/B000/abcdef']);
  // A short path is no secret; redacting it would damage other lines.
  expect(listSecrets(await settingsOf('notify.webhook_url=http://box/hook'))).toEqual(['http://box/hook']);
});

test.each(['hooks.example', 'ftp://host/x', 'https://user:pass@host/x', 'https://host/x#part'])(
  'rejects the webhook %s without showing it',
  async (url) => {
    const refused = settingsOf(`notify.webhook_url=${url}`);
    await expect(refused).rejects.toThrow('--set: notify.webhook_url is (hidden): expected an http or https URL');
  },
);

test('reads the address of a ping from a file', async () => {
  const at = mkdtempSync(join(scratchRoot, 'oddslake-secrets-'));
  onTestFinished(() => rmSync(at, { recursive: true, force: true }));
  writeFileSync(join(at, 'ping'), 'https://ping.example.org/0f2a9c3e-1111-2222\n');
  const settings = await loadSettings({ env: { ODDSLAKE_PING_URL_FILE: join(at, 'ping') }, cwd: '/w' });
  expect(settings.notify.pingUrl).toBe('https://ping.example.org/0f2a9c3e-1111-2222');
  expect(listSecrets(settings)).toEqual([
    'https://ping.example.org/0f2a9c3e-1111-2222',
    '/0f2a9c3e-1111-2222',
    '/0f2a9c3e-1111-2222',
  ]);
  await expect(settingsOf('notify.ping_fail_url=ftp://secret')).rejects.toThrow('notify.ping_fail_url is (hidden)');
});

test('derives the addresses of pings, unless they are set', async () => {
  const urlsOf = async (...set: string[]) => {
    const { notify } = await settingsOf(...set);
    return (['start', 'success', 'fail'] as const).map((event) => choosePingUrl(notify, event));
  };
  expect(await urlsOf()).toEqual([null, null, null]);
  const [base, other] = ['https://p.org/id', 'https://p.org/other'];
  expect(await urlsOf(`notify.ping_url=${base}`)).toEqual([`${base}/start`, base, `${base}/fail`]);
  expect(await urlsOf(`notify.ping_url=${base}/?k=1`)).toEqual([
    `${base}/start?k=1`,
    `${base}/?k=1`,
    `${base}/fail?k=1`,
  ]);
  expect(await urlsOf(`notify.ping_url=${base}`, `notify.ping_start_url=${other}`)).toEqual([
    other,
    base,
    `${base}/fail`,
  ]);
  expect(await urlsOf(`notify.ping_fail_url=${other}`)).toEqual([null, null, other]);
});

test('redacts the value of every secret of the table', async () => {
  const secret = 'https://me:a-long-enough-password-of-forty-letters@host/path';
  const paths = [...settingSchemas].flatMap(([path, { isSecret }]) => (isSecret === true ? [path] : []));
  expect(paths).toEqual(expect.arrayContaining(['upstream.api_key', 'service.metrics_key', 'service.database_url']));
  for (const path of paths) {
    const value = path.startsWith('notify.') ? secret.replace(/me:.*@/, '') : secret;
    const redact = createRedactor(listSecrets(await settingsOf(`${path}=${value}`)));
    expect(redact(value), path).not.toMatch(path.startsWith('notify.') ? /host/ : /password/);
  }
});
