import { basename, dirname, join, sep } from 'node:path';
import type { Disk } from '../disk/disk.ts';
import { isGone } from './pin.ts';

// What is made for a place outside of the archive comes into being beside that place, under a name that tells whose it
// is, and is renamed at the end: nobody sees half of it.

const prefixOf = (target: string): string => `.${basename(target)}.oddslake-`;

/** Where `target` is made; `id` tells drafts of one process apart. */
export const draftOf = (target: string, id: string): string =>
  join(dirname(target), `${prefixOf(target)}${process.pid}-${id}`);

/** Removes what killed processes left of drafts of this target. */
export function clearAbandoned(disk: Disk, target: string): void {
  const prefix = prefixOf(target);
  for (const name of disk.list(dirname(target))) {
    if (name.startsWith(prefix) && isGone(Number.parseInt(name.slice(prefix.length), 10)))
      disk.remove(join(dirname(target), name));
  }
}

/** Whether a path, given without symbolic links, is the archive's root or below it. */
export function isInside(disk: Disk, target: string, root: string): boolean {
  const home = disk.realPath(root);
  return target === home || target.startsWith(home + sep);
}
