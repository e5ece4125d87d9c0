import { dirname, join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { type Disk, isCrossDeviceError, linkOrCopy, sha256 } from '../disk/file-system.ts';
import type { Archive } from '../open-archive.ts';

/** Where damaged files are kept, below the archive's root: a folder for each generation that was damaged. */
export const damagedFilesFolder = '.oddslake/damaged';

/**
 * Keeps the bytes of a file under `damagedFilesFolder` and leaves it where it is: what takes its place does so by a rename,
 * and whoever dies in between has moved nothing. Durable when it returns; done again, it finds what it did before.
 * @returns where they are, relative to the root
 */
export function quarantineCopy(archive: Archive, generation: number, path: string): string {
  const { disk, layout } = archive;
  const from = join(layout.root, path);
  const kept = findQuarantinePath(archive, generation, path, (at) => isSameFile(disk, from, at));
  const to = join(layout.root, kept);
  if (disk.size(to) === null) {
    disk.makeFolder(dirname(to));
    linkOrCopy(disk, from, to);
  }
  disk.syncFolder(dirname(to));
  return kept;
}

/** The same for what no manifest names, or is no file: it is moved there. */
export function moveToQuarantine(archive: Archive, generation: number, path: string): string {
  const { disk, layout } = archive;
  const kept = findQuarantinePath(archive, generation, path, () => false);
  const to = join(layout.root, kept);
  const from = join(layout.root, path);
  disk.makeFolder(dirname(to));
  try {
    disk.rename(from, to);
  } catch (error) {
    if (!isCrossDeviceError(error)) throw error;
    if (!disk.isFile(from) || disk.isLink(from))
      throw new DamageError(
        `${path} does not belong there, and cannot be set aside: it is no file, and on another file system than ${layout.privateFolder}. Move it away, and run again.`,
      );
    const copied = quarantineCopy(archive, generation, path);
    disk.remove(from);
    disk.syncFolder(dirname(from));
    return copied;
  }
  disk.syncFolder(dirname(to));
  disk.syncFolder(dirname(from));
  return kept;
}

/** The first place of a file's name that is free, or `isIt`. */
function findQuarantinePath(
  { disk, layout }: Archive,
  generation: number,
  path: string,
  isIt: (at: string) => boolean,
): string {
  for (let n = 1; ; n++) {
    const place = `${damagedFilesFolder}/${generation}/${path}${n === 1 ? '' : `.${n}`}`;
    const at = join(layout.root, place);
    if (disk.stamp(at) === null || isIt(at)) return place;
  }
}

function isSameFile(disk: Disk, from: string, at: string): boolean {
  if (disk.stamp(from) === disk.stamp(at)) return true;
  return disk.size(from) === disk.size(at) && sha256(disk.read(from)) === sha256(disk.read(at));
}
