import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Manifest } from '../../archive/manifest.ts';
import { listManifestFiles } from '../../archive/manifest.ts';
import { computeBytesPerDay, type DiskFacts, type FileSystemFacts, suggestPermissionFix } from './disk.ts';

/**
 * Looks at the place of the archive at `root`.
 * @param secrets files that hold a secret, if they are there
 */
export function probeDisk(
  root: string,
  manifest: Manifest | null,
  secrets: readonly string[],
  nowMs: number,
): DiskFacts {
  const folder = findExistingFolder(root);
  return {
    root,
    folder,
    fileSystem: readFileSystem(folder),
    bytesPerDay: manifest === null ? null : computeBytesPerDay(listManifestFiles(manifest), nowMs),
    unwritablePaths: listWrittenPaths(root, folder).filter((path) => existsSync(path) && !isWritable(path)),
    exposedSecrets: secrets.flatMap((path) => checkSecretFile(path)),
  };
}

/** The folder itself, or where there is none the next one above it. */
function findExistingFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : findExistingFolder(dirname(path));
}

function readFileSystem(folder: string): FileSystemFacts | null {
  try {
    const { type, bsize, blocks, bavail, files, ffree } = statfsSync(folder);
    return { type, bytes: blocks * bsize, freeBytes: bavail * bsize, files, freeFiles: ffree };
  } catch {
    return null;
  }
}

/** What a run writes: folders, and the files of the state. Files that are published it replaces by renaming. */
function listWrittenPaths(root: string, folder: string): string[] {
  if (folder !== root) return [folder];
  const hidden = join(root, '.oddslake');
  const datasets = ['ticks', 'markets', 'symbols', 'coverage', 'conflicts', 'orderbooks', 'candles_1h', 'candles_1d'];
  const own = ['state.sqlite', 'lock.sqlite', 'rate.sqlite', 'staging', 'raw', 'quarantine'];
  return [root, hidden, ...datasets.map((name) => join(root, name)), ...own.map((name) => join(hidden, name))];
}

function isWritable(path: string): boolean {
  try {
    const isFolder = statSync(path).isDirectory();
    accessSync(path, isFolder ? constants.W_OK | constants.X_OK : constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function checkSecretFile(path: string): DiskFacts['exposedSecrets'] {
  const found = statSync(path, { throwIfNoEntry: false });
  // Pipes and devices, as a shell's <(…), are nobody else's to read.
  if (found?.isFile() !== true) return [];
  const { getuid, getgid, getgroups } = process;
  const user = { uid: getuid?.() ?? found.uid, gid: getgid?.() ?? found.gid, groups: getgroups?.() ?? [] };
  const advice = suggestPermissionFix(path, found, user);
  return advice === null ? [] : [{ path, mode: found.mode, advice }];
}
