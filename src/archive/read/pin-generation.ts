import { dirname, join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { type Archive, readManifestWithBytes } from '../archive.ts';
import { type Disk, linkOrCopy, sha256 } from '../disk/file-system.ts';
import type { DatasetName } from '../format/datasets.ts';
import { type Manifest, type PublishedFile, requireFileHash } from '../format/manifest.ts';
import { locateFile } from '../read-published-file.ts';
import { acquireLockedFolder, type LockedFolder, removeAbandonedFolders } from './locked-folder.ts';

/** Files of one generation that do not change while they are read, even if other generations are published. */
export interface GenerationPin {
  readonly manifest: Manifest;
  /** The exact bytes of the manifest. */
  readonly manifestBytes: Uint8Array;
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
export const requireFileBytes = (bytes: Uint8Array, file: PublishedFile): void => requireFileHash(sha256(bytes), file);

function pinIntoScratch(
  archive: Archive,
  names: readonly DatasetName[],
  isWanted: (file: PublishedFile) => boolean,
  { folder, release }: LockedFolder,
): GenerationPin {
  const { disk, layout } = archive;
  const root = join(folder, 'files');
  for (let attempt = 1; ; attempt++) {
    const { manifestBytes, manifest } = readManifestWithBytes(archive);
    const listFiles = (name: DatasetName): PublishedFile[] => manifest.datasets[name].files.filter(isWanted);
    const files = names.flatMap(listFiles);
    if (tryLinkFiles(archive, manifestBytes, files, root)) {
      requireFileSizes(disk, files, root);
      const listPaths = (name: DatasetName): string[] => listFiles(name).map((file) => join(root, file.path));
      return { manifest, manifestBytes, root, scratchFolder: join(folder, 'scratch'), listPaths, release };
    }
    disk.remove(root);
    if (attempt === pinAttemptsMax)
      throw new DamageError(`Files that the manifest of ${layout.root} lists are missing. Run oddslake verify.`);
  }
}

/** Attempts before missing files count as damage rather than as replaced by a publish. */
const pinAttemptsMax = 20;

/** Links the files. False if a publish intervened; the caller then starts again with the new generation. */
function tryLinkFiles(
  archive: Archive,
  manifestBytes: Uint8Array,
  files: readonly PublishedFile[],
  root: string,
): boolean {
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
  return Buffer.compare(archive.readManifestBytes(), manifestBytes) === 0;
}

/** Checks file sizes only: hashing all files could take longer than the read they are pinned for. */
function requireFileSizes(disk: Disk, files: readonly PublishedFile[], root: string): void {
  const mismatch = files.find(({ path, bytes }) => disk.size(join(root, path)) !== bytes);
  if (mismatch === undefined) return;
  throw new DamageError(`${mismatch.path} is damaged: its size differs from the manifest's. Run oddslake verify.`);
}

const toScratchRoot = ({ layout }: Archive): string => join(layout.privateFolder, 'pins');

/**
 * Creates a scratch folder of this process, and removes those of dead processes.
 * @param id distinguishes the scratch folders of one process
 */
export const acquireScratchFolder = (archive: Archive, id: string): LockedFolder =>
  acquireLockedFolder(archive.disk, toScratchRoot(archive), id);

/** Removes scratch folders that no process holds. */
export const removeAbandonedScratch = (archive: Archive): void =>
  removeAbandonedFolders(archive.disk, toScratchRoot(archive));
