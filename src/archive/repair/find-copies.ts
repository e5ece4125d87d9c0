import { join } from 'node:path';
import { type Disk, sha256 } from '../disk/file-system.ts';
import type { PublishedFile } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { isUnreadableError } from '../verify/verify.ts';
import { damagedFilesFolder } from './quarantine-file.ts';

/**
 * Looks for the bytes of published files in other places: under the name of another file, as one that no manifest names,
 * or among what was set aside before. Reads only files that have the size of one that is wanted.
 * @param places paths below the root to look at, besides those that were set aside
 * @returns where the bytes of a sha256 are, below the root
 */
export function findCopies(
  archive: Archive,
  wanted: readonly PublishedFile[],
  places: readonly string[],
): ReadonlyMap<string, string> {
  const { disk, layout } = archive;
  const sizes = new Set(wanted.map((file) => file.bytes));
  const hashes = new Set(wanted.map((file) => file.sha256));
  const found = new Map<string, string>();
  for (const path of [...places, ...walkFiles(archive, damagedFilesFolder)]) {
    if (found.size === hashes.size) break;
    const at = join(layout.root, path);
    if (!disk.isFile(at) || !sizes.has(disk.size(at)!)) continue;
    const hash = tryHashFile(disk, at);
    if (hash !== null && hashes.has(hash)) found.set(hash, path);
  }
  return found;
}

/** Null where the bytes cannot be had: the damaged file itself may be one that the device does not give. */
function tryHashFile(disk: Disk, at: string): string | null {
  try {
    return sha256(disk.read(at));
  } catch (error) {
    if (isUnreadableError(error)) return null;
    throw error;
  }
}

function* walkFiles(archive: Archive, folder: string): Generator<string> {
  const { disk, layout } = archive;
  for (const name of disk.list(join(layout.root, folder))) {
    const path = `${folder}/${name}`;
    if (disk.isFolder(join(layout.root, path))) yield* walkFiles(archive, path);
    else yield path;
  }
}
