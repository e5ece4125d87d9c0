import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { systemRandom } from '../../src/base/system.ts';
import { openUpstream } from '../../src/client/client.ts';
import { parseRateHeaders } from '../../src/client/rate-headers.ts';
import { toNetworkPrefix } from '../../src/server/auth/authenticate.ts';
import { createFixedWindowLimiter } from '../../src/server/auth/fixed-window-limiter.ts';
import { issueUserToken } from '../../src/server/workspace/user-tokens.ts';
import { now, opened } from '../archive/scratch.ts';
import { createVirtualClock } from '../client/virtual-clock.ts';
import { serving } from './serving.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

const secret = 'a secret of more than 32 characters, for tests';
const bearer = (credential: string): RequestInit => ({ headers: { authorization: `Bearer ${credential}` } });

/** Requests /api/v1/me, and returns the rate limit headers of the response. */
async function me(url: string, init: RequestInit) {
  const answer = await fetch(`${url}/api/v1/me`, init);
  const { headers } = answer;
  const body = (await answer.json()) as Record<string, unknown>;
  const reported = ['ratelimit-policy', 'ratelimit', 'retry-after'].map((name) => headers.get(name));
  return { status: answer.status, reported, body, headers: Object.fromEntries(headers) };
}

test('a key has its own rate limit with headers, and a new window after the old one', async () => {
  const clock = steppedClock(now);
  const { url, workspace } = await serving(opened(), { clock });
  const { key } = await workspace.createKey({ name: 'slow', expiresAt: null, requestsPerMinute: 3 }, now);
  const policy = '"key";q=3;w=60';
  expect(await me(url, bearer(key))).toMatchObject({ status: 200, reported: [policy, '"key";r=2;t=60', null] });
  clock.forward(20_500);
  expect(await me(url, bearer(key))).toMatchObject({ status: 200, reported: [policy, '"key";r=1;t=40', null] });
  const last = await me(url, bearer(key));
  expect(last).toMatchObject({
    status: 200,
    reported: [policy, '"key";r=0;t=40', null],
    body: { requests_per_minute: 3 },
  });
  // The collector parses the header correctly.
  expect(parseRateHeaders({ status: 200, headers: last.headers }, now)).toEqual({
    ratePerSecond: 3 / 60,
    remaining: 0,
    resetMs: 40_000,
  });
  const refused = await me(url, bearer(key));
  expect(refused).toMatchObject({ status: 429, reported: [policy, '"key";r=0;t=40', '40'] });
  expect(refused.body).toMatchObject({
    title: 'Too many requests',
    detail: expect.stringContaining('3 requests a minute'),
  });
  clock.forward(39_499);
  expect(await me(url, bearer(key))).toMatchObject({ status: 429, reported: [policy, '"key";r=0;t=1', '1'] });
  clock.forward(1);
  expect(await me(url, bearer(key))).toMatchObject({ status: 200, reported: [policy, '"key";r=2;t=60', null] });
});

test('a key without its own rate limit has that of the settings; each key and user is counted separately', async () => {
  const {
    url,
    workspace,
    key: other,
  } = await serving(opened(), {
    clock: steppedClock(now),
    set: ['service.requests_per_minute=2', `service.tokens.secret=${secret}`],
  });
  const plain = { expiresAt: null, requestsPerMinute: null };
  const [first, second] = [
    await workspace.createKey({ name: 'a', ...plain }, now),
    await workspace.createKey({ name: 'a', ...plain }, now),
  ];
  const tokens = { issuer: 'oddslake', audience: 'oddslake', secret, jwksUrl: null, jwksFile: null };
  const tokenOf = (user: string, workspace: string | null) =>
    issueUserToken(tokens, { user, workspace, scopes: [], expiresAt: now + 60_000 }, now);
  // A user has one rate limit for all tokens.
  const alice = [await tokenOf('alice', null), await tokenOf('alice', 'trading'), await tokenOf('alice', null)];
  const statuses = async (credentials: readonly string[]) => {
    const seen: number[] = [];
    for (const credential of credentials) seen.push((await me(url, bearer(credential))).status);
    return seen;
  };
  expect(await statuses([first.key, first.key, first.key])).toEqual([200, 200, 429]);
  expect(await statuses([second.key, second.key, second.key])).toEqual([200, 200, 429]);
  expect(await statuses(alice)).toEqual([200, 200, 429]);
  // A user whose name equals the ID of a key is counted separately.
  expect(await statuses([await tokenOf(first.id, null), await tokenOf('bob', null)])).toEqual([200, 200]);
  expect((await me(url, bearer(await tokenOf('carol', null)))).reported[0]).toBe('"user";q=2;w=60');
  expect(await statuses([other, other, other])).toEqual([200, 200, 200]);
});

test('concurrent requests cannot exceed the limit, and those with 403 count, too', async () => {
  const { url, workspace } = await serving(opened(), { clock: steppedClock(now) });
  const { key } = await workspace.createKey({ name: 'burst', expiresAt: null, requestsPerMinute: 10 }, now);
  const answers = await Promise.all(
    Array.from({ length: 30 }, async () => (await fetch(`${url}/api/v1/bots`, bearer(key))).status),
  );
  expect(Object.groupBy(answers, String)).toMatchObject({ 403: { length: 10 }, 429: { length: 20 } });
});

test('open routes need no credential and are not counted', async () => {
  const { url, workspace } = await serving(opened(), { clock: steppedClock(now) });
  const { key } = await workspace.createKey({ name: 'one', expiresAt: null, requestsPerMinute: 1 }, now);
  expect((await me(url, bearer(key))).status).toBe(200);
  for (const credential of [key, 'rubbish']) {
    const { status, headers } = await fetch(`${url}/healthz`, bearer(credential));
    expect([status, headers.get('ratelimit')]).toEqual([200, null]);
  }
});

test('limits invalid credentials per address, but not valid ones', async () => {
  const clock = steppedClock(now);
  const { url, key, workspace } = await serving(opened(), { clock });
  const from = (address: string, credential: string): RequestInit => ({
    headers: { authorization: `Bearer ${credential}`, 'x-forwarded-for': address },
  });
  const guess = (n: number) => `olk_${String(n).padStart(12, '0')}_${'A'.repeat(43)}`;
  expect((await me(url, from('192.0.2.1', key))).status).toBe(200);
  const answers = await Promise.all(Array.from({ length: 90 }, (_, n) => me(url, from('192.0.2.1', guess(n)))));
  const byStatus = Object.groupBy(answers, ({ status }) => String(status));
  expect(byStatus).toMatchObject({ 401: { length: 60 }, 429: { length: 30 } });
  expect(byStatus['429']![0]).toMatchObject({ reported: ['"address";q=60;w=60', '"address";r=0;t=60', '60'] });
  // A valid key is accepted, even if it was never used before; other addresses are not affected.
  const fresh = await workspace.createKey({ name: 'new', expiresAt: null, requestsPerMinute: null }, now);
  expect((await me(url, from('192.0.2.1', fresh.key))).status).toBe(200);
  expect((await me(url, from('192.0.2.1', key))).status).toBe(200);
  expect((await me(url, from('192.0.2.2', guess(1)))).status).toBe(401);
  expect((await me(url, from('192.0.2.1', guess(1)))).status).toBe(429);
  clock.forward(60_000);
  expect((await me(url, from('192.0.2.1', guess(1)))).status).toBe(401);
});

test('a revoked or expired credential counts as invalid', async () => {
  const clock = steppedClock(now);
  const { url, workspace } = await serving(opened(), { clock, set: [`service.tokens.secret=${secret}`] });
  const revoked = await workspace.createKey({ name: 'was', expiresAt: null, requestsPerMinute: 1_000 }, now);
  const expired = await issueUserToken(
    { issuer: 'oddslake', audience: 'oddslake', secret, jwksUrl: null, jwksFile: null },
    { user: 'alice', workspace: null, scopes: [], expiresAt: now + 1_000 },
    now,
  );
  for (const credential of [revoked.key, expired]) expect((await me(url, bearer(credential))).status).toBe(200);
  await workspace.revokeKeys([revoked.id], now);
  clock.forward(1_000);
  const answers: number[] = [];
  for (let n = 0; n < 35; n++)
    for (const credential of [revoked.key, expired]) answers.push((await me(url, bearer(credential))).status);
  const [refused, held] = [401, 429].map((status) => answers.filter((each) => each === status).length);
  expect([refused, held]).toEqual([60, 10]);
});

test('valid credentials do not count against the address', async () => {
  const { url, workspace } = await serving(opened(), { clock: steppedClock(now) });
  for (let n = 0; n < 70; n++) {
    const { key } = await workspace.createKey({ name: `${n}`, expiresAt: null, requestsPerMinute: null }, now);
    expect((await me(url, bearer(key))).status, String(n)).toBe(200);
  }
});

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:DB8:1:2::9', '2001:db8:1:2'],
  ['2001:db8::1', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['invalid text from a proxy', 'unknown'],
])('the address %s counts as %s', (ip, network) => {
  expect(toNetworkPrefix(ip)).toBe(network);
});

test('limits the number of counters by resetting the least recently used', () => {
  const windows = createFixedWindowLimiter(steppedClock(now), 2);
  windows.acquire('a', 5);
  windows.acquire('b', 5);
  expect(windows.acquire('a', 5).remaining).toBe(3);
  windows.acquire('c', 5);
  expect([windows.acquire('a', 5).remaining, windows.acquire('b', 5).remaining]).toEqual([2, 4]);
});

test('the collector obeys the headers and is never rejected', async () => {
  const clock = createVirtualClock();
  const { url, workspace } = await serving(opened(), { clock });
  // The limit is two per second; the collector is configured for fifty, and sends more than a minute's worth.
  const { key } = await workspace.createKey({ name: 'mirror', expiresAt: null, requestsPerMinute: 120 }, clock.nowMs());
  let ended = 0;
  const upstream = openUpstream(
    { baseUrl: url, apiKey: key, userAgent: 'oddslake/test', requestsPerSecond: 50 },
    {
      clock,
      random: systemRandom,
      onCounters: () => void ended++,
    },
  );
  // A 404 is final and counts like any other response.
  const requested = { symbol: 'NONE', from: now, to: now + 1, limit: 10 };
  const failures: string[] = [];
  const all = Array.from({ length: 180 }, () =>
    upstream.ticks(requested).then(
      () => failures.push('answered'),
      (error: Error) => failures.push(error.message),
    ),
  );
  // The clock advances only while no request runs, so that slow machines pass, too.
  while (failures.length < all.length) {
    if (upstream.counters().requests === ended) await clock.pass(20);
    await setImmediate();
  }
  await upstream.close();
  expect(new Set(failures)).toEqual(new Set([expect.stringContaining('404')]));
  expect(upstream.counters()).toMatchObject({ requests: 180, retries: 0 });
  // More than a minute's worth took more than a minute.
  expect(clock.monotonicMs()).toBeGreaterThan(60_000);
});
