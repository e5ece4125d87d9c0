import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { sha256, systemDisk } from '../../src/archive/disk/file-system.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { takeSnapshot } from '../../src/archive/read/snapshot.ts';
import { systemClock } from '../../src/base/system.ts';
import { dayMs } from '../../src/base/window.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { pullArchive } from '../../src/bucket/pull.ts';
import { readRemoteManifest } from '../../src/bucket/push.ts';
import { verifyBucket } from '../../src/bucket/verify-bucket.ts';
import { answer, append, day0, hashes, hourMs, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { type ProxyRules, startFaultProxy } from './fault-proxy.ts';
import { hashesOf, publishedArchive, publishMore, pushNow, readGeneration, readRoot } from './pushed.ts';
import { type ObjectServer, openStore, startServer } from './server.ts';

describe('a bucket', needsObjectStorage(), () => {
  let server: ObjectServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.stop());

  let prefixes = 0;
  const newPrefix = (): string => `p${++prefixes}`;
  const open = (prefix: string, more: Partial<Parameters<typeof openStore>[0]> = {}): Promise<ObjectStore> =>
    openStore({ endpoint: server.endpoint, prefix, ...more });
  const pull = (store: ObjectStore, folder: string) =>
    pullArchive(store, folder, {
      disk: systemDisk,
      writer: 'oddslake test',
      settleMs: hourMs,
      clock: systemClock,
      waitMs: 10_000,
    });
  /** Paths of the objects below a prefix. */
  const objectsOf = (prefix: string, under = ''): string[] =>
    globSync('**/*', { cwd: join(server.folder, prefix, under) })
      .filter((path) => statSync(join(server.folder, prefix, under, path)).isFile())
      .sort();
  async function proxied(prefix: string, rules: ProxyRules) {
    const proxy = await startFaultProxy(server.endpoint, rules);
    onTestFinished(() => proxy.stop());
    return { proxy, store: await open(prefix, { endpoint: proxy.endpoint }) };
  }

  test('a push and a pull give an equal archive, byte for byte, that verifies', async () => {
    const archive = await publishedArchive();
    const store = await open(newPrefix());
    const files = listManifestFiles(archive.readManifest()).length;
    expect(await pushNow(archive, store)).toMatchObject({
      outcome: 'pushed',
      sequence: 1,
      uploaded: { files },
      warnings: [],
    });
    expect(await readGeneration(store)).toEqual(hashesOf(archive));
    const folder = join(scratchFolder(), 'pulled');
    expect(await pull(store, folder)).toMatchObject({ outcome: 'pulled', downloaded: { files } });
    const same = (): void => {
      expect(hashes(folder, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
      for (const name of ['manifest.json', 'SHA256SUMS', 'README.md', 'views.sql'])
        expect(readFileSync(join(folder, name), 'utf8'), name).toBe(readRoot(archive, name));
    };
    same();
    const verify = async () => {
      const copy = opened({ root: folder, create: false });
      const { findings, state } = await verifyArchive(copy, null);
      copy.close();
      expect([findings, state]).toEqual([[], null]);
    };
    await verify();
    // An update of the pull, of what a publish changed.
    await publishMore(archive, 1, 0.25);
    await pushNow(archive, store);
    const { downloaded } = await pull(store, folder);
    expect(downloaded.files).toBeLessThan(files * 2);
    same();
    await verify();
    expect(await pull(store, folder)).toMatchObject({ outcome: 'unchanged', downloaded: { files: 0 } });
  });

  test('a push without changes sends one read and no write', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    await pushNow(archive, await open(prefix));
    const { proxy, store } = await proxied(prefix, {});
    expect(await pushNow(archive, store)).toMatchObject({ outcome: 'unchanged', requests: { reads: 1, writes: 0 } });
    expect(proxy.seen.map(({ method }) => method)).toEqual(['GET']);
  });

  test('a push of N changed files sends N + 3 writes and 3 reads', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    await pushNow(archive, await open(prefix));
    const before = new Set(Object.values(hashesOf(archive)));
    await publishMore(archive, 1);
    const changed = Object.entries(hashesOf(archive)).filter(([, hash]) => !before.has(hash)).length;
    const { proxy, store } = await proxied(prefix, {});
    const { uploaded, requests } = await pushNow(archive, store);
    expect(uploaded.files).toBeGreaterThanOrEqual(changed);
    expect(requests).toMatchObject({ reads: 3, writes: uploaded.files + 3 });
    expect(proxy.seen).toHaveLength(uploaded.files + 6);
  });

  test('of pushes at once one wins each race, and all end with the last generation', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    for (let round = 0; round < 3; round++) {
      if (round > 0) await publishMore(archive, round);
      const stores = await Promise.all(Array.from({ length: 6 }, () => open(prefix)));
      const results = await Promise.all(stores.map((store) => pushNow(archive, store)));
      expect(new Set(results.map(({ sequence }) => sequence))).toEqual(new Set([round + 1]));
      expect(objectsOf(prefix, 'manifests')).toHaveLength(round + 1);
      expect(await readGeneration(stores[0]!)).toEqual(hashesOf(archive));
    }
  });

  test('a diverged copy never replaces the other, and only its push is refused', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    await pushNow(archive, await open(prefix));
    const folder = join(scratchFolder(), 'copy');
    await takeSnapshot(archive, folder, { id: 'a' });
    const copy = opened({ root: folder, create: false });
    await publishMore(archive, 1, 0.1);
    await publishMore(copy, 1, 0.9);
    const stores = await Promise.all([open(prefix), open(prefix)]);
    const results = await Promise.allSettled([pushNow(archive, stores[0]!), pushNow(copy, stores[1]!)]);
    const [won] = results.filter((result) => result.status === 'fulfilled');
    const [lost] = results.filter((result) => result.status === 'rejected');
    expect(won!.value).toMatchObject({ sequence: 2 });
    expect(lost!.reason).toMatchObject({ exitCode: 2, message: expect.stringContaining('published to since') });
    const winner = results[0]!.status === 'fulfilled' ? archive : copy;
    expect(await readGeneration(stores[0]!)).toEqual(hashesOf(winner));
  });

  test('the archive of another upstream is refused, and nothing is written', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    await pushNow(archive, await open(prefix));
    const other = opened({ upstream: 'https://other.test', parts: 1 });
    append(other, answer('AAA', [[day0, 0.5]]));
    await publishNow(other);
    const { proxy, store } = await proxied(prefix, {});
    await expect(pushNow(other, store)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('other.test'),
    });
    await expect(pushNow(other, store, { restores: true })).rejects.toMatchObject({ exitCode: 2 });
    expect(proxy.seen.every(({ method }) => method === 'GET')).toBe(true);
  });

  test('an archive restored from a backup is refused, and pushed on top with --force-restore', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    const store = await open(prefix);
    const folder = join(scratchFolder(), 'backup');
    await takeSnapshot(archive, folder, { id: 'a' });
    await publishMore(archive, 1);
    await pushNow(archive, store);
    const backup = opened({ root: folder, create: false });
    await expect(pushNow(backup, store)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/generation 2, and this archive has generation 1/),
    });
    const objects = objectsOf(prefix, 'data');
    expect(await pushNow(backup, store, { restores: true })).toMatchObject({ generation: 1, sequence: 2 });
    expect(await readGeneration(store)).toEqual(hashesOf(backup));
    expect(objectsOf(prefix, 'data')).toEqual(expect.arrayContaining(objects));
  });

  test('several generations between two pushes count as a continuation', async () => {
    const archive = await publishedArchive();
    const store = await open(newPrefix());
    await pushNow(archive, store);
    for (const n of [1, 2, 3]) await publishMore(archive, n);
    expect(await pushNow(archive, store)).toMatchObject({ generation: 4, sequence: 2 });
    expect(await readGeneration(store)).toEqual(hashesOf(archive));
  });

  test('a damaged local file is never uploaded', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    const file = archive.readManifest().datasets.ticks.files[0]!;
    const path = join(archive.layout.root, file.path);
    const bytes = readFileSync(path);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(path, bytes);
    await expect(pushNow(archive, await open(prefix))).rejects.toMatchObject({
      exitCode: 6,
      message: expect.stringContaining(file.path),
    });
    expect(objectsOf(prefix).filter((object) => object.includes(file.sha256.slice(0, 16)))).toEqual([]);
    expect(await (await open(prefix)).get('manifest.json')).toBeNull();
  });

  test('verify names missing, shortened and changed objects, and a repair uploads them again', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    const store = await open(prefix);
    await pushNow(archive, store);
    const { files } = (await readRemoteManifest(store))!;
    const [missing, short, changed] = files.map(({ key }) => key);
    rmSync(join(server.folder, prefix, missing!));
    truncateSync(join(server.folder, prefix, short!), 10);
    const other = Buffer.from(readFileSync(join(server.folder, prefix, changed!)));
    other[0]! ^= 1;
    await store.put(changed!, other, sha256(other), 'always', 'text/plain');
    const check = (repairs: boolean, downloads = false) =>
      verifyBucket(store, { downloads, repairsFrom: repairs ? archive : null });
    const wanted = [
      { key: missing, kind: 'missing' },
      { key: short, kind: 'length mismatch' },
      { key: changed, kind: 'checksum mismatch' },
    ].map((finding) => expect.objectContaining(finding));
    for (const downloads of [false, true]) {
      const { findings } = await check(false, downloads);
      expect(findings).toHaveLength(3);
      expect(findings).toEqual(expect.arrayContaining(wanted));
    }
    await expect(pull(store, join(scratchFolder(), 'pulled'))).rejects.toMatchObject({ exitCode: 6 });
    expect((await check(true)).findings.map(({ repair }) => repair)).toEqual(['uploaded', 'uploaded', 'uploaded']);
    expect((await check(false, true)).findings).toEqual([]);
    // What the archive no longer has is lost.
    rmSync(join(server.folder, prefix, missing!));
    rmSync(join(archive.layout.root, files[0]!.path));
    expect((await check(true)).findings).toEqual([expect.objectContaining({ key: missing, repair: 'lost' })]);
  });

  test('another object under the key of a file ends a push with exit 6, and is named', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    const store = await open(prefix);
    await pushNow(archive, store);
    const first = new Set(objectsOf(prefix, 'data'));
    await publishMore(archive, 1);
    await pushNow(archive, store);
    const added = objectsOf(prefix, 'data').find((path) => !first.has(path))!;
    // The same files in another prefix, where one of them is wrong already.
    const damaged = await open(newPrefix());
    const wrong = Buffer.from('wrong');
    await damaged.put(`data/${added}`, wrong, sha256(wrong), 'always', 'text/plain');
    await expect(pushNow(archive, damaged)).rejects.toMatchObject({
      exitCode: 6,
      message: expect.stringContaining(added),
    });
    expect(await damaged.get('manifest.json')).toBeNull();
  });

  describe('retention', () => {
    const retention = { keepGenerations: 2, keepMs: dayMs };
    /** Makes every object of a prefix older. */
    const age = (prefix: string, days: number): void => {
      const at = new Date(Date.now() - days * dayMs);
      for (const path of objectsOf(prefix)) utimesSync(join(server.folder, prefix, path), at, at);
    };

    test('keeps what the last manifests name, removes the rest below data/ only, and touches no foreign object', async () => {
      const archive = await publishedArchive();
      const prefix = newPrefix();
      const store = await open(prefix);
      await pushNow(archive, store, { retention });
      const foreign = [
        'data/ticks/notes.txt',
        'data/ticks/date=2026-06-01/part-00.parquet',
        'notes.txt',
        'manifests/notes.json',
      ];
      for (const path of foreign) {
        mkdirSync(join(server.folder, prefix, path, '..'), { recursive: true });
        writeFileSync(join(server.folder, prefix, path), 'mine');
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
      for (const path of foreign) expect(existsSync(join(server.folder, prefix, path)), path).toBe(true);
      const manifests = objectsOf(prefix, 'manifests').filter((path) => /^\d/.test(path));
      expect(manifests.map((path) => Number(path.slice(0, 6)))).toEqual([4, 5]);
      const named = new Set<string>();
      for (const path of manifests) {
        const { datasets } = JSON.parse(readFileSync(join(server.folder, prefix, 'manifests', path), 'utf8'));
        for (const { files } of Object.values(datasets) as { files: { key: string }[] }[])
          for (const { key } of files) named.add(key);
      }
      const present = objectsOf(prefix, 'data').map((path) => `data/${path}`);
      expect(present).toEqual(expect.arrayContaining([...named]));
      expect(present.filter((path) => !named.has(path))).toEqual(foreign.slice(0, 2).sort());
    });

    test('keeps the objects of replaced manifests for keep_days, however many followed', async () => {
      const archive = await publishedArchive();
      const prefix = newPrefix();
      const store = await open(prefix);
      await pushNow(archive, store, { retention });
      const held = (await readRemoteManifest(store))!;
      for (let n = 1; n <= 5; n++) {
        await publishMore(archive, 0, 0.5 + n / 100);
        expect(await pushNow(archive, store, { retention })).toMatchObject({ removed: 0 });
      }
      for (const { key, sha256: hash } of held.files) expect(sha256((await store.get(key))!.bytes)).toBe(hash);
    });

    test('removes nothing if a manifest that counts cannot be read, or the policy forbids it', async () => {
      const archive = await publishedArchive();
      const prefix = newPrefix();
      const store = await open(prefix);
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
      writeFileSync(join(server.folder, prefix, 'manifests', newest!), 'not json');
      expect((await pushNow(archive, store, { retention })).warnings).toEqual([
        expect.stringContaining('cannot be read'),
      ]);
      expect(objectsOf(prefix, 'data')).toEqual(expect.arrayContaining(data));
    });

    test('an old object that no manifest names is not used again, since a retention may be removing it', async () => {
      const archive = await publishedArchive();
      const prefix = newPrefix();
      const store = await open(prefix);
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

  describe('servers and credentials', () => {
    test('a server without conditional writes is refused, unless only this machine pushes', async () => {
      const archive = await publishedArchive();
      const prefix = newPrefix();
      const { proxy, store } = await proxied(prefix, {
        answer: (_, headers) => ((headers['if-match'] ?? headers['if-none-match']) ? 501 : null),
      });
      await expect(pushNow(archive, store)).rejects.toMatchObject({
        exitCode: 2,
        message: expect.stringContaining('bucket.single_writer'),
      });
      expect(objectsOf(prefix)).toEqual([]);
      await pushNow(archive, store, { isSingleWriter: true });
      expect(await readGeneration(store)).toEqual(hashesOf(archive));
      await publishMore(archive, 1);
      // The bucket remembers it.
      await expect(pushNow(archive, store)).rejects.toMatchObject({ exitCode: 2 });
      const seen = proxy.seen.length;
      await pushNow(archive, store, { isSingleWriter: true });
      expect(proxy.seen.slice(seen).every(({ status }) => status === 200)).toBe(true);
      expect(await readGeneration(store)).toEqual(hashesOf(archive));
    });

    test('a wrong secret ends with exit 3, a missing bucket with exit 2, no server with exit 7', async () => {
      const archive = await publishedArchive();
      const messages: string[] = [];
      const expectExit = async (store: Promise<ObjectStore>, exitCode: number): Promise<void> => {
        const error = await pushNow(archive, await store).catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ exitCode });
        messages.push((error as Error).message);
      };
      await expectExit(open('p', { secret: 'wrong-secret-value' }), 3);
      await expectExit(open('p', { bucket: 'no-such-bucket' }), 2);
      await expectExit(open('p', { endpoint: 'http://127.0.0.1:1' }), 7);
      expect(messages.join('\n')).not.toMatch(/wrong-secret-value|admin/);
      expect(messages[1]).toContain('s3://no-such-bucket');
    });

    test('503 for ever ends with exit 7, after a bounded number of attempts', async () => {
      const archive = await publishedArchive();
      const { proxy, store } = await proxied(newPrefix(), { answer: () => 503 });
      await expect(pushNow(archive, store)).rejects.toMatchObject({ exitCode: 7 });
      expect(proxy.seen).toHaveLength(4);
    });

    test('a pull refuses a folder with other data, and an archive that was written to since', async () => {
      const archive = await publishedArchive();
      const store = await open(newPrefix());
      await pushNow(archive, store);
      const strange = scratchFolder();
      writeFileSync(join(strange, 'notes.txt'), 'mine');
      await expect(pull(store, strange)).rejects.toMatchObject({ exitCode: 2 });
      await expect(pull(store, archive.layout.root)).rejects.toMatchObject({ exitCode: 2 });
      const folder = join(scratchFolder(), 'pulled');
      await pull(store, folder);
      const copy = opened({ root: folder, create: false });
      append(copy, answer('AAA', [[day0 + 5, 0.1]]));
      await publishMore(archive, 1);
      await pushNow(archive, store);
      await expect(pull(store, folder)).rejects.toMatchObject({
        exitCode: 2,
        message: expect.stringContaining('written to since'),
      });
      await publishNow(copy);
      await expect(pull(store, folder)).rejects.toMatchObject({ exitCode: 2 });
    });
  });
});
