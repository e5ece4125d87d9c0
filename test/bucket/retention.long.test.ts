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

  test('removes nothing if a manifest that counts cannot be read, or the policy forbids it', async () => {
    const { archive, prefix, store } = await unpushed();
    for (let n = 0; n < 3; n++) {
      await pushNow(archive, store, { retention: { keepGenerations: 30, keepMs: dayMs } });
      await publishMore(archive, 0, 0.6 + n / 100);
    }
    age(prefix, 30);
    const data = objectsOf(prefix, 'data');
    const denied = await proxied(prefix, { answer: (one) => (one.method === 'POST' ? 403 : null) });
    const result = await pushNow(archive, denied.store, { retention });
    expect(result).toMatchObject({ outcome: 'pushed', removed: 0, warnings: [expect.stringContaining('policy')] });
    age(prefix, 30);
    await publishMore(archive, 0, 0.9);
    const [newest] = objectsOf(prefix, 'manifests').reverse();
    writeFileSync(join(folderOf(prefix), 'manifests', newest!), 'not json');
    expect((await pushNow(archive, store, { retention })).warnings).toEqual([
      expect.stringContaining('cannot be read'),
    ]);
    expect(objectsOf(prefix, 'data')).toEqual(expect.arrayContaining(data));
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

    // The objects of a manifest that is gone are unknown.
    const lost = 'tables/ticks/000001-000000000000.json';
    await putMarker(lost);
    expect(await pushOlder(0.6)).toMatchObject({ removed: 0, warnings: [expect.stringContaining('cannot be read')] });
    await store.remove([lost, marker]);
    await pushOlder(0.61);
    for (const path of [manifest, ...named.map(({ key }) => key)]) expect(present()).not.toContain(path);
  });

  test('an old object that no manifest names is not used again, since a retention may be removing it', async () => {
    const { archive, prefix, store } = await unpushed();
    // An interrupted push left all objects.
    const { store: cut } = await proxied(prefix, {
      answer: ({ method, path }) => (method === 'PUT' && path.includes('manifests/') ? 403 : null),
    });
    await expect(pushNow(archive, cut)).rejects.toMatchObject({ exitCode: 3 });
    const left = objectsOf(prefix, 'data');
    expect(left.length).toBeGreaterThan(3);
    age(prefix, 30);
    expect(await pushNow(archive, store)).toMatchObject({ reused: 0, uploaded: { files: left.length } });
    const { files } = (await readRemoteManifest(store))!;
    for (const { key } of files) expect(key).toMatch(/-r1\.parquet$/);
    expect(await readGeneration(store)).toEqual(hashesOf(archive));
  });
});
