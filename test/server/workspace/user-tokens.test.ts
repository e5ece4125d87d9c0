import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { expect, test } from 'vitest';
import { UsageError } from '../../../src/base/errors.ts';
import { systemClock } from '../../../src/base/system.ts';
import {
  fetchKeySet,
  issueUserToken,
  openUserTokenVerifier,
  type UserTokenSettings,
} from '../../../src/server/workspace/user-tokens.ts';
import { now, scratchFolder } from '../../archive/scratch.ts';
import { limitMs } from '../../harness/limits.ts';
import { listen } from '../../harness/listen.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const secret = 'a secret of more than 32 characters, for tests';
const none: UserTokenSettings = { issuer: 'i', audience: 'a', secret: null, jwksUrl: null, jwksFile: null };
const requested = { user: 'alice', workspace: null, scopes: [], expiresAt: now + 60_999 };

test('a token has exactly the documented claims', async () => {
  const token = await issueUserToken(
    { ...none, secret },
    { ...requested, scopes: ['research'], workspace: 'trading' },
    now,
  );
  expect(decodeProtectedHeader(token)).toEqual({ alg: 'HS256', typ: 'JWT' });
  expect(decodeJwt(token)).toEqual({
    sub: 'alice',
    iss: 'i',
    aud: 'a',
    workspace: 'trading',
    scope: 'research',
    iat: Math.floor(now / 1000),
    exp: Math.floor(now / 1000) + 60,
  });
  expect(decodeJwt(await issueUserToken({ ...none, secret }, { ...requested, jti: 'id' }, now)).jti).toBe('id');
  expect(Object.keys(decodeJwt(await issueUserToken({ ...none, secret }, requested, now)))).toEqual([
    'sub',
    'iss',
    'aud',
    'iat',
    'exp',
  ]);
});

test('a token is valid only with the same secret, issuer and audience', async () => {
  const token = await issueUserToken({ ...none, secret }, requested, now);
  const user = async (settings: Partial<UserTokenSettings>) =>
    (await openUserTokenVerifier({ ...none, secret, ...settings }, systemClock, silent)).verify(token, now);
  expect(await user({})).toEqual({ kind: 'user', user: 'alice', workspace: null, scopes: [] });
  for (const other of [{ secret: `${secret}.` }, { issuer: 'j' }, { audience: 'b' }, { secret: null }])
    expect(await user(other), JSON.stringify(other)).toBeNull();
});

test.each([
  ['without a secret', {}, /ODDSLAKE_TOKEN_SECRET/, { secret: null }],
  ['for a blank user', { user: ' ' }, /--user/, {}],
  ['for a user of two lines', { user: 'a\nb' }, /--user/, {}],
  ['for an empty workspace', { workspace: '' }, /--workspace/, {}],
  ['that expires in the past', { expiresAt: now }, /must be in the future/, {}],
])('issues no token %s', async (_, token, sentence, settings) => {
  const issuing = issueUserToken({ ...none, secret, ...settings }, { ...requested, ...token }, now);
  await expect(issuing).rejects.toThrow(UsageError);
  await expect(issuing).rejects.toThrow(sentence);
});

test('rejects invalid settings at startup', async () => {
  const file = `${scratchFolder()}/jwks.json`;
  const text = (content: string): string => {
    writeFileSync(file, content);
    return file;
  };
  const cases: [Partial<UserTokenSettings>, RegExp][] = [
    [{ secret, jwksUrl: 'https://example.org/jwks' }, /Set only one/],
    [{ jwksFile: file, jwksUrl: 'https://example.org/jwks' }, /Set only one/],
    [{ jwksUrl: 'file:///etc/passwd' }, /jwks_url: expected an https URL/],
    [{ jwksUrl: 'https://me:hunter22@example.org/' }, /without credentials/],
    [{ jwksUrl: 'nowhere' }, /jwks_url/],
    [{ jwksFile: `${file}.none` }, /jwks_file .*the file does not exist/],
    [{ jwksFile: text('{"keys"') }, /not JSON/],
  ];
  for (const [settings, sentence] of cases) {
    const opening = openUserTokenVerifier({ ...none, ...settings }, systemClock, silent);
    await expect(opening, JSON.stringify(settings)).rejects.toThrow(UsageError);
    await expect(opening).rejects.toThrow(sentence);
    await expect(opening).rejects.not.toThrow('hunter22');
  }
  await expect(openUserTokenVerifier({ ...none, jwksFile: text('[]') }, systemClock, silent)).rejects.toThrow(
    /not a key set/,
  );
});

test('gives up on a key set that is slow or too long', async () => {
  const server = createServer((request, response) => {
    if (request.url === '/silent') return;
    response.writeHead(200);
    const more = (): void => {
      if (!response.destroyed) response.write(' '.repeat(10_000), () => setImmediate(more));
    };
    more();
  });
  const url = await listen(server);
  await expect(fetchKeySet(`${url}/silent`, 50)).rejects.toThrow(/timeout/);
  await expect(fetchKeySet(`${url}/endless`, limitMs)).rejects.toThrow(/longer than 262144 bytes/);
});
