import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { bucket, type ObjectServer, openStore, startServer } from './server.ts';

// The other tests mean something only if the server is as strict as S3: none of these may pass against a mock.
describe('the S3 server of the tests', needsObjectStorage(), () => {
  let server: ObjectServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.stop());
  const bytes = Buffer.from('some bytes');
  const open = (more: { secret?: string; limits?: { attemptsMax: number } } = {}) =>
    openStore({ endpoint: server.endpoint, prefix: 'strict', ...more });

  test('refuses a wrong secret', async () => {
    const store = await open({ secret: 'not-the-secret' });
    await expect(store.put('a', bytes, sha256(bytes), 'always', 'text/plain')).rejects.toMatchObject({ exitCode: 3 });
    await expect(store.get('a')).rejects.toMatchObject({ exitCode: 3 });
  });

  test('refuses an unsigned request', async () => {
    const url = `${server.endpoint}/${bucket}/strict/unsigned`;
    expect((await fetch(url, { method: 'PUT', body: bytes })).status).toBe(403);
    expect((await fetch(`${server.endpoint}/${bucket}?list-type=2`)).status).toBe(403);
    expect(await (await open()).get('unsigned')).toBeNull();
  });

  test('refuses bytes that differ from their checksum, and keeps the object that was there', async () => {
    const store = await open();
    const other = sha256(Buffer.from('other bytes'));
    await expect(store.put('sum', bytes, other, 'always', 'text/plain')).rejects.toMatchObject({
      message: expect.stringContaining('400'),
    });
    expect(await store.head('sum')).toBeNull();
    await store.put('sum', bytes, sha256(bytes), 'always', 'text/plain');
    await expect(store.put('sum', Buffer.from('x'), other, 'always', 'text/plain')).rejects.toThrow();
    expect(await store.head('sum')).toMatchObject({ bytes: bytes.length, sha256: sha256(bytes) });
  });

  test('lets one of twelve conditional writes win, each time', async () => {
    const stores = await Promise.all(Array.from({ length: 12 }, () => open()));
    let etag: string | null = null;
    for (let round = 0; round < 5; round++) {
      const condition = etag === null ? 'absent' : { etag };
      const results: ({ readonly etag: string } | null)[] = await Promise.all(
        stores.map((store, i) => {
          const mine = Buffer.from(`${round} ${i}`);
          return store.put('race', mine, sha256(mine), condition, 'text/plain');
        }),
      );
      const winners = results.filter((result) => result !== null);
      expect(winners).toHaveLength(1);
      etag = winners[0]!.etag;
    }
  });
});
