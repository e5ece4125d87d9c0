import { fsync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { createBackgroundWrites } from '../../src/archive/disk/background-writes.ts';
import { createDisk, type StartSync, systemCalls } from '../../src/archive/disk/file-system.ts';
import { readCommitState } from '../../src/archive/journal/intent.ts';
import { commitStage } from '../../src/archive/publish/commit.ts';
import { finishWrites, stageBytes, startStage } from '../../src/archive/publish/staging.ts';
import { answer, append, day0, dayMs, opened, publishNow, scratchFolder } from './scratch.ts';

const bytes = Buffer.from('ticks of a day');
const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('a file that is written in the background', () => {
  test('can be read at once, and is durable and closed later', async () => {
    const made: string[] = [];
    const startSync: StartSync = async (file) => {
      await later(1);
      systemCalls.sync(file);
      made.push('synced');
    };
    const close = (file: number): void => {
      systemCalls.close(file);
      made.push('closed');
    };
    const path = join(scratchFolder(), 'a');
    const written = createDisk({ ...systemCalls, close }, startSync).writeInBackground(path, [bytes, bytes]);
    expect(readFileSync(path)).toEqual(Buffer.concat([bytes, bytes]));
    expect(made).toEqual([]);
    await written;
    expect(made).toEqual(['synced', 'closed']);
  });

  test('is closed after a failure, which is explained', async () => {
    const closed: number[] = [];
    const close = (file: number): void => {
      systemCalls.close(file);
      closed.push(file);
    };
    const path = join(scratchFolder(), 'a');
    const failed = Object.assign(new Error('full'), { code: 'ENOSPC' });
    const write = (): never => {
      throw failed;
    };
    expect(() => createDisk({ ...systemCalls, close, write }).writeInBackground(path, bytes)).toThrow(
      /The disk is full/,
    );
    const unsynced = createDisk({ ...systemCalls, close }, () => Promise.reject(failed));
    await expect(unsynced.writeInBackground(path, bytes)).rejects.toThrow(/The disk is full: could not write/);
    await expect(unsynced.syncFolderInBackground(join(path, '..'))).rejects.toThrow(/could not sync/);
    expect(closed).toHaveLength(3);
  });

  test('is synced through the calls of the disk if it has no other way', async () => {
    const synced: number[] = [];
    const disk = createDisk({ ...systemCalls, sync: (file) => synced.push(file) });
    await disk.writeInBackground(join(scratchFolder(), 'a'), bytes);
    expect(synced).toHaveLength(1);
  });
});

describe('writes in the background', () => {
  test('are waited for until few enough are left', async () => {
    const writes = createBackgroundWrites();
    const done: number[] = [];
    for (const i of [1, 2, 3]) writes.add(later(10 * i).then(() => void done.push(i)));
    await writes.wait(3);
    expect(done).toEqual([]);
    await writes.wait(1);
    expect(done).toEqual([1, 2]);
    await writes.wait(0);
    expect(done).toEqual([1, 2, 3]);
  });

  test('fail with the first error, now and later', async () => {
    const writes = createBackgroundWrites();
    writes.add(later(5).then(() => Promise.reject(new Error('second'))));
    writes.add(Promise.reject(new Error('first')));
    await expect(writes.wait(1)).rejects.toThrow('first');
    await writes.settle();
    await expect(writes.wait(0)).rejects.toThrow('first');
  });
});

test('a stage whose files may not be durable yet cannot be committed', async () => {
  const archive = opened({ disk: createDisk(systemCalls, async (file) => systemCalls.sync(file)) });
  const writes = createBackgroundWrites();
  const { manifest } = await publishNow(archive, day0);
  const stage = startStage(archive, manifest, readCommitState(archive.state.db), writes);
  stageBytes(archive, stage, 'README.draft', bytes);
  await writes.settle();
  const next = { ...manifest, generation: manifest.generation + 1 };
  expect(() => commitStage(archive, stage, next, [], () => {})).toThrow(/not durable yet; nothing was committed/);
  expect(archive.readManifest().generation).toBe(manifest.generation);
  await finishWrites(archive, stage);
  // What is staged afterwards has to be waited for, too.
  stageBytes(archive, stage, 'SECOND.draft', bytes);
  expect(() => commitStage(archive, stage, next, [], () => {})).toThrow(/not durable yet/);
  await finishWrites(archive, stage);
  commitStage(archive, stage, next, [], () => {});
  expect(archive.readManifest().generation).toBe(next.generation);
});

describe('a publish', () => {
  const publishWith = (startSync: StartSync, calls = systemCalls) => {
    const archive = opened({ disk: createDisk(calls, startSync) });
    for (const day of [0, 1, 2])
      for (const symbol of ['AAA', 'BBB', 'CCC']) append(archive, answer(symbol, [[day0 + day * dayMs + 1, 0.5]]));
    return { archive, published: publishNow(archive, day0 + 4 * dayMs) };
  };

  test('commits when all that it has staged is durable', async () => {
    const pending = new Set<number>();
    let synced = 0;
    const pendingAtRename: number[] = [];
    const rename = (from: string, to: string): void => {
      pendingAtRename.push(pending.size);
      systemCalls.rename(from, to);
    };
    const startSync: StartSync = async (file) => {
      pending.add(file);
      await later(20 * Math.random());
      await promisify(fsync)(file);
      pending.delete(file);
      synced++;
    };
    const { archive, published } = publishWith(startSync, { ...systemCalls, rename });
    const { manifest } = await published;
    const files = Object.values(manifest.datasets).flatMap((dataset) => dataset.files);
    expect(pendingAtRename.length).toBeGreaterThanOrEqual(files.length);
    expect(new Set(pendingAtRename)).toEqual(new Set([0]));
    // Besides the files, the folder of each, and the folders above.
    const folders = new Set(files.map(({ path }) => join(path, '..')));
    expect(synced).toBeGreaterThan(files.length + folders.size);
    expect(archive.readManifest().generation).toBe(1);
  });

  test.each([
    ['a file', 3],
    ['a folder', 40],
  ])('commits nothing if %s cannot be synced, and succeeds the next time', async (_, at) => {
    let started = 0;
    let isBroken = true;
    const startSync: StartSync = async (file) => {
      const n = ++started;
      await later(5);
      if (isBroken && n === at) throw Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' });
      await promisify(fsync)(file);
    };
    const { archive, published } = publishWith(startSync);
    await expect(published).rejects.toThrow(/The disk failed/);
    expect(started).toBeGreaterThanOrEqual(at);
    expect(archive.readManifest().generation).toBe(0);
    isBroken = false;
    expect((await publishNow(archive, day0 + 4 * dayMs)).manifest.generation).toBe(1);
  });
});
