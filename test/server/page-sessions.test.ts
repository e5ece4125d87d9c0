import { expect, test } from 'vitest';
import { systemRandomBytes } from '../../src/base/system.ts';
import { oneTimeKeyMsMax, openPageSessions, sessionMsMax } from '../../src/server/auth/page-sessions.ts';
import { now, opened } from '../archive/scratch.ts';
import { type Serving, serving } from './serving.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

/** The route is for the page alone, and not in the OpenAPI document, which `ask` checks responses against. */
async function exchange({ url }: Serving, one_time_key: unknown) {
  const { status, headers, ...response } = await fetchSession(url, 'POST', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ one_time_key }),
  });
  return { status, headers, body: response.body as Record<string, unknown> };
}

async function fetchSession(url: string, method: string, init: RequestInit) {
  const response = await fetch(`${url}/api/v1/session`, { method, ...init });
  const text = await response.text();
  const { status, headers } = response;
  return { status, headers, body: text === '' ? null : (JSON.parse(text) as unknown) };
}
const bearer = (credential: unknown): RequestInit => ({ headers: { authorization: `Bearer ${String(credential)}` } });

test('a one-time key is exchanged once for a session, which reads the catalogue only and can be ended', async () => {
  const clock = steppedClock(now);
  const service = await serving(opened(), { clock });
  const key = service.sessions.createOneTimeKey();
  const { status, body } = await exchange(service, key);
  const { credential } = body;
  expect([status, body.expires_at]).toEqual([200, now + sessionMsMax]);
  expect((await service.json('/api/v1/export', bearer(credential))).status).toBe(200);
  expect((await service.json('/api/v1/historical/markets', bearer(credential))).status).toBe(200);
  for (const path of ['/api/v1/ticks/stream?symbol=A', '/api/v1/markets', '/api/v1/me', '/api/v1/bots'])
    expect([path, (await service.json(path, bearer(credential))).status]).toEqual([path, 403]);
  // Neither the key again, nor one as the other.
  for (const used of [key, credential]) expect((await exchange(service, used)).status).toBe(401);
  expect((await service.json('/api/v1/export', bearer(key))).status).toBe(401);

  expect((await fetchSession(service.url, 'DELETE', bearer('ols_other'))).status).toBe(204);
  expect((await service.json('/api/v1/export', bearer(credential))).status).toBe(200);
  expect((await fetchSession(service.url, 'DELETE', bearer(credential))).status).toBe(204);
  const ended = await service.json('/api/v1/export', bearer(credential));
  expect([ended.status, ended.body.detail]).toEqual([401, 'The session has ended. Sign in again.']);
});

test('of two exchanges at the same time, one succeeds', async () => {
  const service = await serving(opened());
  const key = service.sessions.createOneTimeKey();
  const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await exchange(service, key)).status));
  expect(statuses.sort()).toEqual([200, ...Array<number>(7).fill(401)]);
});

test('guesses and malformed keys are refused, and limited by address', async () => {
  const service = await serving(opened());
  for (const [guess, status] of [
    ['olo_guess', 401],
    ['', 400],
    ['x'.repeat(201), 400],
    [null, 400],
    [{ $ne: '' }, 400],
    ['__proto__', 401],
  ] as const)
    expect([guess, (await exchange(service, guess)).status]).toEqual([guess, status]);
  for (let i = 2; i < 20; i++) expect((await exchange(service, `olo_${i}`)).status).toBe(401);
  const key = service.sessions.createOneTimeKey();
  const limited = await exchange(service, key);
  expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '60']);
});

test('an unused key and a session expire', () => {
  const clock = steppedClock(now);
  const sessions = openPageSessions(clock, systemRandomBytes);
  const [early, late] = [sessions.createOneTimeKey(), sessions.createOneTimeKey()];
  clock.forward(oneTimeKeyMsMax - 1);
  const { credential } = sessions.exchange(early)!;
  expect(sessions.findSession(credential)).toMatch(/^[0-9a-f]{12}$/);
  clock.forward(1);
  expect(sessions.exchange(late)).toBeNull();
  clock.forward(sessionMsMax - 2);
  expect(sessions.findSession(credential)).not.toBeNull();
  clock.forward(1);
  expect(sessions.findSession(credential)).toBeNull();
});

test('secrets are random, long and bounded in number', () => {
  const sessions = openPageSessions(steppedClock(now), systemRandomBytes);
  const keys = Array.from({ length: 150 }, () => sessions.createOneTimeKey());
  expect(new Set(keys).size).toBe(150);
  for (const key of keys) expect(key).toMatch(/^olo_[A-Za-z0-9_-]{43}$/);
  expect(sessions.exchange(keys[0]!)).toBeNull();
  expect(sessions.exchange(keys[149]!)).not.toBeNull();
});

test('the log has neither the key nor the credential', async () => {
  const lines: string[] = [];
  const keep = (facts: object, message: string): void => void lines.push(JSON.stringify([facts, message]));
  const service = await serving(opened(), { log: { debug: keep, info: keep, warn: keep, error: keep } });
  const key = service.sessions.createOneTimeKey();
  const { body } = await exchange(service, key);
  await service.json('/api/v1/export', bearer(body.credential));
  await exchange(service, key);
  expect(lines.join('\n')).toMatch(/"visitor":"session [0-9a-f]{12}"/);
  for (const secret of [key, String(body.credential)]) expect(lines.join('\n')).not.toContain(secret.slice(4));
});
