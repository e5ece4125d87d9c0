import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, test } from 'vitest';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { datasetNames } from '../../src/archive/format/datasets.ts';
import { listFilesWithRows, listManifestFiles } from '../../src/archive/format/manifest.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { appendSeries } from '../../src/archive/journal/journal-series.ts';
import { recordDamage } from '../../src/archive/journal/published-files.ts';
import { dayMs } from '../../src/base/window.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { requireRemoteManifest } from '../../src/bucket/pull.ts';
import { appendQuotes, quote } from '../archive/quote-records.ts';
import {
  answer,
  append,
  day0,
  hashes,
  hourMs,
  market,
  now,
  opened,
  publishedTicks,
  publishNow,
  scratchFolder,
} from '../archive/scratch.ts';
import { trade, tradeAnswer } from '../archive/trades.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { hashesOf, publishedArchive, publishMore, pushNow, readGeneration, readRoot } from './pushed.ts';
import { pulled, pullNow, useServer, verifyFolder } from './use-server.ts';

describe('a pull', needsObjectStorage(), () => {
  const { newPrefix, open, folderOf, proxied, pushed } = useServer();

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
    expect(await pullNow(store, folder)).toMatchObject({ outcome: 'pulled', downloaded: { files } });
    const same = (): void => {
      expect(hashes(folder, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
      for (const name of ['manifest.json', 'SHA256SUMS', 'README.md', 'views.sql'])
        expect(readFileSync(join(folder, name), 'utf8'), name).toBe(readRoot(archive, name));
    };
    same();
    const verify = async () => expect(await verifyFolder(folder)).toMatchObject({ findings: [], state: null });
    await verify();
    // An update of the pull, of what a publish changed.
    await publishMore(archive, 1, 0.25);
    await pushNow(archive, store);
    const { downloaded } = await pullNow(store, folder);
    expect(downloaded.files).toBeLessThan(files * 2);
    same();
    await verify();
    expect(await pullNow(store, folder)).toMatchObject({ outcome: 'unchanged', downloaded: { files: 0 } });
  });

  test('a pull downloads again what is missing, and what verify found damaged', async () => {
    const { archive, store } = await pushed();
    const folder = await pulled(store);
    const [missing, flipped] = listManifestFiles(archive.readManifest()).map(({ path }) => join(folder, path));
    rmSync(missing!);
    const bytes = readFileSync(flipped!);
    bytes[10]! ^= 1;
    writeFileSync(flipped!, bytes);
    const copy = opened({ root: folder, create: false });
    const { findings } = await verifyArchive(copy, null);
    expect(findings).toHaveLength(2);
    // As the command does.
    recordDamage(copy.state.db, findings, 'run', now);
    copy.close();
    expect(await pullNow(store, folder)).toMatchObject({ downloaded: { files: 2 } });
    expect(hashes(folder, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
    expect(await verifyFolder(folder)).toMatchObject({ findings: [], state: null });
  });

  test('every dataset is pulled as it was pushed: files by part, files without rows, and the rows that follow', async () => {
    const archive = opened({ parts: 2 });
    const symbols = ['AAA', 'BBB', 'CCC', 'DDD'];
    for (const symbol of symbols) append(archive, answer(symbol, [[day0, 0.5]]));
    await publishNow(archive);
    const store = await open(newPrefix());
    const folder = join(scratchFolder(), 'pulled');
    const pushAndPull = async (): Promise<void> => {
      await pushNow(archive, store);
      await pullNow(store, folder);
      expect(await readGeneration(store)).toEqual(hashesOf(archive));
      expect(hashes(folder, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
      expect(await verifyFolder(folder)).toMatchObject({ findings: [], state: null });
    };
    const listWithoutRows = () =>
      datasetNames.filter((name) => listFilesWithRows(archive.readManifest(), name).length === 0);
    await pushAndPull();
    expect(listWithoutRows()).toEqual(expect.arrayContaining(['conflicts', 'orderbooks', 'quotes', 'trades']));
    for (const day of [day0, day0 + dayMs])
      for (const symbol of symbols) {
        append(archive, answer(symbol, [[day, 0.25]], { observedAt: now + 1 }));
        append(archive, answer(symbol, [[day, 0.75]], { observedAt: now + 2 }));
        for (const [i, price] of [0.25, 0.5].entries()) {
          appendQuotes(archive, [quote(symbol, day, price, null)], { observedAt: now + i });
          const trades = [trade(day, 'x', price)];
          appendSeries(archive.state, [tradeAnswer(symbol, trades, { observedAt: now + i })]);
        }
        const snapshots = [{ t: day, bids: toBookSide([], 'highest'), asks: toBookSide([], 'lowest') }];
        const book = { runId: 'run', symbol, observedAt: now, snapshots, rejected: [], understood: true };
        appendBooks(archive.state, [book]);
      }
    appendMarkets(archive.state, { runId: 'run', observedAt: now, markets: [market('AAA')] }, []);
    await publishNow(archive, now + hourMs);
    expect(listWithoutRows()).toEqual([]);
    for (const name of ['coverage', 'conflicts', 'quotes', 'trades'] as const)
      expect(archive.readManifest().datasets[name].files.length, name).toBeGreaterThanOrEqual(4);
    await pushAndPull();
  });

  test('the archive of several sources is pulled with its sources', async () => {
    const sources = ['alpha', 'beta'].map((name) => ({ name, upstream: `https://${name}.test` }));
    const archive = opened({ upstream: null, sources, parts: 1 });
    append(archive, answer('alpha:AAA', [[day0, 0.5]]), answer('beta:AAA', [[day0, 0.25]]));
    await publishNow(archive);
    const store = await open(newPrefix());
    await pushNow(archive, store);
    const folder = await pulled(store);
    expect(readFileSync(join(folder, 'manifest.json'), 'utf8')).toBe(readRoot(archive, 'manifest.json'));
    const copy = opened({ root: folder, create: false, upstream: null });
    expect(await verifyArchive(copy, null)).toMatchObject({ findings: [], state: null });
    expect(copy.state.identity.sources).toEqual(sources);
  });

  test.each([0, 2, 4])(
    'a pull that breaks after its commit, with %i files in place, is ended by the next one',
    async (renames) => {
      const { archive, store } = await pushed();
      const folder = await pulled(store);
      await publishMore(archive, 0, 0.75);
      await publishMore(archive, 1);
      await pushNow(archive, store);
      let left = renames;
      const rename = (from: string, to: string): void => {
        if (left-- === 0) throw new Error('cut');
        systemDisk.rename(from, to);
      };
      const broken = pullNow(store, folder, { disk: { ...systemDisk, rename } });
      await expect(broken).rejects.toThrow('cut');
      // It counts as the new generation.
      const copy = opened({ root: folder, create: false });
      expect(copy.readManifest().generation).toBe(3);
      copy.close();
      expect(await pullNow(store, folder)).toMatchObject({ outcome: 'unchanged' });
      expect(hashes(folder, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
      expect(await verifyFolder(folder)).toMatchObject({ generation: 3, findings: [], state: null });
    },
  );

  test('a pull that breaks during its downloads changes nothing, and the next one fetches only the others', async () => {
    const { archive, prefix, store } = await pushed();
    const folder = await pulled(store);
    const before = hashes(folder, '**/*');
    await publishMore(archive, 0, 0.75);
    await pushNow(archive, store);
    let downloads = 0;
    const { store: broken } = await proxied(prefix, {
      answer: ({ path }) => (path.includes('/data/') && ++downloads > 2 ? 500 : null),
    });
    await expect(pullNow(broken, folder)).rejects.toMatchObject({ exitCode: 7 });
    expect(hashes(folder, '**/*')).toEqual(before);
    // Of two files that were fetched, one is of the next generation, too, and the other one is damaged since.
    await publishMore(archive, 0, 0.5);
    await pushNow(archive, store);
    const staged = globSync('.oddslake/staging/**/*.parquet-*', { cwd: folder }).map((path) => join(folder, path));
    const wanted = new Set(listManifestFiles(archive.readManifest()).map(({ sha256 }) => sha256));
    const kept = staged.filter((path) => wanted.has(path.slice(-64)));
    expect(staged.length).toBeGreaterThan(1);
    writeFileSync(kept[0]!, 'x');
    const missing = listManifestFiles(archive.readManifest()).filter(({ path, sha256 }) => before[path] !== sha256);
    expect(await pullNow(store, folder)).toMatchObject({
      outcome: 'pulled',
      downloaded: { files: missing.length - kept.length + 1 },
    });
    expect(hashes(folder, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
    expect(globSync('.oddslake/staging/**/*.parquet*', { cwd: folder })).toEqual([]);
    expect(await verifyFolder(folder)).toMatchObject({ findings: [], state: null });
  });

  test('a download that was damaged on its way is fetched again, once', async () => {
    const { archive, store } = await pushed();
    const { key } = (await requireRemoteManifest(store)).files[0]!;
    let cut = 1;
    const damaging = (): ObjectStore => ({
      ...store,
      async get(path) {
        const found = await store.get(path);
        return found !== null && path === key && cut-- > 0 ? { ...found, bytes: found.bytes.subarray(1) } : found;
      },
    });
    const folder = join(scratchFolder(), 'pulled');
    await pullNow(damaging(), folder);
    expect(hashes(folder, '**/*')).toEqual(hashes(archive.layout.root, '**/*'));
    cut = 2;
    const other = join(scratchFolder(), 'pulled');
    await expect(pullNow(damaging(), other)).rejects.toMatchObject({ exitCode: 6 });
  });

  test('views.sql reads the objects of its generation in DuckDB', async () => {
    const { archive, prefix, store } = await pushed();
    await publishMore(archive, 0, 0.75);
    await pushNow(archive, store);
    // DuckDB's extension for S3 is not a part of the tests: here it reads the server's own files.
    const text = readFileSync(join(folderOf(prefix), 'views.sql'), 'utf8');
    const local = text.replaceAll(`s3://lakes/${prefix}`, join(folderOf(prefix)));
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    await connection.run(local);
    const read = async (sql: string) => (await connection.runAndReadAll(sql)).getRowsJson();
    expect(await read(`SELECT concat_ws(' ', symbol, epoch_ms(t), p) AS tick FROM ticks ORDER BY tick`)).toEqual(
      publishedTicks(archive.layout.root)
        .sort()
        .map((tick) => [tick]),
    );
    expect(await read('SELECT count(*) FROM ticks_with_markets')).toEqual([['2']]);
    connection.closeSync();
  });

  test('a pull refuses a folder with other data, and an archive with data that was not pushed', async () => {
    const { archive, store } = await pushed();
    const strange = scratchFolder();
    writeFileSync(join(strange, 'notes.txt'), 'mine');
    await expect(pullNow(store, strange)).rejects.toMatchObject({ exitCode: 2 });
    // Nothing would be lost.
    expect(await pullNow(store, archive.layout.root)).toMatchObject({ outcome: 'unchanged' });
    const folder = await pulled(store);
    const copy = opened({ root: folder, create: false });
    append(copy, answer('AAA', [[day0 + 5, 0.1]]));
    await publishMore(archive, 1);
    await expect(pullNow(store, archive.layout.root)).rejects.toMatchObject({ exitCode: 2 });
    await pushNow(archive, store);
    await expect(pullNow(store, folder)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('has data that is not known to be at'),
    });
    await publishNow(copy);
    await expect(pullNow(store, folder)).rejects.toMatchObject({ exitCode: 2 });
  });
});
