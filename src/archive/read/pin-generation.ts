import { dirname, join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { type Disk, linkOrCopy, sha256 } from '../disk/file-system.ts';
import type { DatasetName } from '../format/datasets.ts';
import { type Manifest, type PublishedFile, parseManifest } from '../format/manifest.ts';
import { LockRefusedError, tryLock, type WriteLock } from '../journal/lock.ts';
import { type Archive, locateFile, readCheckedManifestText } from '../open-archive.ts';

/** Files of one generation that stay as they are while they are read, whatever is published meanwhile. */
export interface GenerationPin {
  readonly manifest: Manifest;
  /** Its text, to the byte. */
  readonly manifestText: string;
  /** Where the links are: the published paths below it. */
  readonly root: string;
  /** A folder for files of the reader's own, yet to be made; it goes with the pin. */
  readonly scratchFolder: string;
  /** Absolute paths of a dataset's files. */
  listPaths(dataset: DatasetName): string[];
  release(): void;
}

/**
 * Pins the files of some datasets by hard links under .oddslake, or of those only the ones that are `wanted`; a file that
 * a publish replaces lives on in its link. Files on another file system are copied. `id` tells readers apart.
 * @throws DamageError where a file is missing, or of another size than the manifest says
 */
export function pinGeneration(
  archive: Archive,
  names: readonly DatasetName[],
  id: string,
  wanted: (file: PublishedFile) => boolean = () => true,
): GenerationPin {
  const scratch = acquireScratchFolder(archive, id);
  try {
    return pinIntoScratch(archive, names, wanted, scratch);
  } catch (error) {
    scratch.release();
    throw error;
  }
}

/** @throws DamageError where the bytes of a pinned file are not those that were published */
export function requireFileBytes(bytes: Uint8Array, { path, sha256: published }: PublishedFile): void {
  if (sha256(bytes) !== published)
    throw new DamageError(`${path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`);
}

function pinIntoScratch(
  archive: Archive,
  names: readonly DatasetName[],
  wanted: (file: PublishedFile) => boolean,
  { folder, release }: ScratchFolder,
): GenerationPin {
  const { disk, layout } = archive;
  const root = join(folder, 'files');
  for (let attempt = 1; ; attempt++) {
    const manifestText = readCheckedManifestText(archive);
    const manifest = parseManifest(manifestText, layout.manifestPath);
    const filesOf = (name: DatasetName): PublishedFile[] => manifest.datasets[name].files.filter(wanted);
    const files = names.flatMap(filesOf);
    if (tryLinkFiles(archive, manifest.generation, files, root)) {
      requireFileSizes(disk, files, root);
      const paths = (name: DatasetName): string[] => filesOf(name).map((file) => join(root, file.path));
      return { manifest, manifestText, root, scratchFolder: join(folder, 'scratch'), listPaths: paths, release };
    }
    disk.remove(root);
    if (attempt === pinAttemptsMax)
      throw new DamageError(`${layout.root} lacks files that its manifest lists. Run oddslake verify.`);
  }
}

/** Publishes that may go on beside one pin, before missing files are taken for damage. */
const pinAttemptsMax = 20;

/** False where a file was replaced while it was being linked: the pin begins again with the new generation. */
function tryLinkFiles(archive: Archive, generation: number, files: readonly PublishedFile[], root: string): boolean {
  const { disk } = archive;
  for (const file of files) {
    const to = join(root, file.path);
    disk.makeVolatileFolder(dirname(to));
    try {
      const from = locateFile(archive, file.path);
      // A folder cannot be linked, and a pipe is not to be read.
      if (!disk.isFile(from)) return false;
      linkOrCopy(disk, from, to);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }
  return archive.readManifest().generation === generation;
}

/** What a look at each file tells of damage: hashing all of them may take longer than what they are read for. */
function requireFileSizes(disk: Disk, files: readonly PublishedFile[], root: string): void {
  const other = files.find(({ path, bytes }) => disk.size(join(root, path)) !== bytes);
  if (other === undefined) return;
  throw new DamageError(`${other.path} is damaged: it has not the size that the manifest says. Run oddslake verify.`);
}

/** A folder of this process's own, which others leave alone as long as it is held: the system frees it with the process. */
export interface ScratchFolder {
  /** Absolute; made when it is taken. */
  readonly folder: string;
  /** Removes the folder with all that is in it. */
  release(): void;
}

/** Where scratch is: folders, and beside each of them the lock that its process holds. */
const toScratchRoot = ({ layout }: Archive): string => join(layout.privateFolder, 'pins');

const lockSuffix = '.held';

/** Times that somebody may clear a folder between its lock being made and being held. */
const lockAttemptsMax = 20;

/**
 * Takes a folder for scratch, and clears what processes that are gone have left. Whether one is gone is told by the
 * lock: numbers of processes begin anew with every container, and are given again.
 * @param id tells apart whatever one process holds
 */
export function acquireScratchFolder(archive: Archive, id: string): ScratchFolder {
  removeAbandonedScratch(archive);
  const { disk } = archive;
  const home = toScratchRoot(archive);
  disk.makeVolatileFolder(home);
  for (let attempt = 1; attempt <= lockAttemptsMax; attempt++) {
    const folder = join(home, `${process.pid}-${id}${attempt === 1 ? '' : `-${attempt}`}`);
    const lock = tryLock(folder + lockSuffix);
    if (lock === null) continue;
    // Whoever had it before us has cleared it away: our lock is on a file that nobody finds.
    if (disk.size(folder + lockSuffix) === null) {
      lock.release();
      continue;
    }
    try {
      disk.makeVolatileFolder(folder);
    } catch (error) {
      lock.release();
      throw error;
    }
    return {
      folder,
      release() {
        removeScratchFolder(archive, folder, lock);
      },
    };
  }
  throw new Error(`${home} has no place for ${id}`);
}

/** The lock last: whoever finds it free finds nothing else. */
function removeScratchFolder({ disk }: Archive, folder: string, lock: WriteLock): void {
  try {
    disk.remove(folder);
    disk.remove(folder + lockSuffix);
  } finally {
    lock.release();
  }
}

/** Removes what nobody holds any more. One process clears at a time, since a lock that was removed holds nobody off. */
export function removeAbandonedScratch(archive: Archive): void {
  const { disk, layout } = archive;
  const home = toScratchRoot(archive);
  const names = disk.list(home);
  if (names.length === 0) return;
  const clearing = tryLockOwn(join(layout.privateFolder, 'pins.lock'));
  if (clearing === null) return;
  try {
    for (const name of new Set(names.map((name) => name.replace(/\.held$/, '')))) {
      const folder = join(home, name);
      const lock = tryLockOwn(folder + lockSuffix);
      if (lock !== null) removeScratchFolder(archive, folder, lock);
    }
  } finally {
    clearing.release();
  }
}

/** What another user left, root perhaps, is for that user to clear: it is in nobody's way. */
function tryLockOwn(path: string): WriteLock | null {
  try {
    return tryLock(path);
  } catch (error) {
    if (error instanceof LockRefusedError) return null;
    throw error;
  }
}
