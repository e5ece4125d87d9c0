import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import {
  createDisk,
  type Disk,
  type FileSystemCalls,
  sha256,
  systemCalls,
  systemDisk,
} from '../../src/archive/disk/file-system.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { answer, append, day0, dayMs, opened, publishNow, scratchFolder } from './scratch.ts';

// Folders of an archive that are on another file system than the rest of it.

const crossDevice = (syscall: string): Error =>
  Object.assign(new Error(`EXDEV: cross-device link not permitted, ${syscall}`), { code: 'EXDEV', syscall });

/** File calls to which everything below one of these folders is another file system. */
export function apartCalls(folders: readonly string[], over: FileSystemCalls = systemCalls): FileSystemCalls {
  const isApart = (path: string): boolean => folders.some((folder) => path.startsWith(folder + sep));
  const across = (from: string, to: string, syscall: string): void => {
    if (isApart(from) !== isApart(to)) throw crossDevice(syscall);
  };
  return {
    ...over,
    rename(from, to) {
      across(from, to, 'rename');
      over.rename(from, to);
    },
    link(from, to) {
      across(from, to, 'link');
      over.link(from, to);
    },
  };
}

export const apartDisk = (folders: readonly string[]): Disk => createDisk(apartCalls(folders));

/** A folder on another file system than the scratch folders are on, removed with the test; null where there is none. */
export function elsewhere(): string | null {
  const shared = '/dev/shm';
  if (statSync(shared, { throwIfNoEntry: false })?.dev === statSync(tmpdir()).dev) return null;
  try {
    const path = mkdtempSync(join(shared, 'oddslake-apart-'));
    onTestFinished(() => rmSync(path, { recursive: true, force: true }));
    return path;
  } catch {
    return null;
  }
}

export const part = (day = day0): string => toDayPath('ticks', day, 0);
export const dayFolder = 'ticks/date=2026-06-01';

export const first = [answer('AAA', [[day0, 0.5]]), answer('BBB', [[day0 + dayMs, 0.25]])];
export const second = [answer('AAA', [[day0 + 1, 0.6]]), answer('BBB', [[day0 + 2 * dayMs, 0.6]])];

const datasets = ['ticks', 'candles_1h', 'candles_1d', 'coverage', 'symbols'];
export const start = (root: string, disk: Disk): Archive => opened({ root, disk, parts: 1 });

/** The bytes of every file below some folders, hidden ones and those behind links too, by path. */
export const filesOf = (root: string, folders: readonly string[] = datasets): Record<string, string> =>
  Object.fromEntries(
    folders
      .flatMap((folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`))
      .flatMap((path): [string, string][] =>
        statSync(join(root, path)).isDirectory()
          ? Object.entries(filesOf(root, [path]))
          : [[path, sha256(readFileSync(join(root, path)))]],
      ),
  );

/** The two publishes where all is on one file system. */
export async function expected(): Promise<Record<string, string>> {
  const root = scratchFolder();
  const archive = start(root, systemDisk);
  append(archive, ...first);
  await publishNow(archive);
  append(archive, ...second);
  await publishNow(archive);
  return filesOf(root);
}

export const ticksOf = (files: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).filter(([path]) => path.startsWith('ticks/')));

/** After the first publish, a folder of the archive is moved to `place` and linked to. */
export async function movedApart(place: string, folder: string): Promise<string> {
  const root = scratchFolder();
  const archive = start(root, systemDisk);
  append(archive, ...first);
  await publishNow(archive);
  archive.close();
  cpSync(join(root, folder), place, { recursive: true });
  rmSync(join(root, folder), { recursive: true });
  symlinkSync(place, join(root, folder));
  return root;
}
