import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sha256 } from '../../../src/archive/disk/file-system.ts';
import {
  createConcurrencyLimiter,
  type FileEntry,
  type OpenedFile,
  openVerifiedFiles,
} from '../../../src/archive/read/verified-files.ts';
import { DamageError } from '../../../src/base/errors.ts';
import { answer, append, day0, opened, publishNow } from '../scratch.ts';

/** Files of 1,000 bytes and more in an archive's folder, each with its hash. */
function filed(count: number, size = 1000) {
  const archive = opened();
  const files = Array.from({ length: count }, (_, i): FileEntry => {
    const bytes = Buffer.alloc(size, i + 1);
    writeFileSync(join(archive.layout.root, `file-${i}`), bytes);
    return { path: `file-${i}`, bytes: size, sha256: sha256(bytes) };
  });
  const at = (file: FileEntry): string => join(archive.layout.root, file.path);
  return { archive, files, at };
}

async function contentOf(one: OpenedFile, size: number): Promise<Buffer> {
  const all = Buffer.alloc(size);
  for (let at = 0; at < size; ) at += await one.read(all.subarray(at, at + 300), at);
  return all;
}

test('concurrent readers share one read of the file', async () => {
  const { archive, files } = filed(1);
  const verified = openVerifiedFiles(archive, 100_000);
  const all = await Promise.all(Array.from({ length: 20 }, () => verified.open(files[0]!)));
  expect(all[0]!.bytes).toHaveLength(1000);
  for (const one of all) expect(one.bytes).toBe(all[0]!.bytes);
  for (const one of all) one.close();
});

test('reads files that are too large for the cache from disk', async () => {
  const { archive, files } = filed(2);
  const verified = openVerifiedFiles(archive, 3999);
  for (const [i, file] of files.entries()) {
    const one = await verified.open(file);
    expect(one.bytes).toBeNull();
    expect(await contentOf(one, 1000)).toEqual(Buffer.alloc(1000, i + 1));
    one.close();
    one.close();
  }
});

test('yields to other work while it checks a large file', async () => {
  const { archive, files } = filed(1, 32 * 1024 * 1024);
  const verified = openVerifiedFiles(archive, 0);
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  count();
  (await verified.open(files[0]!)).close();
  isOver = true;
  // One yield per chunk of half a MiB.
  expect(turns).toBeGreaterThanOrEqual(32);
});

test('a reader keeps the file that it opened when another replaces it', async () => {
  const { archive, files, at } = filed(1);
  const [file] = files as [FileEntry];
  const verified = openVerifiedFiles(archive, 0);
  const before = await verified.open(file);
  const other = Buffer.alloc(1000, 9);
  writeFileSync(`${at(file)}.next`, other);
  renameSync(`${at(file)}.next`, at(file));
  expect(await contentOf(before, 1000)).toEqual(Buffer.alloc(1000, 1));
  await expect(verified.open(file)).rejects.toThrow(DamageError);
  const after = await verified.open({ ...file, sha256: sha256(other) });
  expect(await contentOf(after, 1000)).toEqual(other);
  for (const one of [before, after]) one.close();
});

test('fails a read when the file is written to', async () => {
  const { archive, files, at } = filed(1);
  const verified = openVerifiedFiles(archive, 0);
  const one = await verified.open(files[0]!);
  expect(await one.read(Buffer.alloc(100), 0)).toBe(100);
  writeFileSync(at(files[0]!), Buffer.alloc(1000, 7));
  await expect(one.read(Buffer.alloc(100), 100)).rejects.toThrow(DamageError);
  one.close();
});

test('bounds the memory that slow readers hold of evicted files', async () => {
  const { archive, files } = filed(12);
  const verified = openVerifiedFiles(archive, 4000);
  const readers: OpenedFile[] = [];
  for (const file of files) readers.push(await verified.open(file));
  expect(readers.filter(({ bytes }) => bytes !== null)).toHaveLength(4);
  for (const reader of readers) reader.close();
  const again = await verified.open(files[11]!);
  expect(again.bytes).not.toBeNull();
  again.close();
});

test('readBytes and open share the cache', async () => {
  const archive = opened({ parts: 1 });
  append(archive, answer('KX A', [[day0, 0.5]]));
  await publishNow(archive);
  const [ticks, symbols] = [
    archive.readManifest().datasets.ticks.files[0]!,
    archive.readManifest().datasets.symbols.files[0]!,
  ];
  const verified = openVerifiedFiles(archive, 1_000_000);
  const bytes = verified.readBytes(ticks);
  const one = await verified.open(ticks);
  expect(one.bytes).toBe(bytes);
  expect(one.modifiedMs).not.toBeNull();
  const other = await verified.open(symbols);
  expect(verified.readBytes(symbols)).toBe(other.bytes);
  for (const opened of [one, other]) opened.close();
});

test('checks a rejected file again', async () => {
  const { archive, files, at } = filed(1);
  const good = Buffer.alloc(1000, 1);
  for (const bytesMax of [0, 100_000]) {
    const verified = openVerifiedFiles(archive, bytesMax);
    writeFileSync(at(files[0]!), Buffer.alloc(1000, 5));
    await expect(verified.open(files[0]!)).rejects.toThrow(/damaged/);
    writeFileSync(at(files[0]!), good);
    const one = await verified.open(files[0]!);
    expect(await contentOf(one, 1000)).toEqual(good);
    one.close();
  }
});

test('limits concurrency in FIFO order, also after failures', async () => {
  const bounded = createConcurrencyLimiter(2);
  const started: number[] = [];
  let [running, most] = [0, 0];
  const work = (i: number) => async (): Promise<number> => {
    started.push(i);
    most = Math.max(most, ++running);
    await new Promise((resolve) => setImmediate(resolve));
    running--;
    if (i % 3 === 0) throw new Error(`${i}`);
    return i;
  };
  const ended = await Promise.allSettled(Array.from({ length: 9 }, (_, i) => bounded(work(i))));
  expect(ended.filter(({ status }) => status === 'rejected')).toHaveLength(3);
  expect([most, started]).toEqual([2, [0, 1, 2, 3, 4, 5, 6, 7, 8]]);
});
