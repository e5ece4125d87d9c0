import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { exportJWK, SignJWT } from 'jose';
import { expect, test } from 'vitest';
import { now, opened, scratchFolder } from '../archive/scratch.ts';
import { listen } from '../harness/listen.ts';
import { answered, bearer, claims, crafted, hs256, part, refused, seconds, secret } from './forged-tokens.ts';
import { serving } from './serving.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

/** Key pairs of all supported kinds, with their key set. */
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

/** A server of key sets that records its requests. */
async function keyServer(answer: () => { status?: number; body: string; headers?: Record<string, string> } | null) {
  const requested: string[] = [];
  const server = createServer((request, response) => {
    requested.push(request.url!);
    const given = answer();
    if (given === null) return void request.socket.destroy();
    response.writeHead(given.status ?? 200, { 'content-type': 'application/json', ...given.headers }).end(given.body);
  });
  return { url: `${await listen(server)}/jwks`, requested };
}

test('a key set accepts RS256, ES256 and EdDSA signatures only', async () => {
  const { pairs, keys, sign } = await issuerKeys();
  const evil = await keyServer(() => ({ body: '{"keys":[]}' }));
  const file = `${scratchFolder()}/jwks.json`;
  const oct = { kty: 'oct', kid: 'oct', alg: 'HS256', k: Buffer.from(secret).toString('base64url') };
  writeFileSync(file, JSON.stringify({ keys: [...keys, oct] }));
  const { url } = await serving(opened(), { set: [`service.tokens.jwks_file=${file}`] });
  for (const [alg, { privateKey }] of Object.entries(pairs))
    expect(await answered(url, await sign(alg, privateKey)), alg).toEqual([200, null]);

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
  expect(evil.requested).toEqual([]);
  // Other header fields are ignored if the signature is valid.
  expect(await answered(url, await sign('RS256', rsa.privateKey, { jku: evil.url, x5u: evil.url }))).toEqual([
    200,
    null,
  ]);
  expect(evil.requested).toEqual([]);
});

test('a key set from a URL is fetched once and again for a new kid, but not for every unknown kid', async () => {
  const { pairs, keys, sign } = await issuerKeys();
  let served = keys.slice(0, 1);
  const { url: jwks, requested } = await keyServer(() => ({ body: JSON.stringify({ keys: served }) }));
  const clock = steppedClock(now);
  const { url } = await serving(opened(), { set: [`service.tokens.jwks_url=${jwks}`], clock });
  expect(requested).toHaveLength(0);
  const first = await sign('RS256', pairs.RS256.privateKey);
  expect([await answered(url, first), await answered(url, first)]).toEqual([
    [200, null],
    [200, null],
  ]);
  expect(requested).toHaveLength(1);
  const second = await sign('ES256', pairs.ES256.privateKey);
  for (const _ of [1, 2, 3]) expect(await answered(url, second)).toEqual(refused);
  expect(requested).toHaveLength(1);
  served = keys;
  clock.forward(10_000);
  expect(await answered(url, second)).toEqual([200, null]);
  expect(requested).toHaveLength(2);
});

test.each([
  ['is down', () => null],
  ['fails', () => ({ status: 500, body: '{}' })],
  ['sends invalid JSON', () => ({ body: '<html>' })],
  ['sends another document', () => ({ body: '{"keys":{"a":1}}' })],
  ['sends too much', () => ({ body: `{"keys":[${'{"kty":"RSA"},'.repeat(20_000)}{}]}` })],
  ['redirects', () => ({ status: 302, body: '', headers: { location: 'http://127.0.0.1:9/' } })],
])('gives 503 while the server of the key set %s, and keeps known keys', async (_, broken) => {
  const { pairs, keys, sign } = await issuerKeys();
  let up = false;
  const { url: jwks, requested } = await keyServer(() =>
    up ? { body: JSON.stringify({ keys: keys.slice(0, 1) }) } : broken(),
  );
  const clock = steppedClock(now);
  const printed: string[] = [];
  const log = { debug() {}, info() {}, warn: (facts: object) => void printed.push(JSON.stringify(facts)), error() {} };
  const { url, key } = await serving(opened(), { set: [`service.tokens.jwks_url=${jwks}`], clock, log });
  const token = await sign('RS256', pairs.RS256.privateKey);
  const answer = await fetch(`${url}/api/v1/bots`, bearer(token));
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
  expect(await answer.text()).not.toContain('127.0.0.1');
  expect(await answered(url, token)).toEqual([503, null]);
  expect([requested.length, printed.length]).toEqual([1, 1]);
  // API keys do not depend on the key set.
  expect((await fetch(`${url}/api/v1/me`, bearer(key))).status).toBe(200);
  // HS256 is not allowed for a key set.
  expect(await answered(url, crafted(hs256, claims))).toEqual(refused);
  up = true;
  clock.forward(10_000);
  expect(await answered(url, token)).toEqual([200, null]);
  up = false;
  clock.forward(10 * 60_000 - 10_000);
  const later = await sign('RS256', pairs.RS256.privateKey, {}, { ...claims, exp: seconds + 3_600 });
  expect(await answered(url, later)).toEqual([200, null]);
  clock.forward(10_000);
  expect(
    await answered(
      url,
      await sign('RS256', pairs.RS256.privateKey, { kid: 'new' }, { ...claims, exp: seconds + 3_600 }),
    ),
  ).toEqual([503, null]);
});
