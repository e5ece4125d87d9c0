import { basename, dirname, join, sep } from 'node:path';
import type { Disk } from '../disk/file-system.ts';

// What is made for a place outside of the archive comes into being beside that place, under a name that tells whose it
// is, and is renamed at the end: nobody sees half of it.

const toDraftPrefix = (target: string): string => `.${basename(target)}.oddslake-`;

/** Where `target` is made until `endDraft`; `id` tells drafts of one process apart. */
export function openDraft(target: string, id: string): string {
  const draft = join(dirname(target), `${toDraftPrefix(target)}${process.pid}-${id}`);
  ownDrafts.add(draft);
  return draft;
}

/** It is in its place, or removed. */
export const closeDraft = (draft: string): void => void ownDrafts.delete(draft);

/** Drafts that this process is at. */
const ownDrafts = new Set<string>();

/** Removes what killed processes left of drafts of this target. */
export function removeAbandonedDrafts(disk: Disk, target: string): void {
  const prefix = toDraftPrefix(target);
  for (const name of disk.list(dirname(target))) {
    const draft = join(dirname(target), name);
    if (!name.startsWith(prefix) || ownDrafts.has(draft)) continue;
    const pid = Number.parseInt(name.slice(prefix.length), 10);
    // In a container every process may have our number: what has it and was not begun here is a dead one's.
    if (pid === process.pid || isProcessGone(pid)) disk.remove(draft);
  }
}

/** Whether a process has ended; one that belongs to somebody else counts as there. */
function isProcessGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** Whether a path, given without symbolic links, is the archive's root or below it. */
export function isInside(disk: Disk, target: string, root: string): boolean {
  const home = disk.realPath(root);
  return target === home || target.startsWith(home + sep);
}
