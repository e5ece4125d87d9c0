import { dirname, join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { type Disk, linkOrCopy, sha256 } from '../disk/file-system.ts';
import type { DatasetName } from '../format/datasets.ts';
import { type Manifest, type PublishedFile, parseManifest } from '../format/manifest.ts';
import { LockRefusedError, tryLock, type WriteLock } from '../journal/lock.ts';
import { type Archive, readCheckedManifestText } from '../open-archive.ts';
import { locateFile } from '../read-published-file.ts';

/** Files of one generation that do not change while they are read, even if other generations are published. */
export interface GenerationPin {
  readonly manifest: Manifest;
  /** The exact text of the manifest. */
  readonly manifestText: string;
  /** Folder of the links, which have the published paths below it. */
  readonly root: string;
  /** Path of a folder for the reader's own files. The reader creates it; `release` removes it. */
  readonly scratchFolder: string;
  /** Absolute paths of a dataset's files. */
  listPaths(dataset: DatasetName): string[];
  release(): void;
}

/**
 * Pins the files of some datasets that `wanted` selects, by hard links under .oddslake: a file that a publish replaces
 * remains available through its link. Files on another file system are copied. `id` distinguishes readers.
 * @throws DamageError if a file is missing, or its size differs from the manifest
 */
export function pinGeneration(
  archive: Archive,
  names: readonly DatasetName[],
  id: string,
  isWanted: (file: PublishedFile) => boolean = () => true,
): GenerationPin {
  const scratch = acquireScratchFolder(archive, id);
  try {
    return pinIntoScratch(archive, names, isWanted, scratch);
  } catch (error) {
    scratch.release();
    throw error;
  }
}

/** @throws DamageError if a pinned file differs from the manifest */
export function requireFileBytes(bytes: Uint8Array, { path, sha256: published }: PublishedFile): void {
  if (sha256(bytes) !== published)
    throw new DamageError(`${path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`);
}

function pinIntoScratch(
  archive: Archive,
  names: readonly DatasetName[],
  isWanted: (file: PublishedFile) => boolean,
  { folder, release }: ScratchFolder,
): GenerationPin {
  const { disk, layout } = archive;
  const root = join(folder, 'files');
  for (let attempt = 1; ; attempt++) {
    const manifestText = readCheckedManifestText(archive);
    const manifest = parseManifest(manifestText, layout.manifestPath);
    const listFiles = (name: DatasetName): PublishedFile[] => manifest.datasets[name].files.filter(isWanted);
    const files = names.flatMap(listFiles);
    if (tryLinkFiles(archive, manifestText, files, root)) {
      requireFileSizes(disk, files, root);
      const listPaths = (name: DatasetName): string[] => listFiles(name).map((file) => join(root, file.path));
      return { manifest, manifestText, root, scratchFolder: join(folder, 'scratch'), listPaths, release };
    }
    disk.remove(root);
    if (attempt === pinAttemptsMax)
      throw new DamageError(`Files that the manifest of ${layout.root} lists are missing. Run oddslake verify.`);
  }
}

/** Attempts before missing files count as damage rather than as replaced by a publish. */
const pinAttemptsMax = 20;

/** Links the files. False if a publish intervened; the caller then starts again with the new generation. */
function tryLinkFiles(archive: Archive, manifestText: string, files: readonly PublishedFile[], root: string): boolean {
  const { disk } = archive;
  for (const file of files) {
    const to = join(root, file.path);
    disk.makeVolatileFolder(dirname(to));
    try {
      const from = locateFile(archive, file.path);
      // A folder cannot be linked, and reading a pipe blocks.
      if (!disk.isFile(from)) return false;
      linkOrCopy(disk, from, to);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }
  return archive.readManifestText() === manifestText;
}

/** Checks file sizes only: hashing all files could take longer than the read they are pinned for. */
function requireFileSizes(disk: Disk, files: readonly PublishedFile[], root: string): void {
  const mismatch = files.find(({ path, bytes }) => disk.size(join(root, path)) !== bytes);
  if (mismatch === undefined) return;
  throw new DamageError(`${mismatch.path} is damaged: its size differs from the manifest's. Run oddslake verify.`);
}

/** A scratch folder that a lock protects from other processes. The system releases the lock when the process ends. */
interface ScratchFolder {
  /** Absolute path; the folder exists. */
  readonly folder: string;
  /** Removes the folder and its contents. */
  release(): void;
}

/** The folder of all scratch folders and, next to each, the lock file that its process holds. */
const toScratchRoot = ({ layout }: Archive): string => join(layout.privateFolder, 'pins');

const lockSuffix = '.held';

/** Maximum number of attempts. Another process may remove the folder before its lock is held. */
const lockAttemptsMax = 20;

/**
 * Creates a scratch folder, and removes those of dead processes. The lock shows whether a process is alive. Process IDs
 * are reused, particularly in containers.
 * @param id distinguishes the scratch folders of one process
 */
export function acquireScratchFolder(archive: Archive, id: string): ScratchFolder {
  removeAbandonedScratch(archive);
  const { disk } = archive;
  const scratchRoot = toScratchRoot(archive);
  disk.makeVolatileFolder(scratchRoot);
  for (let attempt = 1; attempt <= lockAttemptsMax; attempt++) {
    const folder = join(scratchRoot, `${process.pid}-${id}${attempt === 1 ? '' : `-${attempt}`}`);
    const lock = tryLock(folder + lockSuffix);
    if (lock === null) continue;
    // The previous holder removed the lock file: our lock is on an unlinked file.
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
  throw new Error(`No scratch folder could be locked in ${scratchRoot} for ${id}`);
}

/** Removes the lock file last, so that a free lock means an empty folder. */
function removeScratchFolder({ disk }: Archive, folder: string, lock: WriteLock): void {
  try {
    disk.remove(folder);
    disk.remove(folder + lockSuffix);
  } finally {
    lock.release();
  }
}

/**
 * Removes scratch folders that no process holds. Only one process clears at a time, because an unlinked lock file does
 * not exclude other processes.
 */
export function removeAbandonedScratch(archive: Archive): void {
  const { disk, layout } = archive;
  const scratchRoot = toScratchRoot(archive);
  const names = disk.list(scratchRoot);
  if (names.length === 0) return;
  const clearing = tryLockOwn(join(layout.privateFolder, 'pins.lock'));
  if (clearing === null) return;
  try {
    for (const name of new Set(names.map((name) => name.replace(/\.held$/, '')))) {
      const folder = join(scratchRoot, name);
      const lock = tryLockOwn(folder + lockSuffix);
      if (lock !== null) removeScratchFolder(archive, folder, lock);
    }
  } finally {
    clearing.release();
  }
}

/** Null also for a lock file of another user, such as root. Only that user can remove its scratch folder. */
function tryLockOwn(path: string): WriteLock | null {
  try {
    return tryLock(path);
  } catch (error) {
    if (error instanceof LockRefusedError) return null;
    throw error;
  }
}
