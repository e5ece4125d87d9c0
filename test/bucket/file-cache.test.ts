import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type Disk, sha256, systemDisk } from '../../src/archive/disk/file-system.ts';
import { DiskFullError, exitCodes, OddslakeError } from '../../src/base/errors.ts';
import { type FileCache, openFileCache } from '../../src/bucket/file-cache.ts';
import { clockAt, hourMs, now, scratchFolder } from '../archive/scratch.ts';

let readers = 0;

interface Opening {
  readonly bytesMax?: number;
  readonly disk?: Disk;
  readonly nowMs?: number;
}

/** A reader of a cache, with a function that names files in its folder. */
function openReader(folder: string, { bytesMax = 1000, disk = systemDisk, nowMs = now }: Opening = {}) {
  const cache = openFileCache({ folder, bytesMax, disk, clock: clockAt(nowMs), id: `r${++readers}` });
  let isOpen = true;
  const release = (): void => {
    if (isOpen) cache.release();
    isOpen = false;
  };
  onTestFinished(release);
  let targets = 0;
  const target = (): string => join(cache.folder, `file${++targets}`);
  return { ...cache, release, target };
}

const fileOf = (text: string) => ({ sha256: sha256(Buffer.from(text)), bytes: text.length });

function add(cache: FileCache & { target(): string }, text: string): string {
  const at = cache.target();
  cache.add(fileOf(text), Buffer.from(text), at);
  return at;
}

const entriesOf = (folder: string): string[] => readdirSync(join(folder, 'files'));
const isCached = (folder: string, text: string): boolean => entriesOf(folder).includes(fileOf(text).sha256);

test('a file is added once, and readers get links to it', async () => {
  const folder = scratchFolder();
  const [one, two] = [openReader(folder), openReader(folder)];
  const text = 'some rows';
  const [at, other] = [one.target(), two.target()];
  expect(await one.take(fileOf(text), at)).toBe(false);
  one.add(fileOf(text), Buffer.from(text), at);
  expect(await two.take(fileOf(text), other)).toBe(true);
  expect(readFileSync(other, 'utf8')).toBe(text);
  expect(statSync(other).ino).toBe(statSync(at).ino);
  expect(entriesOf(folder)).toEqual([fileOf(text).sha256]);
  // Two readers may download the same file at the same time.
  expect(readFileSync(add(two, text), 'utf8')).toBe(text);
  expect(readFileSync(at, 'utf8')).toBe(text);
});

test('only its user can read a cache', () => {
  const folder = join(scratchFolder(), 'new', 'cache');
  openReader(folder);
  for (const path of [folder, join(folder, 'files'), join(folder, 'readers')])
    expect(statSync(path).mode & 0o777, path).toBe(0o700);
});

test.each([
  ['flipped', (at: string) => writeFileSync(at, 'some rowz')],
  ['cut', (at: string) => writeFileSync(at, 'some')],
  ['replaced by a folder', (at: string) => [rmSync(at), mkdirSync(at)]],
])('an entry that was %s is not used, and is replaced', async (_, spoil) => {
  const folder = scratchFolder();
  const text = 'some rows';
  const first = openReader(folder);
  add(first, text);
  first.release();
  spoil(join(folder, 'files', fileOf(text).sha256));
  const next = openReader(folder);
  const at = next.target();
  expect(await next.take(fileOf(text), at)).toBe(false);
  expect(existsSync(at)).toBe(false);
  next.add(fileOf(text), Buffer.from(text), at);
  expect(readFileSync(at, 'utf8')).toBe(text);
  expect(await openReader(folder).take(fileOf(text), next.target())).toBe(true);
});

test('the entries that were not used for longest are removed first', async () => {
  const folder = scratchFolder();
  const texts = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(10));
  for (const [i, text] of texts.entries()) {
    const reader = openReader(folder, { nowMs: now + i * hourMs });
    add(reader, text);
    reader.release();
  }
  const user = openReader(folder, { nowMs: now + 10 * hourMs });
  expect(await user.take(fileOf(texts[0]!), user.target())).toBe(true);
  user.release();
  const reader = openReader(folder, { bytesMax: 40 });
  reader.makeRoom(20);
  expect(texts.map((text) => isCached(folder, text))).toEqual([true, false, false, true]);
});

test('a use does not look like a change of the file', async () => {
  const folder = scratchFolder();
  const first = openReader(folder);
  const at = add(first, 'some rows');
  const before = systemDisk.stamp(at);
  const later = openReader(folder, { nowMs: now + hourMs });
  expect(await later.take(fileOf('some rows'), later.target())).toBe(true);
  expect(systemDisk.stamp(at)).toBe(before);
  expect(lstatSync(at).atimeMs).toBe(now + hourMs);
});

test('entries in use stay, and are removed when their last reader ends', async () => {
  const folder = scratchFolder();
  const [one, two] = [openReader(folder), openReader(folder)];
  const text = 'x'.repeat(100);
  add(one, text);
  expect(await two.take(fileOf(text), two.target())).toBe(true);
  const small = openReader(folder, { bytesMax: 10 });
  small.makeRoom(0);
  one.release();
  small.makeRoom(0);
  expect(isCached(folder, text)).toBe(true);
  two.release();
  small.release();
  expect(entriesOf(folder)).toEqual([]);
});

test('a file that was removed from the cache stays readable by its readers', async () => {
  const folder = scratchFolder();
  const reader = openReader(folder);
  const at = add(reader, 'some rows');
  rmSync(join(folder, 'files'), { recursive: true });
  expect(readFileSync(at, 'utf8')).toBe('some rows');
  expect(await reader.take(fileOf('some rows'), reader.target())).toBe(false);
});

test('the folder of a reader goes with it, and that of a killed one with the next reader', () => {
  const folder = scratchFolder();
  const reader = openReader(folder);
  add(reader, 'some rows');
  reader.release();
  const readersFolder = join(folder, 'readers');
  expect(readdirSync(readersFolder)).toEqual([]);
  // A lock file that no process holds.
  const killed = join(readersFolder, '1-killed');
  mkdirSync(killed);
  writeFileSync(`${killed}.held`, '');
  writeFileSync(join(killed, 'file1'), 'some rows');
  const next = openReader(folder);
  expect(existsSync(killed)).toBe(false);
  expect(existsSync(next.folder)).toBe(true);
});

test('without hard links, readers get copies', async () => {
  const link = (): void => {
    throw new OddslakeError(exitCodes.unexpected, 'no links here', {
      cause: Object.assign(new Error(), { code: 'EPERM' }),
    });
  };
  const disk = { ...systemDisk, link };
  const folder = scratchFolder();
  const [one, two] = [openReader(folder, { disk }), openReader(folder, { disk })];
  const [at, other] = [add(one, 'some rows'), two.target()];
  expect(await two.take(fileOf('some rows'), other)).toBe(true);
  two.makeRoom(2000);
  expect(entriesOf(folder)).toEqual([]);
  for (const path of [at, other]) expect(readFileSync(path, 'utf8')).toBe('some rows');
});

test('a full disk and a folder that cannot be written to are explained', () => {
  const folder = scratchFolder();
  const write = (): void => {
    throw new DiskFullError('The disk is full: could not write x.');
  };
  const full = openReader(folder, { disk: { ...systemDisk, write } });
  expect(() => add(full, 'some rows')).toThrow(
    expect.objectContaining({
      exitCode: exitCodes.unexpected,
      message: expect.stringMatching(/disk of .*bucket\.cache_dir/),
    }),
  );
  const makeVolatileFolder = (): void => {
    throw new OddslakeError(exitCodes.unexpected, 'Not allowed', {
      cause: Object.assign(new Error(), { code: 'EROFS' }),
    });
  };
  const refused = expect.objectContaining({
    exitCode: exitCodes.usage,
    message: expect.stringMatching(/cannot be written to.*bucket\.cache_dir/),
  });
  expect(() => openReader(scratchFolder(), { disk: { ...systemDisk, makeVolatileFolder } })).toThrow(refused);
  const file = join(folder, 'a-file');
  writeFileSync(file, '');
  expect(() => openReader(file)).toThrow(refused);
  expect(() => openReader(join(file, 'below'))).toThrow(refused);
});
