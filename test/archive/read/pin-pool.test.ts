import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Disk, systemDisk } from '../../../src/archive/disk/file-system.ts';
import { DamageError } from '../../../src/base/errors.ts';
import { PinPool, ReplacedError, smallFileBytesMax } from '../../../src/server/history/pin-pool.ts';
import { answer, append, day0, now, opened, publishNow, scratchFolder } from '../scratch.ts';

const { signal } = new AbortController();

async function archiveOf(root = scratchFolder()) {
  let reads = 0;
  const disk: Disk = {
    ...systemDisk,
    read(path) {
      if (path.includes('/pins/')) reads++;
      return systemDisk.read(path);
    },
    readStream(path) {
      reads++;
      return systemDisk.readStream(path);
    },
  };
  const archive = opened({ root, disk });
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  const [file] = archive.readManifest().datasets.ticks.files;
  return { root, archive, file: file!, pinPool: new PinPool(archive, 'test'), reads: () => reads };
}

test.each(['small', 'large'])('checks the hash of a %s file once for all readers', async (size) => {
  const { pinPool, file: small, reads } = await archiveOf();
  const file = { ...small, bytes: size === 'small' ? small.bytes : smallFileBytesMax + 1 };
  const taken = await Promise.all([1, 2, 3].map(() => pinPool.acquire(file, signal)));
  expect(new Set(taken.map(({ path }) => path)).size).toBe(1);
  for (const one of taken) one.release();
  (await pinPool.acquire(file, signal)).release();
  expect(reads()).toBe(1);
  pinPool.close();
  expect(existsSync(pinPool.folder)).toBe(false);
});

test('checks a modified file again, and rejects it if it differs', async () => {
  const { root, pinPool, file, reads } = await archiveOf();
  const path = join(root, file.path);
  const bytes = readFileSync(path);
  (await pinPool.acquire(file, signal)).release();
  writeFileSync(path, bytes.toReversed());
  await expect(pinPool.acquire(file, signal)).rejects.toBeInstanceOf(DamageError);
  writeFileSync(path, bytes);
  (await pinPool.acquire(file, signal)).release();
  expect(reads()).toBe(3);
  pinPool.close();
});

test('keeps a pinned file when a later generation replaces it, until it is released', async () => {
  const { root, archive, pinPool, file } = await archiveOf();
  const bytes = readFileSync(join(root, file.path));
  const taken = await pinPool.acquire(file, signal);
  append(archive, answer('AAA', [[day0 + 1, 0.6]]));
  await publishNow(archive, now + 1);
  expect(readFileSync(join(root, file.path)).equals(bytes)).toBe(false);
  expect(readFileSync(taken.path).equals(bytes)).toBe(true);
  pinPool.releaseStale(archive.readManifest());
  expect(existsSync(taken.path)).toBe(true);
  taken.release();
  expect(globSync('**/*.parquet', { cwd: pinPool.folder })).toEqual([]);
  await expect(pinPool.acquire(file, signal)).rejects.toBeInstanceOf(ReplacedError);
  pinPool.close();
});

test('an aborted reader does not affect other readers of the same file', async () => {
  const { pinPool, file } = await archiveOf();
  // A large file is read asynchronously, so that its reader can be aborted.
  const large = { ...file, bytes: smallFileBytesMax + 1 };
  const stopped = new AbortController();
  const first = pinPool.acquire(large, stopped.signal);
  const second = pinPool.acquire(large, signal);
  stopped.abort(new Error('stopped'));
  await expect(first).rejects.toThrow('stopped');
  (await second).release();
  pinPool.close();
});
