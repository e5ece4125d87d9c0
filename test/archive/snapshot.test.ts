import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { hasRows, listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { closeDraft, openDraft } from '../../src/archive/read/export-file.ts';
import { takeSnapshot } from '../../src/archive/read/snapshot.ts';
import { flip, repairNow } from './damaged.ts';
import { answer, append, day0, dayMs, hashes, opened, publishedTicks, publishNow, scratchFolder } from './scratch.ts';

const everything = '**/*';
const usage = (sentence: RegExp) => expect.objectContaining({ exitCode: 2, message: expect.stringMatching(sentence) });

async function published(): Promise<Archive> {
  const archive = opened();
  append(
    archive,
    answer('AAA', [
      [day0, 0.5],
      [day0 + dayMs, 0.25],
    ]),
    answer('BBB', [[day0, 0.5]]),
  );
  await publishNow(archive);
  return archive;
}

test('a snapshot keeps its bytes through the publishes after it, and verifies as an archive of its own', async () => {
  const archive = await published();
  const parent = scratchFolder();
  const folder = join(parent, 'backup/snap');
  const taken = await takeSnapshot(archive, folder, { id: 'a' });
  expect(taken).toMatchObject({
    folder,
    generation: 1,
    files: listManifestFiles(archive.readManifest()).length,
    copied: 0,
  });
  const before = hashes(folder, everything);
  const root = hashes(archive.layout.root, everything);
  expect(before).toEqual(root);
  const part = archive.readManifest().datasets.ticks.files[0]!.path;
  expect(statSync(join(folder, part)).ino).toBe(statSync(join(archive.layout.root, part)).ino);

  append(archive, answer('AAA', [[day0 + 1, 0.6]]), answer('BBB', [[day0 + 2 * dayMs, 0.6]]));
  await publishNow(archive);
  expect(hashes(archive.layout.root, everything)).not.toEqual(root);
  expect(hashes(folder, everything)).toEqual(before);
  const copy = opened({ root: folder, create: false });
  expect(await verifyArchive(copy, null)).toMatchObject({ generation: 1, findings: [] });
  // Publishing to the snapshot does not change the archive.
  const now = hashes(archive.layout.root, everything);
  append(copy, answer('AAA', [[day0 + 5, 0.1]]));
  await publishNow(copy);
  expect(hashes(archive.layout.root, everything)).toEqual(now);
  expect(readdirSync(join(archive.layout.root, '.oddslake/pins'))).toEqual([]);
  expect(readdirSync(join(parent, 'backup'))).toEqual(['snap']);
});

test.each([0, 1, 2, 3])(
  'of a publish past its commit point with %i files in place it is the new generation',
  async (renames) => {
    const archive = await published();
    append(archive, answer('AAA', [[day0 + 1, 0.6]]), answer('BBB', [[day0 + 1, 0.6]]));
    let left = renames;
    const rename = (from: string, to: string): void => {
      if (left-- === 0) throw new Error('cut');
      archive.disk.rename(from, to);
    };
    await expect(publishNow({ ...archive, disk: { ...archive.disk, rename } })).rejects.toThrow('cut');
    const folder = join(scratchFolder(), 'snap');
    expect((await takeSnapshot(archive, folder, { id: 'a' })).generation).toBe(2);
    expect(publishedTicks(folder)).toHaveLength(5);
    expect(readFileSync(join(folder, 'README.md'), 'utf8')).toContain('generation 2');
    expect((await verifyArchive(opened({ root: folder, create: false }), null)).findings).toEqual([]);
  },
);

test('copies files to another device, and checks their hashes', async () => {
  const archive = await published();
  const folder = join(scratchFolder(), 'snap');
  const link = (from: string, to: string): void => {
    if (!to.includes('/.oddslake/')) throw Object.assign(new Error('cross-device link'), { code: 'EXDEV' });
    archive.disk.link(from, to);
  };
  const apart = { ...archive, disk: { ...archive.disk, link } };
  const taken = await takeSnapshot(apart, folder, { id: 'a' });
  expect(taken.copied).toBe(taken.files);
  expect(hashes(folder, everything)).toEqual(hashes(archive.layout.root, everything));
  const { path, bytes } = archive.readManifest().datasets.ticks.files[0]!;
  writeFileSync(join(archive.layout.root, path), Buffer.alloc(bytes));
  const second = join(scratchFolder(), 'snap');
  await expect(takeSnapshot(apart, second, { id: 'a' })).rejects.toMatchObject({ exitCode: 6 });
  expect(existsSync(second)).toBe(false);
});

test('rejects a damaged part file, even if its size is right', async () => {
  const archive = await published();
  const parent = scratchFolder();
  const { path } = archive.readManifest().datasets.candles_1h.files[0]!;
  flip(join(archive.layout.root, path));
  await expect(takeSnapshot(archive, join(parent, 'snap'), { id: 'a' })).rejects.toMatchObject({
    exitCode: 6,
    message: `${path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`,
  });
  expect(readdirSync(parent)).toEqual([]);
  expect(readdirSync(join(archive.layout.root, '.oddslake/pins'))).toEqual([]);
});

describe('leaves nothing of a snapshot', () => {
  test('of a damaged archive, or one that was stopped', async () => {
    const archive = await published();
    const parent = scratchFolder();
    const stop = new AbortController();
    const options = { id: 'a', signal: stop.signal, onProgress: () => stop.abort(new Error('stopped')) };
    await expect(takeSnapshot(archive, join(parent, 'snap'), options)).rejects.toThrow('stopped');
    truncateSync(join(archive.layout.root, archive.readManifest().datasets.coverage.files[0]!.path), 5);
    await expect(takeSnapshot(archive, join(parent, 'snap'), { id: 'a' })).rejects.toMatchObject({ exitCode: 6 });
    expect(readdirSync(parent)).toEqual([]);
    expect(readdirSync(join(archive.layout.root, '.oddslake/pins'))).toEqual([]);
  });

  test('of a killed process, after another snapshot to the same folder', async () => {
    const archive = await published();
    const parent = scratchFolder();
    const other = openDraft(join(parent, 'snap'), 'other');
    // One has our process ID but is not ours, as can happen in containers.
    for (const name of ['.snap.oddslake-2147483646-x', `.snap.oddslake-${process.pid}-before`, basename(other)])
      mkdirSync(join(parent, name, 'ticks'), { recursive: true });
    mkdirSync(join(parent, 'snap'));
    await takeSnapshot(archive, join(parent, 'snap'), { id: 'a' });
    expect(readdirSync(parent).sort()).toEqual([`.snap.oddslake-${process.pid}-other`, 'snap']);
    closeDraft(other);
  });
});

test('rejects a folder with files, a file, a folder inside the archive, and an archive without a publish', async () => {
  const archive = await published();
  const parent = scratchFolder();
  const inside = join(parent, 'inside');
  symlinkSync(archive.layout.root, inside);
  writeFileSync(join(parent, 'file'), '');
  const before = hashes(archive.layout.root, everything);
  const take = (folder: string, of = archive) => takeSnapshot(of, folder, { id: 'a' });
  await expect(take(parent)).rejects.toEqual(usage(/not empty \(file, inside\)/));
  await expect(take(join(parent, 'file'))).rejects.toEqual(usage(/is a file/));
  await expect(take(archive.layout.root)).rejects.toEqual(usage(/inside the archive/));
  await expect(take(join(archive.layout.root, 'ticks/new'))).rejects.toEqual(usage(/inside the archive/));
  await expect(take(join(inside, 'new'))).rejects.toEqual(usage(/inside the archive/));
  await expect(take(join(parent, 'new'), opened())).rejects.toEqual(usage(/has no published generation yet/));
  expect(hashes(archive.layout.root, everything)).toEqual(before);
  expect(existsSync(join(parent, 'new'))).toBe(false);
});

describe('a snapshot', () => {
  test('is durable on return: each of its folders, then its name', async () => {
    const archive = await published();
    const folder = join(scratchFolder(), 'snap');
    const done: string[] = [];
    const draft = `.snap.oddslake-${process.pid}-a`;
    const syncFolder = (path: string): void => {
      done.push(relative(dirname(folder), path));
      archive.disk.syncFolder(path);
    };
    const rename = (from: string, to: string): void => {
      done.push('renamed');
      archive.disk.rename(from, to);
    };
    const progress: [number, number][] = [];
    const watched = { ...archive, disk: { ...archive.disk, syncFolder, rename } };
    const taken = await takeSnapshot(watched, folder, { id: 'a', onProgress: (...args) => progress.push(args) });
    const files = listManifestFiles(archive.readManifest());
    const folders = new Set(['', ...files.map(({ path }) => dirname(path))].map((path) => join(draft, path)));
    expect(done.slice(-2)).toEqual(['renamed', '']);
    expect(new Set(done.slice(0, -2))).toEqual(folders);
    expect(taken.bytes).toBe(files.reduce((sum, { bytes }) => sum + bytes, 0));
    expect(progress).toEqual(files.map((_, i) => [i + 1, files.length]));
  });

  test.each(['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK'])('copies what cannot be linked (%s)', async (code) => {
    const archive = await published();
    const link = (from: string, to: string): void => {
      const cause = Object.assign(new Error('no link'), { code });
      if (!to.includes('/.oddslake/')) throw code === 'EPERM' ? new Error('not allowed', { cause }) : cause;
      archive.disk.link(from, to);
    };
    const folder = join(scratchFolder(), 'snap');
    const taken = await takeSnapshot({ ...archive, disk: { ...archive.disk, link } }, folder, { id: 'a' });
    expect(taken.copied).toBe(taken.files);
  });

  const failing = (archive: Archive, code: string, what: 'link' | 'rename' | 'syncFolder'): Archive => {
    const parent = (path: string): boolean => !path.includes('oddslake-') || path.includes('parent-of');
    const fail = (...paths: string[]): void => {
      if (what === 'link' ? !paths[1]!.includes('/.oddslake/') : what === 'rename' || parent(paths[0]!))
        throw Object.assign(new Error('the disk itself'), { code });
      (archive.disk[what] as (...args: string[]) => void)(...paths);
    };
    return { ...archive, disk: { ...archive.disk, [what]: fail } };
  };

  test.each([
    ['EXDEV', 'rename', /is a mount point/],
    ['EBUSY', 'rename', /is a mount point/],
    ['ENOTEMPTY', 'rename', /is no longer empty/],
    ['EEXIST', 'rename', /is no longer empty/],
    ['EIO', 'rename', /^the disk itself$/],
    ['EIO', 'link', /^the disk itself$/],
    ['EIO', 'syncFolder', /^the disk itself$/],
  ] as const)('that meets %s at a %s says so, and nothing is left of it', async (code, what, message) => {
    const archive = await published();
    const parent = join(scratchFolder(), 'parent-of');
    mkdirSync(parent);
    const taken = takeSnapshot(failing(archive, code, what), join(parent, 'snap'), { id: 'a' });
    await expect(taken).rejects.toThrow(message);
    expect(readdirSync(parent)).toEqual([]);
  });

  test('of an archive without rows is possible', async () => {
    const archive = opened({ parts: 1, mends: true });
    append(archive, answer('AAA', [[day0, 0.5]], { windows: [] }));
    await publishNow(archive);
    for (const { path } of listManifestFiles(archive.readManifest())) rmSync(join(archive.layout.root, path));
    archive.state.db.run('delete from symbols');
    await repairNow(archive);
    const files = listManifestFiles(archive.readManifest());
    expect(files.filter(hasRows)).toEqual([]);
    const folder = join(scratchFolder(), 'snap');
    expect(await takeSnapshot(archive, folder, { id: 'a' })).toMatchObject({ generation: 2, files: files.length });
    const names = files.map(({ path }) => path.slice(0, path.indexOf('/')));
    expect(readdirSync(folder).sort()).toEqual(
      [...new Set(names), 'README.md', 'SHA256SUMS', 'manifest.json', 'views.sql'].sort(),
    );
  });

  test('to a folder with many files names some of them', async () => {
    const archive = await published();
    const parent = scratchFolder();
    for (const name of ['a', 'b', 'c']) writeFileSync(join(parent, name), '');
    await expect(takeSnapshot(archive, parent, { id: 'a' })).rejects.toEqual(usage(/not empty \(a, b, c\)/));
    writeFileSync(join(parent, 'd'), '');
    await expect(takeSnapshot(archive, parent, { id: 'a' })).rejects.toEqual(usage(/not empty \(a, b, c, …\)/));
  });
});
