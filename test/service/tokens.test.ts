import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, SignJWT } from 'jose';
import { expect, onTestFinished, test } from 'vitest';
import { issueToken } from '../../src/workspace/tokens.ts';
import { now, opened, scratchFolder } from '../archive/scratch.ts';
import { steppedClock } from '../workspace/stepped-clock.ts';
import { serving } from './serving.ts';

const secret = 'a secret of more than 32 characters, for tests';
const withSecret = [`service.tokens.secret=${secret}`];
const settings = { issuer: 'oddslake', audience: 'oddslake', secret, jwksUrl: null, jwksFile: null };
const seconds = Math.floor(now / 1000);
const claims = { sub: 'alice', iss: 'oddslake', aud: 'oddslake', iat: seconds, exp: seconds + 600 };

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token with whatever header and claims, signed by HMAC whatever the header says. */
function crafted(header: object, payload: object, key: string | Buffer = secret, hash = 'sha256'): string {
  const text = `${part(header)}.${part(payload)}`;
  return `${text}.${createHmac(hash, key).update(text).digest('base64url')}`;
}

const hs256 = { alg: 'HS256', typ: 'JWT' };
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

/** What a route of users answers, and the challenge that comes with it. */
async function answered(url: string, token: string, path = '/api/v1/bots'): Promise<[number, string | null]> {
  const answer = await fetch(`${url}${path}`, bearer(token));
  await answer.arrayBuffer();
  return [answer.status, answer.headers.get('www-authenticate')];
}

const refused = [401, 'Bearer error="invalid_token"'];

test('a token of the secret is good for the routes of users, says who it is, and is told that they are to come', async () => {
  const { url } = await serving(opened(), { set: withSecret });
  const asked = { user: 'alice', workspace: 'desk', scopes: ['research'], expiresAt: now + 60_000 };
  const token = await issueToken(settings, asked, now);
  const me = await (await fetch(`${url}/api/v1/me`, bearer(token))).json();
  expect(me).toEqual({
    ...{ kind: 'user', user: 'alice', workspace: 'desk', scopes: ['research'] },
    ...{ requests_per_minute: 600, generated_at: now },
  });
  for (const [method, path] of [
    ...[
      ['GET', 'backtest'],
      ['GET', 'bots'],
      ['POST', 'bots'],
      ['GET', 'strategies'],
      ['POST', 'strategies'],
    ],
    ['POST', 'research/backtest'],
  ] as const) {
    const json = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    const answer = await fetch(`${url}/api/v1/${path}`, {
      method,
      headers: json,
      ...(method === 'POST' ? { body: '{}' } : {}),
    });
    expect([answer.status, answer.headers.get('content-type')], path).toEqual([
      501,
      expect.stringContaining('application/problem+json'),
    ]);
    expect(await answer.json()).toMatchObject({ status: 501, detail: expect.stringContaining('not serve') });
  }
});

test('a token is no key, a key is no token, and research asks for its scope', async () => {
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
  expect(await post(crafted(hs256, { ...claims, scope: 'other research' }))).toEqual([501, null]);
  const missing = await fetch(`${url}/api/v1/bots`);
  expect([missing.status, missing.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
});

test('tokens that are forged, for others, or not good now are refused', async () => {
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
    'an end that is a text': crafted(hs256, { ...claims, exp: String(claims.exp) }),
    'not good yet': crafted(hs256, { ...claims, nbf: seconds + 31 }),
    'issued in the future': crafted(hs256, { ...claims, iat: seconds + 31 }),
    'an iat that is a text': crafted(hs256, { ...claims, iat: 'now' }),
    nobody: crafted(hs256, nobody),
    'an empty sub': crafted(hs256, { ...claims, sub: '' }),
    'a sub that is a number': crafted(hs256, { ...claims, sub: 1 }),
    'a long sub': crafted(hs256, { ...claims, sub: 'a'.repeat(1001) }),
    'a workspace that is a list': crafted(hs256, { ...claims, workspace: ['desk'] }),
    'scopes in a list': crafted(hs256, { ...claims, scope: ['research'] }),
    'a crit that nobody knows': crafted({ ...hs256, crit: ['later'], later: true }, claims),
    'a crit b64': crafted({ ...hs256, crit: ['b64'], b64: false }, claims),
    'a crit that is empty': crafted({ ...hs256, crit: [] }, claims),
    'a payload that is no object': crafted(hs256, [claims]),
    'more than 8 kB': crafted(hs256, { ...claims, more: 'x'.repeat(6_500) }),
    'four parts': `${crafted(hs256, claims)}.x`,
    'five parts, as encrypted ones have': `${part({ alg: 'dir', enc: 'A128GCM' })}..x.x.x`,
    'no token': 'token',
    dots: '..',
  };
  // More than an address may get wrong in a minute would be told otherwise.
  expect(Object.keys(cases).length).toBeLessThan(60);
  for (const [name, token] of Object.entries(cases)) expect(await answered(url, token), name).toEqual(refused);
  expect(await answered(url, crafted(hs256, { ...claims, nbf: seconds + 29, iat: seconds + 29 }))).toEqual([501, null]);
  expect(await answered(url, crafted(hs256, { ...claims, aud: ['others', 'oddslake'] }))).toEqual([501, null]);
});

test('headers larger than the service reads end with 431, and their token is not looked at', async () => {
  const { url } = await serving(opened(), { set: withSecret });
  expect((await answered(url, crafted(hs256, { ...claims, more: 'x'.repeat(20_000) })))[0]).toBe(431);
});

test('a token that was good is refused from its end on', async () => {
  const clock = steppedClock(now);
  const { url } = await serving(opened(), { set: withSecret, clock });
  const token = crafted(hs256, { ...claims, exp: seconds + 2 });
  expect((await answered(url, token))[0]).toBe(501);
  clock.forward(1_999);
  expect((await answered(url, token))[0]).toBe(501);
  clock.forward(1);
  expect(await answered(url, token)).toEqual(refused);
});

test('issuer and audience are those of the settings', async () => {
  const { url } = await serving(opened(), {
    set: [...withSecret, 'service.tokens.issuer=https://id.example.org/', 'service.tokens.audience=lake'],
  });
  expect(await answered(url, crafted(hs256, claims))).toEqual(refused);
  const ours = { ...claims, iss: 'https://id.example.org/', aud: 'lake' };
  expect((await answered(url, crafted(hs256, ours)))[0]).toBe(501);
});

test('without secret and key set every token is refused', async () => {
  const { url } = await serving(opened());
  expect(await answered(url, crafted(hs256, claims))).toEqual(refused);
});

/** A key pair of each kind that a key set may hold, with the set. */
async function issuerKeys() {
  const pairs = {
    RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
    ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    EdDSA: generateKeyPairSync('ed25519'),
  };
  const keys = await Promise.all(
    Object.entries(pairs).map(async ([alg, { publicKey }]) => ({
      ...(await exportJWK(publicKey)),
      kid: alg,
      alg,
      use: 'sig',
    })),
  );
  const sign = (alg: string, key: KeyObject, header: object = {}, payload: object = claims) =>
    new SignJWT(payload as Record<string, unknown>).setProtectedHeader({ alg, kid: alg, ...header }).sign(key);
  return { pairs, keys, sign };
}

/** A server of key sets that counts what it is asked. */
async function keyServer(answer: () => { status?: number; body: string; headers?: Record<string, string> } | null) {
  const asked: string[] = [];
  const server: Server = createServer((request, response) => {
    asked.push(request.url!);
    const given = answer();
    if (given === null) return void request.socket.destroy();
    response.writeHead(given.status ?? 200, { 'content-type': 'application/json', ...given.headers }).end(given.body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`, asked };
}

test('a key set checks RS256, ES256 and EdDSA, and nothing that is signed otherwise', async () => {
  const { pairs, keys, sign } = await issuerKeys();
  const evil = await keyServer(() => ({ body: '{"keys":[]}' }));
  const file = `${scratchFolder()}/jwks.json`;
  const oct = { kty: 'oct', kid: 'oct', alg: 'HS256', k: Buffer.from(secret).toString('base64url') };
  writeFileSync(file, JSON.stringify({ keys: [...keys, oct] }));
  const { url } = await serving(opened(), { set: [`service.tokens.jwks_file=${file}`] });
  for (const [alg, { privateKey }] of Object.entries(pairs))
    expect(await answered(url, await sign(alg, privateKey)), alg).toEqual([501, null]);

  const rsa = pairs.RS256;
  const pem = rsa.publicKey.export({ type: 'spki', format: 'pem' }) as string;
  const der = rsa.publicKey.export({ type: 'spki', format: 'der' });
  const own = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const ownJwk = { ...(await exportJWK(createPublicKey(own.privateKey))), kid: 'RS256' };
  const cases: Record<string, string> = {
    'the public key as PEM taken for a secret': crafted({ alg: 'HS256', kid: 'RS256' }, claims, pem),
    'the same without its last line break': crafted({ alg: 'HS256', kid: 'RS256' }, claims, pem.trim()),
    'the public key as DER taken for a secret': crafted({ alg: 'HS256', kid: 'RS256' }, claims, der),
    'the public key as JWK taken for a secret': crafted(
      { alg: 'HS256', kid: 'RS256' },
      claims,
      JSON.stringify(keys[0]),
    ),
    'a symmetric key of the set': crafted({ alg: 'HS256', kid: 'oct' }, claims),
    'alg none': `${part({ alg: 'none', kid: 'RS256' })}.${part(claims)}.`,
    'another algorithm of the same key': await sign('RS512', rsa.privateKey, { kid: 'RS256' }),
    'PSS of the same key': await sign('PS256', rsa.privateKey, { kid: 'RS256' }),
    'a key that is not in the set': await sign('RS256', own.privateKey),
    'a key of another kind': await sign('ES256', pairs.ES256.privateKey, { kid: 'RS256' }),
    'an unknown kid': await sign('RS256', rsa.privateKey, { kid: 'other' }),
    'a kid that is a path': await sign('RS256', own.privateKey, { kid: '../../../../dev/null' }),
    'its own key in the header': await sign('RS256', own.privateKey, { jwk: ownJwk }),
    'a jku of its own': await sign('RS256', own.privateKey, { jku: evil.url, kid: 'other' }),
    'an x5u of its own': await sign('RS256', own.privateKey, { x5u: evil.url }),
  };
  for (const [name, token] of Object.entries(cases)) expect(await answered(url, token), name).toEqual(refused);
  expect(evil.asked).toEqual([]);
  // What a header names besides is not looked at, where the signature is the set's.
  expect(await answered(url, await sign('RS256', rsa.privateKey, { jku: evil.url, x5u: evil.url }))).toEqual([
    501,
    null,
  ]);
  expect(evil.asked).toEqual([]);
});

test('a key set from a URL is fetched once, again for a new kid, and not for every kid that somebody thinks of', async () => {
  const { pairs, keys, sign } = await issuerKeys();
  let served = keys.slice(0, 1);
  const { url: jwks, asked } = await keyServer(() => ({ body: JSON.stringify({ keys: served }) }));
  const clock = steppedClock(now);
  const { url } = await serving(opened(), { set: [`service.tokens.jwks_url=${jwks}`], clock });
  expect(asked).toHaveLength(0);
  const first = await sign('RS256', pairs.RS256.privateKey);
  expect([await answered(url, first), await answered(url, first)]).toEqual([
    [501, null],
    [501, null],
  ]);
  expect(asked).toHaveLength(1);
  const second = await sign('ES256', pairs.ES256.privateKey);
  for (const _ of [1, 2, 3]) expect(await answered(url, second)).toEqual(refused);
  expect(asked).toHaveLength(1);
  served = keys;
  clock.forward(10_000);
  expect(await answered(url, second)).toEqual([501, null]);
  expect(asked).toHaveLength(2);
});

test.each([
  ['is down', () => null],
  ['fails', () => ({ status: 500, body: '{}' })],
  ['sends no JSON', () => ({ body: '<html>' })],
  ['sends no key set', () => ({ body: '{"keys":{"a":1}}' })],
  ['sends too much', () => ({ body: `{"keys":[${'{"kty":"RSA"},'.repeat(20_000)}{}]}` })],
  ['sends elsewhere', () => ({ status: 302, body: '', headers: { location: 'http://127.0.0.1:9/' } })],
])(
  'while the server of the key set %s nobody can tell: 503, and the keys that are known stay good',
  async (_, broken) => {
    const { pairs, keys, sign } = await issuerKeys();
    let up = false;
    const { url: jwks, asked } = await keyServer(() =>
      up ? { body: JSON.stringify({ keys: keys.slice(0, 1) }) } : broken(),
    );
    const clock = steppedClock(now);
    const said: string[] = [];
    const log = { debug() {}, info() {}, warn: (facts: object) => void said.push(JSON.stringify(facts)), error() {} };
    const { url, key } = await serving(opened(), { set: [`service.tokens.jwks_url=${jwks}`], clock, log });
    const token = await sign('RS256', pairs.RS256.privateKey);
    const answer = await fetch(`${url}/api/v1/bots`, bearer(token));
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
    expect(await answer.text()).not.toContain('127.0.0.1');
    expect(await answered(url, token)).toEqual([503, null]);
    expect([asked.length, said.length]).toEqual([1, 1]);
    // Keys need no key set.
    expect((await fetch(`${url}/api/v1/me`, bearer(key))).status).toBe(200);
    // HS256 is none of its algorithms, whatever it holds.
    expect(await answered(url, crafted(hs256, claims))).toEqual(refused);
    up = true;
    clock.forward(10_000);
    expect(await answered(url, token)).toEqual([501, null]);
    up = false;
    clock.forward(10 * 60_000 - 10_000);
    const later = await sign('RS256', pairs.RS256.privateKey, {}, { ...claims, exp: seconds + 3_600 });
    expect(await answered(url, later)).toEqual([501, null]);
    clock.forward(10_000);
    expect(
      await answered(
        url,
        await sign('RS256', pairs.RS256.privateKey, { kid: 'new' }, { ...claims, exp: seconds + 3_600 }),
      ),
    ).toEqual([503, null]);
  },
);
