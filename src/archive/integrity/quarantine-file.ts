import { dirname, join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import type { Archive } from '../archive.ts';
import { type Disk, isCrossDeviceError, linkOrCopy, sha256 } from '../disk/file-system.ts';
import { damagedFilesFolder } from '../format/layout.ts';

/**
 * Copies or links a file into `damagedFilesFolder` and leaves the original in place. A later rename replaces the
 * original, so an interruption in between leaves it in place. Durable on return. Idempotent.
 * @returns path of the copy, relative to the root
 */
export function quarantineCopy(archive: Archive, generation: number, path: string): string {
  const { disk, layout } = archive;
  const from = join(layout.root, path);
  const keptPath = findQuarantinePath(archive, generation, path, (at) => isSameFile(disk, from, at));
  const to = join(layout.root, keptPath);
  if (disk.size(to) === null) {
    disk.makeFolder(dirname(to));
    linkOrCopy(disk, from, to);
  }
  disk.syncFolder(dirname(to));
  return keptPath;
}

/**
 * Moves a path that no manifest lists, or that is not a regular file, into `damagedFilesFolder`. Returns its new path.
 */
export function moveToQuarantine(archive: Archive, generation: number, path: string): string {
  const { disk, layout } = archive;
  const keptPath = findQuarantinePath(archive, generation, path, () => false);
  const to = join(layout.root, keptPath);
  const from = join(layout.root, path);
  disk.makeFolder(dirname(to));
  try {
    disk.rename(from, to);
  } catch (error) {
    if (!isCrossDeviceError(error)) throw error;
    if (!disk.isFile(from) || disk.isLink(from))
      throw new DamageError(
        `${path} is not part of the archive and cannot be quarantined: it is not a regular file, and it is on a different file system from ${layout.privateFolder}. Move it away and run the command again.`,
      );
    const copied = quarantineCopy(archive, generation, path);
    disk.remove(from);
    disk.syncFolder(dirname(from));
    return copied;
  }
  disk.syncFolder(dirname(to));
  disk.syncFolder(dirname(from));
  return keptPath;
}

/** The first quarantine path for a file that is free, or for which `isSame` holds. */
function findQuarantinePath(
  { disk, layout }: Archive,
  generation: number,
  path: string,
  isSame: (at: string) => boolean,
): string {
  for (let n = 1; ; n++) {
    const candidate = `${damagedFilesFolder}/${generation}/${path}${n === 1 ? '' : `.${n}`}`;
    const at = join(layout.root, candidate);
    if (disk.stamp(at) === null || isSame(at)) return candidate;
  }
}

function isSameFile(disk: Disk, from: string, at: string): boolean {
  if (disk.stamp(from) === disk.stamp(at)) return true;
  return disk.size(from) === disk.size(at) && sha256(disk.read(from)) === sha256(disk.read(at));
}
