import { expect, test } from 'vitest';
import { issueUserToken } from '../../src/server/workspace/user-tokens.ts';
import { now, opened } from '../archive/scratch.ts';
import { answered, bearer, claims, crafted, hs256, part, refused, seconds, secret } from './forged-tokens.ts';
import { serving } from './serving.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

const withSecret = [`service.tokens.secret=${secret}`];
const settings = { issuer: 'oddslake', audience: 'oddslake', secret, jwksUrl: null, jwksFile: null };

test('a token signed with the secret is accepted on users routes', async () => {
  const { url } = await serving(opened(), { set: withSecret });
  const requested = { user: 'alice', workspace: 'trading', scopes: ['research'], expiresAt: now + 60_000 };
  const token = await issueUserToken(settings, requested, now);
  const me = await (await fetch(`${url}/api/v1/me`, bearer(token))).json();
  expect(me).toEqual({
    kind: 'user',
    user: 'alice',
    workspace: 'trading',
    scopes: ['research'],
    requests_per_minute: 600,
    generated_at: now,
  });
  for (const path of ['backtest', 'bots', 'strategies'])
    expect(await answered(url, token, `/api/v1/${path}`), path).toEqual([200, null]);
});

test('keys and tokens are not interchangeable, and research requires its scope', async () => {
  const { url, key } = await serving(opened(), { set: withSecret });
  const token = crafted(hs256, claims);
  expect(await answered(url, token, '/api/v1/nothing')).toEqual([403, null]);
  expect(await answered(url, key)).toEqual([403, null]);
  const post = async (credential: string) => {
    const answer = await fetch(`${url}/api/v1/research/backtest`, { method: 'POST', ...bearer(credential) });
    return [answer.status, answer.headers.get('www-authenticate')];
  };
  expect(await post(key)).toEqual([403, null]);
  expect(await post(token)).toEqual([403, 'Bearer error="insufficient_scope", scope="research"']);
  expect(await post(crafted(hs256, { ...claims, scope: 'other researcher' }))).toEqual([403, expect.any(String)]);
  expect(await post(crafted(hs256, { ...claims, scope: 'other research' }))).toEqual([400, null]);
  const missing = await fetch(`${url}/api/v1/bots`);
  expect([missing.status, missing.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
});

test('rejects tokens that are forged, of others, expired or not valid yet', async () => {
  const { url } = await serving(opened(), { set: withSecret });
  const { exp: _exp, ...endless } = claims;
  const { sub: _sub, ...nobody } = claims;
  const cases: Record<string, string> = {
    'alg none': `${part({ alg: 'none' })}.${part(claims)}.`,
    'alg NONE with a signature': crafted({ alg: 'NONE' }, claims),
    'no alg': crafted({ typ: 'JWT' }, claims),
    'another secret': crafted(hs256, claims, 'another secret of more than 32 characters'),
    'an empty secret': crafted(hs256, claims, ''),
    'HS512 of the same secret': crafted({ alg: 'HS512' }, claims, secret, 'sha512'),
    'no signature': crafted(hs256, claims).replace(/[^.]+$/, ''),
    'a signature for other claims': `${part(hs256)}.${part({ ...claims, sub: 'bob' })}.${crafted(hs256, claims).split('.')[2]}`,
    'another audience': crafted(hs256, { ...claims, aud: 'others' }),
    'no audience': crafted(hs256, { ...claims, aud: undefined }),
    'another issuer': crafted(hs256, { ...claims, iss: 'others' }),
    'no issuer': crafted(hs256, { ...claims, iss: undefined }),
    'expired this second': crafted(hs256, { ...claims, exp: seconds }),
    'no end': crafted(hs256, endless),
    'an exp that is a text': crafted(hs256, { ...claims, exp: String(claims.exp) }),
    'not valid yet': crafted(hs256, { ...claims, nbf: seconds + 31 }),
    'issued in the future': crafted(hs256, { ...claims, iat: seconds + 31 }),
    'an iat that is a text': crafted(hs256, { ...claims, iat: 'now' }),
    nobody: crafted(hs256, nobody),
    'an empty sub': crafted(hs256, { ...claims, sub: '' }),
    'a sub that is a number': crafted(hs256, { ...claims, sub: 1 }),
    'a sub with half a surrogate pair': crafted(hs256, { ...claims, sub: 'a\ud800' }),
    'a sub with NUL': crafted(hs256, { ...claims, sub: 'alice\0' }),
    'a long sub': crafted(hs256, { ...claims, sub: 'a'.repeat(1001) }),
    'a workspace that is a list': crafted(hs256, { ...claims, workspace: ['trading'] }),
    'scopes in a list': crafted(hs256, { ...claims, scope: ['research'] }),
    'an unknown crit': crafted({ ...hs256, crit: ['later'], later: true }, claims),
    'a crit b64': crafted({ ...hs256, crit: ['b64'], b64: false }, claims),
    'a crit that is empty': crafted({ ...hs256, crit: [] }, claims),
    'a payload that is not an object': crafted(hs256, [claims]),
    'more than 8 kB': crafted(hs256, { ...claims, more: 'x'.repeat(6_500) }),
    'four parts': `${crafted(hs256, claims)}.x`,
    'five parts, as encrypted ones have': `${part({ alg: 'dir', enc: 'A128GCM' })}..x.x.x`,
    'no token': 'token',
    dots: '..',
  };
  // More failures per minute and address would give another error.
  expect(Object.keys(cases).length).toBeLessThan(60);
  for (const [name, token] of Object.entries(cases)) expect(await answered(url, token), name).toEqual(refused);
  expect(await answered(url, crafted(hs256, { ...claims, nbf: seconds + 29, iat: seconds + 29 }))).toEqual([200, null]);
  expect(await answered(url, crafted(hs256, { ...claims, aud: ['others', 'oddslake'] }))).toEqual([200, null]);
});

test('headers that are too large give 431 before authentication', async () => {
  const { url } = await serving(opened(), { set: withSecret });
  expect((await answered(url, crafted(hs256, { ...claims, more: 'x'.repeat(20_000) })))[0]).toBe(431);
});

test('rejects a token from its expiry time on', async () => {
  const clock = steppedClock(now);
  const { url } = await serving(opened(), { set: withSecret, clock });
  const token = crafted(hs256, { ...claims, exp: seconds + 2 });
  expect((await answered(url, token))[0]).toBe(200);
  clock.forward(1_999);
  expect((await answered(url, token))[0]).toBe(200);
  clock.forward(1);
  expect(await answered(url, token)).toEqual(refused);
});

test('checks issuer and audience of the settings', async () => {
  const { url } = await serving(opened(), {
    set: [...withSecret, 'service.tokens.issuer=https://id.example.org/', 'service.tokens.audience=lake'],
  });
  expect(await answered(url, crafted(hs256, claims))).toEqual(refused);
  const ours = { ...claims, iss: 'https://id.example.org/', aud: 'lake' };
  expect((await answered(url, crafted(hs256, ours)))[0]).toBe(200);
});

test('rejects every token without a secret or key set', async () => {
  const { url } = await serving(opened());
  expect(await answered(url, crafted(hs256, claims))).toEqual(refused);
});
