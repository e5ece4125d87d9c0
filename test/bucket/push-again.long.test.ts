import { readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { systemClock } from '../../src/base/system.ts';
import { hourMs } from '../../src/base/window.ts';
import { readRemoteManifest } from '../../src/bucket/bucket-manifest.ts';
import { formatRemoteViews } from '../../src/bucket/finish-push.ts';
import { takePushLock } from '../../src/bucket/push.ts';
import { verifyBucket } from '../../src/bucket/verify-bucket.ts';
import { waitFor } from '../harness/limits.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { hashesOf, publishedArchive, publishMore, pushNow, readGeneration } from './pushed.ts';
import { copyOf, useServer } from './use-server.ts';

// What a push mends, and what it leaves to the next one.

describe('a push', needsObjectStorage(), () => {
  const { newPrefix, open, folderOf, objectsOf, proxied, unpushed, pushed } = useServer();

  test('uploads objects again that something else has removed, and warns', async () => {
    const { archive, prefix, store } = await pushed();
    const { files } = (await readRemoteManifest(store))!;
    const kept = new Set(Object.values(hashesOf(archive)));
    await publishMore(archive, 1);
    const still = new Set(Object.values(hashesOf(archive)));
    const unchanged = files.filter(({ sha256: hash }) => kept.has(hash) && still.has(hash));
    expect(unchanged.length).toBeGreaterThan(1);
    for (const { key } of unchanged.slice(0, 2)) rmSync(join(folderOf(prefix), key));
    const { warnings, uploaded, requests } = await pushNow(archive, store);
    expect(warnings).toEqual([expect.stringContaining('named 2 missing objects, which this push has uploaded again')]);
    expect(requests.writes).toBeGreaterThan(uploaded.files);
    expect((await verifyBucket(store, { downloads: true, repairsFrom: null })).findings).toEqual([]);
    expect(await readGeneration(store)).toEqual(hashesOf(archive));
    // The manifest before, which names the same objects, is whole again too.
    for (const { key } of unchanged) expect(await store.head(key)).not.toBeNull();
    await publishMore(archive, 2);
    expect((await pushNow(archive, store)).warnings).toEqual([]);
  });

  test('does not upload an object again from a damaged file', async () => {
    const { archive, prefix, store } = await pushed();
    const before = await readGeneration(store);
    const { files } = (await readRemoteManifest(store))!;
    await publishMore(archive, 1);
    const still = new Set(Object.values(hashesOf(archive)));
    const { key, path } = files.find(({ sha256: hash }) => still.has(hash))!;
    rmSync(join(folderOf(prefix), key));
    const local = join(archive.layout.root, path);
    const bytes = readFileSync(local);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(local, bytes);
    await expect(pushNow(archive, store)).rejects.toMatchObject({
      name: 'DamageError',
      message: expect.stringContaining(path),
    });
    expect([...archive.refusedPaths]).toEqual([path]);
    expect(Object.keys((await readGeneration(store))!)).toEqual(Object.keys(before!));
  });

  test('of an archive restored from a backup stays refused, whatever it publishes, until it is pushed on top', async () => {
    const { archive, store } = await unpushed();
    const backup = await copyOf(archive);
    await publishMore(archive, 1, 0.1);
    await pushNow(archive, store);
    for (const price of [0.6, 0.7, 0.8]) {
      // Each replaces all files that differ.
      await publishMore(backup, 1, price);
      await expect(pushNow(backup, store)).rejects.toMatchObject({ exitCode: 2 });
    }
    expect(await readGeneration(store)).toEqual(hashesOf(archive));
    expect(await pushNow(backup, store, { restores: true })).toMatchObject({ generation: 4, sequence: 2 });
    await publishMore(backup, 2);
    expect(await pushNow(backup, store)).toMatchObject({ generation: 5, sequence: 3 });
    expect(await readGeneration(store)).toEqual(hashesOf(backup));
  });

  test.each([
    ['views.sql', /^views\.sql was not replaced; the next push does it: /],
    ['README.md', /^README\.md was not written; the next push does it: /],
  ])(
    'whose %s fails has pushed the generation, with a warning, and the next push does the rest',
    async (name, text) => {
      const archive = await publishedArchive();
      const prefix = newPrefix();
      const broken = await proxied(prefix, {
        answer: ({ method, path }) => (method === 'PUT' && path.includes(`/${name}`) ? 503 : null),
      });
      expect(await pushNow(archive, broken.store)).toMatchObject({
        outcome: 'pushed',
        generation: 1,
        warnings: [expect.stringMatching(text)],
      });
      expect(await readGeneration(broken.store)).toEqual(hashesOf(archive));
      expect(objectsOf(prefix)).not.toContain(name);
      const store = await open(prefix);
      expect(await pushNow(archive, store)).toMatchObject({ outcome: 'unchanged', warnings: [] });
      expect(objectsOf(prefix)).toContain(name);
      const views = Buffer.from((await store.get('views.sql'))!.bytes).toString('utf8');
      expect(views).toBe(formatRemoteViews(store.url, (await readRemoteManifest(store))!));
      expect(await pushNow(archive, await open(prefix))).toMatchObject({ requests: { reads: 1, writes: 0 } });
    },
  );

  test('is refused by name where the server, or a proxy, takes no ETag for the right one', async () => {
    const noMatch = { answer: (_: object, headers: Record<string, unknown>) => (headers['if-match'] ? 412 : null) };
    const first = await unpushed();
    const { store: probed } = await proxied(first.prefix, noMatch);
    await expect(pushNow(first.archive, probed)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('without conditional writes'),
    });
    const { archive, prefix } = await pushed();
    await publishMore(archive, 1);
    const { store } = await proxied(prefix, noMatch);
    await expect(pushNow(archive, store)).rejects.toMatchObject({
      exitCode: 1,
      message: expect.stringContaining('although no other push has'),
    });
  });

  test('into a prefix inside of an archive is refused, and beside one is not', async () => {
    const { archive, prefix } = await pushed();
    const before = objectsOf(prefix);
    for (const inside of [`${prefix}/data`, `${prefix}/a/b`]) {
      const store = await open(inside);
      await expect(pushNow(archive, store)).rejects.toMatchObject({ exitCode: 2 });
    }
    expect(objectsOf(prefix)).toEqual(before);
    expect(await pushNow(archive, await open(`${prefix}-beside/a`))).toMatchObject({ outcome: 'pushed' });
  });

  test('removes the probes of earlier ones that could not', async () => {
    const { archive, prefix, store } = await unpushed();
    const bytes = Buffer.from('x');
    for (const name of ['old', 'new']) await store.put(`.probe/${name}`, bytes, sha256(bytes), 'always', 'text/plain');
    const hoursAgo = new Date(Date.now() - 2 * hourMs);
    utimesSync(join(folderOf(prefix), '.probe/old'), hoursAgo, hoursAgo);
    await pushNow(archive, store);
    expect(objectsOf(prefix, '.probe')).toEqual(['new']);
  });

  test('of an earlier generation does not end after that of a later one, without conditional writes either', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    const withoutConditions = {
      answer: (_: object, headers: Record<string, unknown>) =>
        (headers['if-match'] ?? headers['if-none-match']) ? 501 : null,
    };
    const options = { isSingleWriter: true };
    const { store } = await proxied(prefix, withoutConditions);
    await pushNow(archive, store, options);
    await publishMore(archive, 1);
    let isHeld = false;
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow = await proxied(prefix, {
      ...withoutConditions,
      async hold({ method, path }) {
        if (method !== 'PUT' || !path.includes('/manifest.json')) return;
        isHeld = true;
        await released;
      },
    });
    /** As the commands push. */
    const pushLocked = async (through: typeof store): Promise<void> => {
      const lock = await takePushLock(archive, 60_000, systemClock, new AbortController().signal);
      try {
        await pushNow(archive, through, options);
      } finally {
        lock.release();
      }
    };
    const earlier = pushLocked(slow.store);
    await waitFor(() => isHeld, 'the swap of the earlier push');
    await publishMore(archive, 2);
    const later = pushLocked(store);
    await new Promise((resolve) => setTimeout(resolve, 300));
    release();
    await Promise.all([earlier, later]);
    expect(await readGeneration(store)).toEqual(hashesOf(archive));
  });
});
