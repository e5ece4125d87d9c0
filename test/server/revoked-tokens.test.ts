import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { exportJWK, SignJWT } from 'jose';
import { expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { systemRandomBytes } from '../../src/base/system.ts';
import { hourMs } from '../../src/base/window.ts';
import type { DatabaseLocation } from '../../src/server/workspace/database-url.ts';
import { parseRevokedToken } from '../../src/server/workspace/user-tokens.ts';
import { openWorkspace, type Workspace } from '../../src/server/workspace/workspace.ts';
import { now, opened, scratchFolder } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { answered, claims, crafted, hs256, refused, seconds, secret } from './forged-tokens.ts';
import { serving } from './serving.ts';
import { administer, freshDatabase, needsPostgres, overEachDatabase } from './workspace/databases.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

const withSecret = [`service.tokens.secret=${secret}`];
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const good = [200, null];

const tokenWith = (more: object): string => crafted(hs256, { ...claims, ...more });

/** The workspace of a command: another process with the same database. */
const cliAt = (location: DatabaseLocation): Promise<Workspace> =>
  openWorkspace({ location, tokens: null, randomBytes: systemRandomBytes, clock: steppedClock(now), log: silent });

const byId = (...jtis: string[]) => ({ tokens: jtis.map((jti) => ({ jti, expiresAt: null })), user: null });
const byUser = (user: string, issuedBefore: number) => ({ tokens: [], user: { user, issuedBefore } });

overEachDatabase((kind) => {
  test('a token that another process revokes is valid for up to a minute, and for no longer', async () => {
    const database = await freshDatabase(kind);
    const clock = steppedClock(now);
    const { url, json } = await serving(opened(), { set: withSecret, database, clock });
    const [token, other] = [tokenWith({ jti: 'one' }), tokenWith({ jti: 'two' })];
    expect(await answered(url, token)).toEqual(good);
    const cli = await cliAt(database);
    await cli.revokeTokens(byId('one'), now);
    clock.forward(59_999);
    expect(await answered(url, token)).toEqual(good);
    clock.forward(1);
    expect(await answered(url, token)).toEqual(refused);
    expect(await answered(url, other)).toEqual(good);
    expect(await answered(url, tokenWith({}))).toEqual(good);
    const { body } = await json('/api/v1/me', { headers: { authorization: `Bearer ${token}` } });
    expect(body.detail).toBe('The token was revoked.');
    // A forged token with this ID learns nothing.
    const forged = crafted(hs256, { ...claims, jti: 'one' }, 'another secret of more than 32 characters');
    const answer = await json('/api/v1/me', { headers: { authorization: `Bearer ${forged}` } });
    expect(answer.body.detail).toBe('The credential is invalid, expired or revoked.');
    await cli.close();
  });

  test('revoking in the same process takes effect at once', async () => {
    const { url, workspace } = await serving(opened(), { set: withSecret, database: await freshDatabase(kind) });
    const token = tokenWith({ jti: 'one' });
    expect(await answered(url, token)).toEqual(good);
    await workspace.revokeTokens(byId('one'), now);
    expect(await answered(url, token)).toEqual(refused);
  });

  test('revoking by user ends the tokens issued before a time, in every workspace', async () => {
    const { url, workspace } = await serving(opened(), { set: withSecret, database: await freshDatabase(kind) });
    const issued = (iat: number | undefined, more: object = {}) => tokenWith({ iat, ...more });
    await workspace.revokeTokens(byUser('alice', (seconds - 10) * 1000), now);
    expect(await answered(url, issued(seconds - 11))).toEqual(refused);
    expect(await answered(url, issued(seconds - 11, { workspace: 'trading', jti: 'x' }))).toEqual(refused);
    expect(await answered(url, issued(undefined))).toEqual(refused);
    expect(await answered(url, issued(seconds - 10))).toEqual(good);
    expect(await answered(url, issued(seconds - 11, { sub: 'bob' }))).toEqual(good);
    // An earlier time does not take back a later one.
    await workspace.revokeTokens(byUser('alice', (seconds - 20) * 1000), now);
    expect(await answered(url, issued(seconds - 11))).toEqual(refused);
    await workspace.revokeTokens(byUser('alice', (seconds - 5) * 1000 + 1), now);
    expect(await answered(url, issued(seconds - 5))).toEqual(refused);
    expect(await answered(url, issued(seconds - 4))).toEqual(good);
    expect(await workspace.listTokenRevocations(now)).toEqual([
      { jti: null, user: 'alice', issued_before: (seconds - 5) * 1000 + 1, revoked_at: now, expires_at: null },
    ]);
  });

  test('the revocation of an expired token is removed', async () => {
    const cli = await cliAt(await freshDatabase(kind));
    const token = tokenWith({ jti: 'short' });
    await cli.revokeTokens({ tokens: [parseRevokedToken(token)], user: null }, now);
    await cli.revokeTokens(byId('long'), now + 1);
    const listed = async (at: number) => (await cli.listTokenRevocations(at)).map(({ jti }) => jti);
    const expiresAt = (seconds + 600) * 1000;
    expect(await listed(expiresAt - 1)).toEqual(['long', 'short']);
    expect(await listed(expiresAt)).toEqual(['long']);
    await cli.revokeTokens(byId('more', 'long'), expiresAt);
    const stored = await cli.db.selectFrom('revoked_tokens').select(['jti', 'revoked_at']).orderBy('jti').execute();
    // Revoking again keeps the first time.
    expect(stored).toEqual([
      { jti: 'long', revoked_at: now + 1 },
      { jti: 'more', revoked_at: expiresAt },
    ]);
    await cli.close();
  });

  test('processes that revoke the same at the same time do not fail', async () => {
    const location = await freshDatabase(kind);
    const processes = [await cliAt(location), await cliAt(location), await cliAt(location)];
    await Promise.all(
      processes.flatMap((cli, i) => [
        cli.revokeTokens({ ...byId('one', 'two'), user: { user: 'alice', issuedBefore: now - i } }, now),
        cli.revokeTokens(byUser('alice', now - 10 + i), now),
      ]),
    );
    const listed = await processes[0]!.listTokenRevocations(now);
    expect(listed.map(({ jti }) => jti).sort()).toEqual([null, 'one', 'two'].sort());
    expect(listed.find(({ user }) => user === 'alice')!.issued_before).toBe(now);
    for (const cli of processes) await cli.close();
  });
});

test('tokens of an outside issuer are revoked by jti and by user', async () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const file = `${scratchFolder()}/jwks.json`;
  writeFileSync(file, JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'EdDSA' }] }));
  const { url, workspace } = await serving(opened(), { set: [`service.tokens.jwks_file=${file}`] });
  const sign = (more: object) =>
    new SignJWT({ ...claims, ...more }).setProtectedHeader({ alg: 'EdDSA', kid: 'k' }).sign(privateKey);
  const long = `urn:uuid:${'x'.repeat(900)}`;
  const [byJti, ofUser, other] = [
    await sign({ jti: long }),
    await sign({ sub: 'auth0|7', iat: seconds - 1 }),
    await sign({ jti: 'z' }),
  ];
  for (const token of [byJti, ofUser, other]) expect(await answered(url, token)).toEqual(good);
  await workspace.revokeTokens({ ...byId(long), user: { user: 'auth0|7', issuedBefore: now } }, now);
  expect(await answered(url, byJti)).toEqual(refused);
  expect(await answered(url, ofUser)).toEqual(refused);
  expect(await answered(url, other)).toEqual(good);
});

test('while the database is unavailable, the last list counts for five minutes', needsPostgres, async () => {
  const database = await freshDatabase('postgres');
  const clock = steppedClock(now);
  const { url } = await serving(opened(), { set: withSecret, database, clock });
  const cli = await cliAt(database);
  await cli.revokeTokens(byId('one'), now);
  await cli.close();
  const exp = seconds + 3600;
  const [revoked, token] = [tokenWith({ jti: 'one', exp }), tokenWith({ jti: 'two', exp })];
  expect(await answered(url, token, '/api/v1/me')).toEqual(good);
  const name = new URL((database as { url: string }).url).pathname.slice(1);
  await administer(`alter database ${name} with allow_connections false`);
  await administer(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
  clock.forward(299_999);
  expect(await answered(url, token, '/api/v1/me')).toEqual(good);
  expect(await answered(url, revoked, '/api/v1/me')).toEqual(refused);
  clock.forward(1);
  for (const each of [token, revoked]) expect((await answered(url, each, '/api/v1/me'))[0]).toBe(503);
  await administer(`alter database ${name} with allow_connections true`);
  await waitFor(async () => (await answered(url, token, '/api/v1/me'))[0] === 200, 'the database');
  expect(await answered(url, revoked, '/api/v1/me')).toEqual(refused);
});

test.each<[string, Parameters<Workspace['revokeTokens']>[0], RegExp]>([
  ['nothing', byId(), /Give the ID of a token/],
  ['an empty ID', byId('a', ''), /The ID of a token must have 1 to 1000/],
  ['a long ID', byId('x'.repeat(1_001)), /1 to 1000/],
  ['an ID of two lines', byId('a\nb'), /on one line/],
  ['an empty user', byUser('', now), /--user must have/],
  ['a time in the future', byUser('alice', now + 1), /--issued-before must not be in the future/],
])('revoking %s is a usage error, and revokes nothing', async (_, revocation, sentence) => {
  const cli = await cliAt(await freshDatabase('sqlite'));
  const error = await cli.revokeTokens(revocation, now).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UsageError);
  expect((error as Error).message).toMatch(sentence);
  expect(await cli.listTokenRevocations(now + hourMs)).toEqual([]);
  await cli.close();
});

test('a token without jti cannot be revoked by itself', () => {
  expect(() => parseRevokedToken(tokenWith({}))).toThrow(/oddslake tokens revoke --user/);
  expect(parseRevokedToken('a.b.c')).toEqual({ jti: 'a.b.c', expiresAt: null });
});
