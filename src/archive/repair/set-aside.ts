import { dirname, join } from 'node:path';
import type { Archive } from '../archive.ts';
import { type Disk, sha256 } from '../disk/disk.ts';

/** Where damaged files are kept, below the archive's root: a folder for each generation that was damaged. */
export const damagedFolder = '.oddslake/damaged';

/**
 * Keeps the bytes of a file under `damagedFolder` and leaves it where it is: what takes its place does so by a rename,
 * and whoever dies in between has moved nothing. Durable when it returns; done again, it finds what it did before.
 * @returns where they are, relative to the root
 */
export function setAside(archive: Archive, generation: number, path: string): string {
  const { disk, layout } = archive;
  const from = join(layout.root, path);
  const kept = freePlace(archive, generation, path, (at) => isSame(disk, from, at));
  const to = join(layout.root, kept);
  if (disk.size(to) === null) {
    disk.makeFolder(dirname(to));
    linkOrCopy(disk, from, to);
  }
  disk.syncFolder(dirname(to));
  return kept;
}

/** The same for what no manifest names, or is no file: it is moved there. */
export function moveAside(archive: Archive, generation: number, path: string): string {
  const { disk, layout } = archive;
  const kept = freePlace(archive, generation, path, () => false);
  const to = join(layout.root, kept);
  disk.makeFolder(dirname(to));
  disk.rename(join(layout.root, path), to);
  disk.syncFolder(dirname(to));
  disk.syncFolder(dirname(join(layout.root, path)));
  return kept;
}

/** The first place of a file's name that is free, or `isIt`. */
function freePlace({ disk, layout }: Archive, generation: number, path: string, isIt: (at: string) => boolean): string {
  for (let n = 1; ; n++) {
    const place = `${damagedFolder}/${generation}/${path}${n === 1 ? '' : `.${n}`}`;
    const at = join(layout.root, place);
    if (disk.stamp(at) === null || isIt(at)) return place;
  }
}

function isSame(disk: Disk, from: string, at: string): boolean {
  if (disk.stamp(from) === disk.stamp(at)) return true;
  return disk.size(from) === disk.size(at) && sha256(disk.read(from)) === sha256(disk.read(at));
}

function linkOrCopy(disk: Disk, from: string, to: string): void {
  try {
    disk.link(from, to);
  } catch (error) {
    const { code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    // A file system without hard links, or a file with as many as it may have.
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EMLINK') throw error;
    disk.write(to, disk.read(from));
  }
}
