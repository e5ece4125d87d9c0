import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { type Disk, sha256 } from '../../src/archive/disk/file-system.ts';
import type { PublishedFile } from '../../src/archive/format/manifest.ts';
import { moveToQuarantine, quarantineCopy } from '../../src/archive/integrity/quarantine-file.ts';
import { findCopies } from '../../src/archive/integrity/triage.ts';
import { opened } from './scratch.ts';

const path = 'ticks/date=2026-06-01/part-00.parquet';
const kept = `.oddslake/damaged/3/${path}`;

function put(archive: Archive, name: string, text: string): string {
  const at = join(archive.layout.root, name);
  mkdirSync(dirname(at), { recursive: true });
  // What is kept may be a link to it.
  rmSync(at, { force: true });
  writeFileSync(at, text);
  return at;
}
const reported = (archive: Archive, name: string): string => readFileSync(join(archive.layout.root, name), 'utf8');
const withDisk = (archive: Archive, disk: Partial<Disk>): Archive => ({
  ...archive,
  disk: { ...archive.disk, ...disk },
});
const failing = (code: string) => (): never => {
  throw Object.assign(new Error('no link'), { code });
};

test('a damaged file is kept and left where it is; done again, it is kept once', () => {
  const archive = opened();
  const at = put(archive, path, 'bad');
  const synced: string[] = [];
  const syncFolder = (folder: string): void => void synced.push(folder);
  expect(quarantineCopy(withDisk(archive, { syncFolder }), 3, path)).toBe(kept);
  expect(synced).toEqual([dirname(join(archive.layout.root, kept))]);
  expect(statSync(join(archive.layout.root, kept)).ino).toBe(statSync(at).ino);
  expect(quarantineCopy(archive, 3, path)).toBe(kept);
  expect(globSync('.oddslake/damaged/**/*.parquet*', { cwd: archive.layout.root })).toEqual([kept]);
});

test('a file with the same bytes is kept once, though it is another one', () => {
  const archive = opened();
  const at = put(archive, path, 'bad');
  quarantineCopy(archive, 3, path);
  put(archive, path, 'bad');
  utimesSync(at, 1, 1);
  expect(quarantineCopy(archive, 3, path)).toBe(kept);
});

test('files of one name that differ are kept beside each other, and those of another generation apart', () => {
  const archive = opened();
  for (const text of ['one', 'two', 'three']) {
    put(archive, path, text);
    quarantineCopy(archive, 3, path);
  }
  quarantineCopy(archive, 4, path);
  expect([kept, `${kept}.2`, `${kept}.3`].map((name) => reported(archive, name))).toEqual(['one', 'two', 'three']);
  expect(reported(archive, kept.replace('/3/', '/4/'))).toBe('three');
});

test.each(['EPERM', 'ENOTSUP', 'EMLINK'])('where no link can be made (%s) the bytes are copied', (code) => {
  const archive = opened();
  const at = put(archive, path, 'bad');
  expect(quarantineCopy(withDisk(archive, { link: failing(code) }), 3, path)).toBe(kept);
  expect(reported(archive, kept)).toBe('bad');
  expect(statSync(join(archive.layout.root, kept)).ino).not.toBe(statSync(at).ino);
});

test('a disk that fails is reported as it is, also where it says so in the cause', () => {
  const archive = opened();
  put(archive, path, 'bad');
  expect(() => quarantineCopy(withDisk(archive, { link: failing('EIO') }), 3, path)).toThrow('no link');
  const wrapped = (): never => {
    throw new Error('not allowed', { cause: Object.assign(new Error('no link'), { code: 'EPERM' }) });
  };
  expect(quarantineCopy(withDisk(archive, { link: wrapped }), 3, path)).toBe(kept);
});

test('what is no file is moved, each to a place of its own, and both folders are synced', () => {
  const archive = opened();
  const { root } = archive.layout;
  const synced: string[] = [];
  const syncFolder = (folder: string): void => void synced.push(folder);
  for (const name of [kept, `${kept}.2`]) {
    mkdirSync(join(root, path, name === kept ? 'sub' : 'other'), { recursive: true });
    expect(moveToQuarantine(withDisk(archive, { syncFolder }), 3, path)).toBe(name);
    expect(existsSync(join(root, path))).toBe(false);
  }
  expect(existsSync(join(root, kept, 'sub'))).toBe(true);
  expect(existsSync(join(root, `${kept}.2`, 'other'))).toBe(true);
  const folders = [dirname(join(root, kept)), dirname(join(root, path))];
  expect(synced).toEqual([...folders, ...folders]);
});

const published = (text: string): PublishedFile => ({
  path,
  date: null,
  rows: 1,
  bytes: text.length,
  sha256: sha256(Buffer.from(text)),
  t_min: null,
  t_max: null,
  symbols: 0,
  symbol_from: null,
  symbol_to: null,
  generation: 1,
});

test('bytes that are missing are found in the places that are named and among what was set aside', () => {
  const archive = opened();
  put(archive, 'ticks/x', 'one');
  put(archive, '.oddslake/damaged/1/deep/er/y', 'two');
  put(archive, '.oddslake/damaged/2/z', 'six');
  mkdirSync(join(archive.layout.root, 'ticks/folder'));
  symlinkSync('nowhere', join(archive.layout.root, 'ticks/link'));
  const wanted = ['one', 'two', 'none', 'ten'].map(published);
  const found = findCopies(archive, wanted, ['ticks/folder', 'ticks/link', 'ticks/none', 'ticks/x']);
  expect(Object.fromEntries(found)).toEqual({
    [wanted[0]!.sha256]: 'ticks/x',
    [wanted[1]!.sha256]: '.oddslake/damaged/1/deep/er/y',
  });
});

test('a place whose bytes the device does not give is passed over, and any other failure is reported', () => {
  const archive = opened();
  put(archive, 'ticks/a', 'bad');
  put(archive, 'ticks/b', 'one');
  const failing = (code: string): Archive =>
    withDisk(archive, {
      read: (at) => {
        const cause = Object.assign(new Error('no'), { code });
        if (at.endsWith('/a')) throw new Error('The disk failed', { cause });
        return archive.disk.read(at);
      },
    });
  const look = (code: string) => findCopies(failing(code), [published('one')], ['ticks/a', 'ticks/b']);
  expect([...look('EIO').values()]).toEqual(['ticks/b']);
  expect(() => look('EACCES')).toThrow('The disk failed');
});

test('only files of the size of one that is missing are read, and none once all are found', () => {
  const archive = opened();
  for (const [name, text] of [
    ['ticks/a', 'longer'],
    ['ticks/b', 'one'],
    ['ticks/c', 'two'],
    ['ticks/d', 'six'],
  ] as const)
    put(archive, name, text);
  const read: string[] = [];
  const watched = withDisk(archive, {
    read: (at) => {
      read.push(at.slice(-1));
      return archive.disk.read(at);
    },
  });
  const places = ['ticks/a', 'ticks/b', 'ticks/c', 'ticks/d'];
  expect(findCopies(watched, [published('two')], places).size).toBe(1);
  expect(read).toEqual(['b', 'c']);
  expect(findCopies(watched, [], places).size).toBe(0);
  expect(read).toEqual(['b', 'c']);
});
