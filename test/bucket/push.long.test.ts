import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { readRemoteManifest, toFileId } from '../../src/bucket/bucket-manifest.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { verifyBucket } from '../../src/bucket/verify-bucket.ts';
import { answer, append, day0, hashes, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { hashesOf, publishedArchive, publishMore, pushNow, readGeneration } from './pushed.ts';
import { copyOf, pulled, pullNow, useServer, verifyFolder } from './use-server.ts';

/** Rounds of twelve pushes at once; PUSH_ROUNDS=25 for a long run. */
const rounds = Number(process.env.PUSH_ROUNDS ?? 2);

describe('a push', needsObjectStorage(), () => {
  const { newPrefix, open, folderOf, objectsOf, proxied, unpushed, pushed } = useServer();

  test('a push without changes sends one read and no write', async () => {
    const { archive, prefix } = await pushed();
    const { proxy, store } = await proxied(prefix, {});
    expect(await pushNow(archive, store)).toMatchObject({ outcome: 'unchanged', requests: { reads: 1, writes: 0 } });
    expect(proxy.seen.map(({ method }) => method)).toEqual(['GET']);
  });

  test('a push of N changed files sends N + 3 writes and 2 reads', async () => {
    const { archive, prefix } = await pushed();
    const before = new Set(Object.values(hashesOf(archive)));
    await publishMore(archive, 1);
    const changed = Object.entries(hashesOf(archive)).filter(([, hash]) => !before.has(hash)).length;
    const { proxy, store } = await proxied(prefix, {});
    const { uploaded, requests } = await pushNow(archive, store);
    expect(uploaded.files).toBeGreaterThanOrEqual(changed);
    expect(requests).toMatchObject({ reads: 2, writes: uploaded.files + 3 });
    expect(proxy.seen).toHaveLength(uploaded.files + 5);
  });

  test('of pushes at once one wins each race, and all end with the last generation', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    const { proxy } = await proxied(prefix, {});
    for (let round = 0; round < rounds; round++) {
      if (round > 0) await publishMore(archive, round);
      const stores = await Promise.all(Array.from({ length: 12 }, () => open(prefix, { endpoint: proxy.endpoint })));
      const results = await Promise.all(stores.map((store) => pushNow(archive, store)));
      expect(new Set(results.map(({ sequence }) => sequence))).toEqual(new Set([round + 1]));
      expect(objectsOf(prefix, 'manifests')).toHaveLength(round + 1);
      const swaps = proxy.seen.filter(({ method, path }) => method === 'PUT' && path.includes('/manifest.json'));
      expect(swaps.filter(({ status }) => status === 200)).toHaveLength(round + 1);
      expect(await readGeneration(stores[0]!)).toEqual(hashesOf(archive));
    }
  });

  test('a diverged copy never replaces the other, and only its push is refused', async () => {
    const { archive, prefix } = await pushed();
    const copy = await copyOf(archive);
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

  test('a push that a diverged archive overtakes at the commit point ends with one sentence, and loses nothing', async () => {
    const late = await publishedArchive();
    const prefix = newPrefix();
    await pushNow(late, await open(prefix));
    const first = await copyOf(late);
    await publishMore(late, 1, 0.1);
    await publishMore(first, 1, 0.9);
    const before = hashesOf(late);
    const { promise: overtaken, resolve: release } = Promise.withResolvers<void>();
    let isHeld = false;
    const { proxy } = await proxied(prefix, {
      hold({ method, path }) {
        if (method !== 'PUT' || !path.includes('/manifest.json') || isHeld) return;
        isHeld = true;
        return overtaken;
      },
    });
    const refused = pushNow(late, await open(prefix, { endpoint: proxy.endpoint })).catch((error: unknown) => error);
    await waitFor(() => isHeld, 'the swap of the late push');
    const store = await open(prefix);
    expect(await pushNow(first, store)).toMatchObject({ outcome: 'pushed', sequence: 2 });
    release();
    const message = expect.stringMatching(/Nothing was pushed to .*published to since .*import this archive there/);
    expect(await refused).toMatchObject({ exitCode: 2, message });
    expect(await readGeneration(store)).toEqual(hashesOf(first));
    // The late archive has all that it had. Pushed on top nevertheless, it leaves the objects of the other one.
    expect(hashesOf(late)).toEqual(before);
    const objects = objectsOf(prefix, 'data');
    expect(await pushNow(late, store, { restores: true })).toMatchObject({ outcome: 'pushed', sequence: 3 });
    expect(await readGeneration(store)).toEqual(before);
    expect(objectsOf(prefix, 'data')).toEqual(expect.arrayContaining(objects));
  });

  test('the archive of another upstream is refused, and nothing is written', async () => {
    const { prefix } = await pushed();
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
    const { archive, prefix, store } = await unpushed();
    const backup = await copyOf(archive);
    await publishMore(archive, 1);
    await pushNow(archive, store);
    const folder = await pulled(store);
    await expect(pushNow(backup, store)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/generation 2, and this archive has generation 1/),
    });
    const objects = objectsOf(prefix, 'data');
    expect(await pushNow(backup, store, { restores: true })).toMatchObject({ generation: 1, sequence: 2 });
    expect(await readGeneration(store)).toEqual(hashesOf(backup));
    expect(objectsOf(prefix, 'data')).toEqual(expect.arrayContaining(objects));
    // A pull follows, back to the older generation.
    await pullNow(store, folder);
    expect(hashes(folder, '**/*')).toEqual(hashes(backup.layout.root, '**/*'));
    expect(await verifyFolder(folder)).toMatchObject({ generation: 1, findings: [], state: null });
  });

  test('a manifest.json that is lost is not taken for a first push', async () => {
    const { archive, prefix, store } = await pushed();
    await publishMore(archive, 1);
    await pushNow(archive, store);
    rmSync(join(folderOf(prefix), 'manifest.json'));
    await expect(pushNow(archive, store)).rejects.toMatchObject({
      exitCode: 6,
      message: expect.stringContaining('manifests/000002-'),
    });
    const last = (await store.get(`manifests/${objectsOf(prefix, 'manifests').at(-1)}`))!;
    await store.put('manifest.json', last.bytes, sha256(last.bytes), 'absent', 'application/json');
    expect(await pushNow(archive, store)).toMatchObject({ outcome: 'unchanged', sequence: 2 });
  });

  test('several generations between two pushes count as a continuation', async () => {
    const { archive, store } = await pushed();
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
    const { archive, prefix, store } = await pushed();
    const { files } = (await readRemoteManifest(store))!;
    const [missing, short, changed] = files.map(({ key }) => key);
    rmSync(join(folderOf(prefix), missing!));
    truncateSync(join(folderOf(prefix), short!), 10);
    const other = Buffer.from(readFileSync(join(folderOf(prefix), changed!)));
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
    await expect(pullNow(store, join(scratchFolder(), 'pulled'))).rejects.toMatchObject({ exitCode: 6 });
    expect((await check(true)).findings.map(({ repair }) => repair)).toEqual(['uploaded', 'uploaded', 'uploaded']);
    expect((await check(false, true)).findings).toEqual([]);
    // What the archive no longer has is lost.
    rmSync(join(folderOf(prefix), missing!));
    rmSync(join(archive.layout.root, files[0]!.path));
    expect((await check(true)).findings).toEqual([expect.objectContaining({ key: missing, repair: 'lost' })]);
  });

  test('another object under the key of a file ends a push with exit 6, and is named', async () => {
    const { archive, prefix, store } = await pushed();
    const first = new Set(objectsOf(prefix, 'data'));
    await publishMore(archive, 1);
    await pushNow(archive, store);
    const added = objectsOf(prefix, 'data')
      .find((path) => !first.has(path))!
      .replace('-r2', '-r1');
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

  test.each([501, 200])(
    'a server without conditional writes is refused, unless only this machine pushes (%i)',
    async (status) => {
      const archive = await publishedArchive();
      const prefix = newPrefix();
      const { proxy, store } = await proxied(prefix, {
        answer: (_, headers) => ((headers['if-match'] ?? headers['if-none-match']) ? status : null),
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
    },
  );

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

  test('a server that keeps no checksums is named once, and verify compares lengths and recorded hashes', async () => {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    const { store } = await proxied(prefix, { hides: /^x-amz-checksum/ });
    const { files, warnings } = await pushNow(archive, store);
    expect(warnings).toEqual([expect.stringContaining('no SHA-256')]);
    expect(await verifyBucket(store, { downloads: false, repairsFrom: null })).toMatchObject({
      weak: files,
      findings: [],
    });
    expect(await verifyBucket(store, { downloads: true, repairsFrom: null })).toMatchObject({ weak: 0, findings: [] });
    await publishMore(archive, 1);
    expect((await pushNow(archive, store)).warnings).toEqual([]);
  });

  test('other pushes that come first again and again end with exit 5', async () => {
    const { archive, prefix, store: other } = await pushed();
    await publishMore(archive, 1);
    const { proxy, store } = await proxied(prefix, {
      async hold({ method, path }) {
        if (method !== 'PUT' || !path.includes('/manifest.json')) return;
        const { text, bucket } = (await readRemoteManifest(other))!;
        const next = `"sequence": ${bucket.sequence + 1}`;
        const bytes = Buffer.from(text.replace(`"sequence": ${bucket.sequence}`, next));
        await other.put('manifest.json', bytes, sha256(bytes), 'always', 'application/json');
      },
    });
    const before = new Set((await readRemoteManifest(other))!.files.map(toFileId));
    await expect(pushNow(archive, store)).rejects.toMatchObject({ exitCode: 5 });
    const data = proxy.seen.filter(({ method, path }) => method === 'PUT' && path.includes('/data/'));
    const changed = listManifestFiles(archive.readManifest()).filter((file) => !before.has(toFileId(file)));
    expect(data).toHaveLength(changed.length);
  });

  test('503 for ever ends with exit 7, after a bounded number of attempts', async () => {
    const archive = await publishedArchive();
    const { proxy, store } = await proxied(newPrefix(), { answer: () => 503 });
    await expect(pushNow(archive, store)).rejects.toMatchObject({ exitCode: 7 });
    expect(proxy.seen).toHaveLength(4);
  });
});
