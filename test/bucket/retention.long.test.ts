import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { dayMs } from '../../src/base/window.ts';
import { readRemoteManifest, toManifestPath } from '../../src/bucket/bucket-manifest.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { hashesOf, publishMore, pushNow, readGeneration } from './pushed.ts';
import { useServer } from './use-server.ts';

describe('the retention of a push', needsObjectStorage(), () => {
  const { folderOf, objectsOf, age, proxied, unpushed, pushed } = useServer();
  const retention = { keepGenerations: 2, keepMs: dayMs };

  test('keeps what the last manifests name, removes the rest below data/ only, and touches no foreign object', async () => {
    const { archive, prefix, store } = await pushed({ retention });
    const foreign = [
      'data/ticks/notes.txt',
      'data/ticks/date=2026-06-01/part-00.parquet',
      'notes.txt',
      'manifests/notes.json',
    ];
    for (const path of foreign) {
      mkdirSync(join(folderOf(prefix), path, '..'), { recursive: true });
      writeFileSync(join(folderOf(prefix), path), 'mine');
    }
    const generations = [await readGeneration(store)];
    for (let n = 1; n <= 4; n++) {
      age(prefix, 30);
      await publishMore(archive, 0, 0.5 + n / 100);
      await publishMore(archive, n);
      await pushNow(archive, store, { retention });
      generations.push(await readGeneration(store));
      expect(generations.at(-1)).toEqual(hashesOf(archive));
    }
    for (const path of foreign) expect(existsSync(join(folderOf(prefix), path)), path).toBe(true);
    const manifests = objectsOf(prefix, 'manifests').filter((path) => /^\d/.test(path));
    expect(manifests.map((path) => Number(path.slice(0, 6)))).toEqual([4, 5]);
    const named = new Set<string>();
    for (const path of manifests) {
      const { datasets } = JSON.parse(readFileSync(join(folderOf(prefix), 'manifests', path), 'utf8'));
      for (const { files } of Object.values(datasets) as { files: { key: string }[] }[])
        for (const { key } of files) named.add(key);
    }
    const present = objectsOf(prefix, 'data').map((path) => `data/${path}`);
    expect(present).toEqual(expect.arrayContaining([...named]));
    expect(present.filter((path) => !named.has(path))).toEqual(foreign.slice(0, 2).sort());
  });

  test('keeps the objects of replaced manifests for keep_days, however many followed', async () => {
    const { archive, store } = await pushed({ retention });
    const held = (await readRemoteManifest(store))!;
    for (let n = 1; n <= 5; n++) {
      await publishMore(archive, 0, 0.5 + n / 100);
      expect(await pushNow(archive, store, { retention })).toMatchObject({ removed: 0 });
    }
    for (const { key, sha256: hash } of held.files) expect(sha256((await store.get(key))!.bytes)).toBe(hash);
  });

  test('removes nothing if the policy forbids it, and what it left once it may', async () => {
    const { archive, prefix, store } = await unpushed();
    for (let n = 0; n < 3; n++) {
      await pushNow(archive, store, { retention: { keepGenerations: 30, keepMs: dayMs } });
      await publishMore(archive, 0, 0.6 + n / 100);
      age(prefix, 30);
    }
    const data = objectsOf(prefix, 'data');
    const denied = await proxied(prefix, { answer: (one) => (one.method === 'POST' ? 403 : null) });
    const result = await pushNow(archive, denied.store, { retention });
    expect(result).toMatchObject({ outcome: 'pushed', removed: 0, warnings: [expect.stringContaining('policy')] });
    expect(objectsOf(prefix, 'data')).toEqual(expect.arrayContaining(data));
    await publishMore(archive, 0, 0.9);
    // The manifests are not read for it.
    for (const path of objectsOf(prefix, 'manifests'))
      writeFileSync(join(folderOf(prefix), 'manifests', path), 'no json');
    age(prefix, 30);
    expect((await pushNow(archive, store, { retention })).removed).toBeGreaterThan(0);
    const { files, bucket } = (await readRemoteManifest(store))!;
    const held = [...files.map(({ key }) => key), ...bucket.earlier.flatMap(({ dropped }) => dropped)];
    expect(objectsOf(prefix, 'data').map((path) => `data/${path}`)).toEqual(held.sort());
    expect(objectsOf(prefix, 'manifests')).toHaveLength(2);
  });

  test('a removal is not retried, because its objects may be back by then; the next push lists them again', async () => {
    const { archive, prefix, store } = await unpushed();
    const few = { keepGenerations: 1, keepMs: dayMs };
    await pushNow(archive, store, { retention: few });
    const first = objectsOf(prefix, 'data');
    for (const price of [0.6, 0.7]) {
      age(prefix, 30);
      await publishMore(archive, 0, price);
      if (price === 0.6) await pushNow(archive, store, { retention: { ...few, keepGenerations: 30 } });
    }
    const { proxy, store: broken } = await proxied(prefix, {
      answer: ({ method }) => (method === 'POST' ? 503 : null),
    });
    expect(await pushNow(archive, broken, { retention: few })).toMatchObject({
      outcome: 'pushed',
      removed: 0,
      warnings: [expect.stringMatching(/^old objects were not removed; the next push does it: .* failed once/)],
    });
    expect(proxy.seen.filter(({ method }) => method === 'POST')).toHaveLength(1);
    expect(objectsOf(prefix, 'data')).toEqual(expect.arrayContaining(first));
    const { removed, outcome } = await pushNow(archive, store, { retention: few });
    expect(outcome).toBe('unchanged');
    expect(removed).toBeGreaterThan(0);
    expect(await readGeneration(store)).toEqual(hashesOf(archive));
  });

  test('keeps what a marker declares for its dataset, until the marker is removed', async () => {
    const { archive, prefix, store } = await pushed({ retention });
    const marked = (await readRemoteManifest(store))!;
    const manifest = toManifestPath(1, marked.text);
    const marker = manifest.replace('manifests/', 'tables/ticks/');
    const putMarker = (path: string) =>
      store.put(path, Buffer.from('{}'), sha256(Buffer.from('{}')), 'always', 'text/plain');
    await putMarker(marker);
    const pushOlder = async (price: number) => {
      await publishMore(archive, 0, price);
      age(prefix, 30);
      return pushNow(archive, store, { retention });
    };
    for (let n = 1; n <= 4; n++) await pushOlder(0.5 + n / 100);
    const present = () => new Set(objectsOf(prefix));
    const named = marked.files.filter(({ path }) => path.startsWith('ticks/'));
    expect(named.length).toBeGreaterThan(0);
    for (const { key } of named) expect(present()).toContain(key);
    expect(present()).toContain(manifest);
    const current = new Set((await readRemoteManifest(store))!.files.map(({ key }) => key));
    const replaced = marked.files.filter(({ path, key }) => !path.startsWith('ticks/') && !current.has(key));
    expect(replaced.length).toBeGreaterThan(0);
    for (const { key } of replaced) expect(present()).not.toContain(key);

    // Its sequence says enough, even if the manifest is gone.
    const lost = 'tables/ticks/000001-000000000000.json';
    await putMarker(lost);
    await store.remove([marker]);
    await pushOlder(0.6);
    for (const { key } of named) expect(present()).toContain(key);
    expect(present()).not.toContain(manifest);
    await store.remove([lost]);
    await pushOlder(0.61);
    for (const path of [manifest, ...named.map(({ key }) => key)]) expect(present()).not.toContain(path);
  });

  test('what an interrupted push left is used by the next one, however old, as no other may remove it', async () => {
    const { archive, prefix, store } = await unpushed();
    const cut = async () => {
      const answer = ({ method, path }: { method: string; path: string }) =>
        method === 'PUT' && path.includes('manifests/') ? 403 : null;
      const { store: broken } = await proxied(prefix, { answer });
      await expect(pushNow(archive, broken, { retention })).rejects.toMatchObject({ exitCode: 3 });
      age(prefix, 30);
    };
    for (const sequence of [1, 2]) {
      const before = new Set(objectsOf(prefix, 'data'));
      await cut();
      const left = objectsOf(prefix, 'data').filter((path) => !before.has(path));
      expect(left.length).toBeGreaterThan(3);
      expect(await pushNow(archive, store, { retention })).toMatchObject({
        reused: left.length,
        uploaded: { files: 0 },
      });
      expect(await readGeneration(store)).toEqual(hashesOf(archive));
      for (const path of left) expect(path).toContain(`-r${sequence}.parquet`);
      await publishMore(archive, 0, 0.6);
    }
  });

  test('what an interrupted push left is removed once another one took its sequence', async () => {
    const { archive, prefix, store } = await pushed({ retention });
    await publishMore(archive, 0, 0.6);
    const { store: cut } = await proxied(prefix, {
      answer: ({ method, path }) => (method === 'PUT' && path.includes('/manifest.json') ? 403 : null),
    });
    await expect(pushNow(archive, cut, { retention })).rejects.toMatchObject({ exitCode: 3 });
    const left = objectsOf(prefix);
    for (const price of [0.7, 0.8, 0.9, 0.7]) {
      await publishMore(archive, 0, price);
      await pushNow(archive, store, { retention });
      age(prefix, 30);
    }
    expect(left.filter((path) => path.includes('-r2') || path.includes('/000002-'))).not.toEqual([]);
    const named = new Set((await readRemoteManifest(store))!.files.map(({ key }) => key));
    const present = objectsOf(prefix).filter((path) => left.includes(path) && !named.has(path));
    expect(present.filter((path) => /-r\d+\.parquet$|^manifests/.test(path))).toEqual([]);
    expect(await readGeneration(store)).toEqual(hashesOf(archive));
  });
});
