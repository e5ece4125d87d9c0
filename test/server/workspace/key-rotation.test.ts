import { expect, test } from 'vitest';
import type { UsageError } from '../../../src/base/errors.ts';
import { systemClock, systemRandomBytes } from '../../../src/base/system.ts';
import { dayMs } from '../../../src/base/window.ts';
import type { DatabaseLocation } from '../../../src/server/workspace/database-url.ts';
import { openWorkspace } from '../../../src/server/workspace/workspace.ts';
import { opened } from '../../archive/scratch.ts';
import { serving } from '../serving.ts';
import { freshDatabase, overEachDatabase } from './databases.ts';
import { steppedClock } from './stepped-clock.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const nowMs = Date.UTC(2026, 5, 4, 12);
const plain = { name: 'ci', expiresAt: null, requestsPerMinute: 7 };

const workspaceAt = (location: DatabaseLocation, clock = systemClock) =>
  openWorkspace({ location, tokens: null, randomBytes: systemRandomBytes, clock, log: silent });

overEachDatabase((kind) => {
  test('after a rotation both secrets are valid for the same key until the overlap ends', async () => {
    const location = await freshDatabase(kind);
    const clock = steppedClock(nowMs);
    const service = await workspaceAt(location, clock);
    const cli = await workspaceAt(location);
    const { id, key } = await cli.createKey({ ...plain, scopes: ['read'], datasets: ['ticks'] }, nowMs);
    const holder = await service.authenticate(key, nowMs);
    const rotated = await cli.rotateKey({ idOrName: 'ci', overlapMs: 5_000 }, nowMs + 1);
    expect(rotated).toEqual({ id, name: 'ci', key: rotated.key, expires_at: null, previous_until: nowMs + 5_001 });
    expect(rotated.key.slice(0, -43)).toBe(key.slice(0, -43));
    expect(rotated.key).not.toBe(key);
    // At once, although the key was read before.
    expect(await service.authenticate(rotated.key, nowMs + 1)).toEqual(holder);
    expect(await service.authenticate(key, nowMs + 5_000)).toEqual(holder);
    // To the millisecond, although the cached row is not read again.
    expect(await service.authenticate(key, nowMs + 5_001)).toBeNull();
    expect(await service.explainRejection(key, nowMs + 5_001)).toMatch(
      /was rotated, and this secret ended at 2026-06-04/,
    );
    expect(await service.authenticate(rotated.key, nowMs + 5_001)).toEqual(holder);
    expect((await cli.listKeys(nowMs + 2))[0]!.secrets).toEqual([
      { created_at: nowMs + 1, expires_at: null },
      { created_at: nowMs, expires_at: nowMs + 5_001 },
    ]);
    expect((await cli.listKeys(nowMs + 5_001))[0]!.secrets).toEqual([{ created_at: nowMs + 1, expires_at: null }]);
    await Promise.all([service.close(), cli.close()]);
  });

  test('without an overlap the earlier secrets end at once; revoking ends all', async () => {
    const workspace = await workspaceAt(await freshDatabase(kind), steppedClock(nowMs));
    const { id, key } = await workspace.createKey(plain, nowMs);
    const second = await workspace.rotateKey({ idOrName: key, overlapMs: dayMs }, nowMs);
    const third = await workspace.rotateKey({ idOrName: id, overlapMs: 2 * dayMs }, nowMs);
    const valid = async (at: number) => {
      const found = [];
      for (const text of [key, second.key, third.key]) found.push((await workspace.authenticate(text, at)) !== null);
      return found;
    };
    // The second rotation does not extend the overlap of the first.
    expect(await valid(nowMs + dayMs - 1)).toEqual([true, true, true]);
    expect(await valid(nowMs + dayMs)).toEqual([false, true, true]);
    await workspace.close();
    const again = await workspaceAt(await freshDatabase(kind), steppedClock(nowMs));
    const first = await again.createKey(plain, nowMs);
    const next = await again.rotateKey({ idOrName: first.id, overlapMs: 0 }, nowMs);
    expect(await again.authenticate(first.key, nowMs)).toBeNull();
    expect(await again.authenticate(next.key, nowMs)).not.toBeNull();
    await again.close();
  });

  test('revoking a rotated key ends both secrets', async () => {
    const location = await freshDatabase(kind);
    const [cli, service] = [await workspaceAt(location), await workspaceAt(location)];
    const { id, key } = await cli.createKey(plain, nowMs);
    const next = await cli.rotateKey({ idOrName: id, overlapMs: dayMs }, nowMs);
    await cli.revokeKeys([next.key], nowMs);
    for (const text of [key, next.key]) {
      expect(await service.authenticate(text, nowMs)).toBeNull();
      expect(await service.explainRejection(text, nowMs)).toBe('The key was revoked.');
    }
    await Promise.all([cli.close(), service.close()]);
  });

  test('a new expiry time does not extend the earlier secret', async () => {
    const workspace = await workspaceAt(await freshDatabase(kind));
    const { key } = await workspace.createKey({ ...plain, expiresAt: nowMs + 1_000 }, nowMs);
    const next = await workspace.rotateKey({ idOrName: 'ci', overlapMs: dayMs, expiresAt: nowMs + 5_000 }, nowMs);
    expect([next.expires_at, next.previous_until]).toEqual([nowMs + 5_000, nowMs + 1_000]);
    expect(await workspace.authenticate(key, nowMs + 1_000)).toBeNull();
    expect(await workspace.authenticate(next.key, nowMs + 4_999)).not.toBeNull();
    expect(await workspace.authenticate(next.key, nowMs + 5_000)).toBeNull();
    expect(await workspace.explainRejection(next.key, nowMs + 5_000)).toBe('The key expired at 2026-06-04T12:00:05Z.');
    await workspace.close();
  });

  test('rejects a rotation of a key that is unknown, ambiguous, expired or revoked, and too many secrets', async () => {
    const workspace = await workspaceAt(await freshDatabase(kind));
    const rotate = (idOrName: string, overlapMs = dayMs, at = nowMs) =>
      workspace.rotateKey({ idOrName, overlapMs }, at).then(
        () => 'rotated',
        (error: unknown) => (error as UsageError).message,
      );
    const { id } = await workspace.createKey({ ...plain, expiresAt: nowMs + 10 }, nowMs);
    expect(await rotate('nobody')).toMatch(/no key with this ID or name/);
    expect(await rotate(id, dayMs, nowMs + 10)).toMatch(/is expired/);
    const other = await workspace.createKey(plain, nowMs);
    expect(await rotate('ci')).toMatch(new RegExp(`Several active keys.*${id}`));
    await workspace.revokeKeys([other.id], nowMs);
    expect(await rotate(other.id)).toMatch(/is revoked/);
    for (let i = 0; i < 5; i++) expect(await rotate('ci')).toBe('rotated');
    expect(await rotate('ci')).toMatch(/has 5 earlier secrets/);
    expect(await rotate('ci', 0)).toBe('rotated');
    await workspace.close();
  });

  test('concurrent rotations lose no secret', async () => {
    const location = await freshDatabase(kind);
    const workspaces = [await workspaceAt(location), await workspaceAt(location)];
    const { id } = await workspaces[0]!.createKey(plain, nowMs);
    const rotated = await Promise.all(
      [0, 1, 2, 3].map((i) => workspaces[i % 2]!.rotateKey({ idOrName: id, overlapMs: dayMs }, nowMs)),
    );
    const [listed] = await workspaces[0]!.listKeys(nowMs);
    expect(listed!.secrets.map(({ expires_at }) => expires_at === null)).toEqual([true, false, false, false, false]);
    for (const { key } of rotated) expect(await workspaces[1]!.authenticate(key, nowMs)).not.toBeNull();
    for (const workspace of workspaces) await workspace.close();
  });
});

test('a 401 states why a key is no longer valid, to the holder of its secret only', async () => {
  const clock = steppedClock(nowMs);
  const { json, workspace } = await serving(opened(), { clock });
  const { key, id } = await workspace.createKey({ ...plain, expiresAt: nowMs + 1_000 }, nowMs);
  const detail = async (text: string) => {
    const { status, body, headers } = await json('/api/v1/me', { headers: { authorization: `Bearer ${text}` } });
    return [status, headers.get('www-authenticate'), body.detail];
  };
  expect((await detail(key))[0]).toBe(200);
  clock.forward(1_000);
  const challenge = 'Bearer error="invalid_token"';
  expect(await detail(key)).toEqual([401, challenge, 'The key expired at 2026-06-04T12:00:01Z.']);
  const unknown = [401, challenge, 'The credential is invalid, expired or revoked.'];
  expect(await detail(`olk_${id}_${'A'.repeat(43)}`)).toEqual(unknown);
  await workspace.revokeKeys([id], nowMs);
  clock.forward(1_000);
  expect(await detail(key)).toEqual([401, challenge, 'The key was revoked.']);
});
