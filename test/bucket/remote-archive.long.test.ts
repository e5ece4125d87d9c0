import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { pinGeneration } from '../../src/archive/read/pin-generation.ts';
import { readStatus } from '../../src/archive/read/status.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { openRemoteArchive, type RemoteArchiveOptions } from '../../src/bucket/remote-archive.ts';
import { clockAt, hashes, judged, now, opened, publishedTicks, scratchFolder } from '../archive/scratch.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { publishMore, pushNow } from './pushed.ts';
import { pulled, useServer } from './use-server.ts';

let opens = 0;

describe('reading a generation in a bucket', needsObjectStorage(), () => {
  const { open, folderOf, objectsOf, proxied, pushed } = useServer();

  async function openRemote(store: ObjectStore, cacheFolder: string, options: Partial<RemoteArchiveOptions> = {}) {
    const remote = await openRemoteArchive(store, {
      disk: systemDisk,
      clock: clockAt(now),
      writer: 'oddslake test',
      cacheFolder,
      cacheBytesMax: 1e9,
      id: `test${++opens}`,
      signal: new AbortController().signal,
      showProgress: (work) => work(() => {}),
      ...options,
    });
    let isOpen = true;
    const close = (): void => {
      if (isOpen) remote.close();
      isOpen = false;
    };
    onTestFinished(close);
    return { ...remote, close };
  }

  const fetchAll = (archive: Archive): Promise<void> => archive.fetchFiles!(listManifestFiles(archive.readManifest()));

  test('it is the archive that a pull gives, with the files that were requested', async () => {
    const { store } = await pushed();
    const folder = await pulled(store);
    const { archive, close } = await openRemote(store, scratchFolder());
    const { root } = archive.layout;
    expect(archive.name).toBe(store.url);
    expect(existsSync(join(root, 'coverage'))).toBe(true);
    expect(existsSync(join(root, 'ticks'))).toBe(false);
    // What is not fetched is no empty answer.
    expect(() => pinGeneration(archive, ['ticks'], 'early')).toThrow(expect.objectContaining({ exitCode: 6 }));
    await fetchAll(archive);
    expect(hashes(root, '**/*')).toEqual(hashes(folder, '**/*'));
    for (const name of ['manifest.json', 'SHA256SUMS', 'README.md', 'views.sql'])
      expect(readFileSync(join(root, name), 'utf8'), name).toBe(readFileSync(join(folder, name), 'utf8'));
    const copy = opened({ root: folder, create: false });
    expect(readStatus(archive, judged, now)).toEqual({ ...readStatus(copy, judged, now), archive: store.url });
    close();
    expect(existsSync(root)).toBe(false);
  });

  test('what is cached is not downloaded again, also of an archive that has changed', async () => {
    const { archive, prefix, store } = await pushed();
    const cache = scratchFolder();
    const first = await openRemote(store, cache);
    await fetchAll(first.archive);
    const again = await open(prefix);
    const second = await openRemote(again, cache);
    await fetchAll(second.archive);
    expect(again.counts).toMatchObject({ reads: 1 });
    await publishMore(archive, 1);
    await pushNow(archive, store);
    const later = await open(prefix);
    const third = await openRemote(later, cache);
    await fetchAll(third.archive);
    expect(third.archive.readManifest().generation).toBe(2);
    expect(later.counts.reads).toBeLessThan(1 + listManifestFiles(archive.readManifest()).length);
    expect(hashes(third.archive.layout.root, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
  });

  test('readers at once share the cache, and one file is downloaded once', async () => {
    const { archive, prefix } = await pushed();
    const cache = scratchFolder();
    const stores = await Promise.all([1, 2].map(() => open(prefix)));
    const readers = await Promise.all(stores.map((store) => openRemote(store, cache)));
    // Several queries of one reader, too.
    await Promise.all(readers.flatMap((reader) => [fetchAll(reader.archive), fetchAll(reader.archive)]));
    for (const reader of readers)
      expect(hashes(reader.archive.layout.root, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
    const files = listManifestFiles(archive.readManifest());
    const contents = new Set(files.map(({ sha256 }) => sha256)).size;
    expect(readdirSync(join(cache, 'files'))).toHaveLength(contents);
    for (const store of stores) expect(store.counts.reads).toBeLessThanOrEqual(1 + contents);
  });

  test('a damaged file of the cache is downloaded again', async () => {
    const { archive, store, prefix } = await pushed();
    const cache = scratchFolder();
    const first = await openRemote(store, cache);
    await fetchAll(first.archive);
    first.close();
    const entries = readdirSync(join(cache, 'files'));
    for (const name of entries) {
      const at = join(cache, 'files', name);
      const bytes = readFileSync(at);
      bytes[10]! ^= 1;
      writeFileSync(at, bytes);
    }
    const again = await open(prefix);
    const second = await openRemote(again, cache);
    await fetchAll(second.archive);
    expect(again.counts.reads).toBe(1 + entries.length);
    expect(hashes(second.archive.layout.root, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
  });

  test('a cache smaller than what a reader uses stays so only while it reads', async () => {
    const { archive, store } = await pushed();
    const cache = scratchFolder();
    const { close, archive: remote } = await openRemote(store, cache, { cacheBytesMax: 100 });
    await fetchAll(remote);
    expect(hashes(remote.layout.root, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
    expect(readdirSync(join(cache, 'files'))).not.toEqual([]);
    close();
    expect(readdirSync(join(cache, 'files'))).toEqual([]);
    expect(readdirSync(join(cache, 'readers'))).toEqual([]);
  });

  test('a push meanwhile does not change what is read', async () => {
    const { archive, store } = await pushed();
    const { archive: remote } = await openRemote(store, scratchFolder());
    const before = hashes(archive.layout.root, '**/*');
    await publishMore(archive, 0, 0.75);
    await pushNow(archive, store);
    await fetchAll(remote);
    expect(remote.readManifest().generation).toBe(1);
    expect(hashes(remote.layout.root, '**/*')).toEqual(before);
    expect(publishedTicks(remote.layout.root)).not.toEqual(publishedTicks(archive.layout.root));
  });

  test.each([
    ['missing', (at: string) => rmSync(at), /ticks\/.*parquet is missing/],
    ['flipped', (at: string) => flip(at), /ticks\/.*parquet differs/],
    ['cut', (at: string) => writeFileSync(at, readFileSync(at).subarray(0, 50)), /ticks\/.*parquet differs/],
  ])('an object that is %s ends the command, which names it', async (_, spoil, message) => {
    const { prefix, store } = await pushed();
    for (const path of objectsOf(prefix, 'data/ticks')) spoil(join(folderOf(prefix), 'data/ticks', path));
    const cache = scratchFolder();
    const { archive, close } = await openRemote(store, cache);
    await expect(fetchAll(archive)).rejects.toMatchObject({ exitCode: 6, message: expect.stringMatching(message) });
    // Nothing of it is in the cache, and the others can be read.
    await archive.fetchFiles!(archive.readManifest().datasets.symbols.files);
    const ticks = archive.readManifest().datasets.ticks.files.map(({ sha256 }) => sha256);
    close();
    const names = readdirSync(join(cache, 'files'));
    expect(names.filter((name) => ticks.includes(name))).toEqual([]);
  });

  function flip(at: string): void {
    const bytes = readFileSync(at);
    bytes[10]! ^= 1;
    writeFileSync(at, bytes);
  }

  test('without an archive, with a damaged manifest or a server that fails, nothing is left in the cache folder', async () => {
    const { prefix } = await pushed();
    const cache = scratchFolder();
    await expect(openRemote(await open('none'), cache)).rejects.toMatchObject({ exitCode: 2 });
    const { store: failing } = await proxied(prefix, { answer: ({ path }) => (path.includes('/data/') ? 500 : null) });
    await expect(openRemote(failing, cache)).rejects.toMatchObject({ exitCode: 7 });
    const { store: refusing } = await proxied(prefix, { answer: () => 403 });
    await expect(openRemote(refusing, cache)).rejects.toMatchObject({ exitCode: 3 });
    const at = join(folderOf(prefix), 'manifest.json');
    writeFileSync(at, readFileSync(at, 'utf8').replace('"rows": 2', '"rows": 3'));
    await expect(openRemote(await open(prefix), cache)).rejects.toMatchObject({ exitCode: 6 });
    expect(readdirSync(join(cache, 'readers'))).toEqual([]);
  });

  test('a signal ends the downloads', async () => {
    const { store } = await pushed();
    const stop = new AbortController();
    const { archive } = await openRemote(store, scratchFolder(), { signal: stop.signal });
    stop.abort(new Error('stopped'));
    await expect(fetchAll(archive)).rejects.toThrow('stopped');
  });
});
