import { dirname, join } from 'node:path';
import { DamageError, UsageError } from '../../base/errors.ts';
import type { Archive } from '../archive.ts';
import { type Disk, isCrossDeviceError, sha256, tryLink } from '../disk/file-system.ts';
import { datasetNames } from '../format/datasets.ts';
import { manifestName } from '../format/layout.ts';
import { listManifestFiles, type PublishedFile, sumFileSizes } from '../format/manifest.ts';
import { formatRootFiles } from '../publish/commit.ts';
import { closeDraft, isInside, openDraft, removeAbandonedDrafts, requireFileIntact } from './export-file.ts';
import { type GenerationPin, pinGeneration } from './pin-generation.ts';

interface ArchiveSnapshot {
  /** Absolute path of the snapshot. */
  readonly folder: string;
  readonly generation: number;
  readonly files: number;
  readonly bytes: number;
  /** Files that were copied because they are on another device, or the file system has no hard links. */
  readonly copied: number;
}

interface SnapshotOptions {
  /** Distinguishes snapshots of one process. */
  readonly id: string;
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * Creates a snapshot of the current generation in `folder`, which must be new or empty, by hard links. The snapshot
 * appears by one rename and is durable on return; a failed one leaves nothing behind. All hashes are checked.
 * @throws UsageError if the folder cannot be used, or the archive has no published generation
 * @throws DamageError if a file is missing or damaged
 */
export async function takeSnapshot(
  archive: Archive,
  folder: string,
  options: SnapshotOptions,
): Promise<ArchiveSnapshot> {
  const { disk, layout } = archive;
  const target = requireEmptyTarget(disk, layout.root, folder);
  if (archive.readManifest().generation === 0)
    throw new UsageError(`${layout.root} has no published generation yet, so there is nothing to snapshot.`);
  removeAbandonedDrafts(disk, target);
  // Pin first, by links inside the archive: the rest may take a long time.
  const pinned = pinGeneration(archive, datasetNames, `${options.id}-snapshot`);
  const draft = openDraft(target, options.id);
  let createdPath = draft;
  try {
    const copied = await copyGeneration(archive, pinned, draft, options);
    renameIntoPlace(disk, draft, target);
    createdPath = target;
    disk.syncFolder(dirname(target));
    const files = listManifestFiles(pinned.manifest);
    const { bytes } = sumFileSizes(files);
    return { folder: target, generation: pinned.manifest.generation, files: files.length, bytes, copied };
  } catch (error) {
    disk.remove(createdPath);
    throw error;
  } finally {
    closeDraft(draft);
    pinned.release();
  }
}

/** Resolves the path of a new or empty folder outside the archive. @throws UsageError if it is not one */
function requireEmptyTarget(disk: Disk, root: string, folder: string): string {
  const target = disk.realPath(folder);
  if (isInside(disk, target, root))
    throw new UsageError(`${folder} is inside the archive ${root}: a snapshot needs a folder outside it.`);
  if (!disk.isFolder(target) && disk.size(target) !== null)
    throw new UsageError(`${folder} is a file; a snapshot needs a new or empty folder.`);
  const existing = disk.list(target);
  if (existing.length > 0) {
    throw new UsageError(
      `${folder} is not empty (${existing.slice(0, 3).join(', ')}${existing.length > 3 ? ', …' : ''}). A snapshot needs a new or empty folder.`,
    );
  }
  return target;
}

/** Number of files to copy before yielding to signals and the progress bar. */
const filesPerYield = 16;

/** Builds the snapshot in `draft`, and syncs its files and folders. Returns the number of copied files. */
async function copyGeneration(
  archive: Archive,
  pinned: GenerationPin,
  draft: string,
  options: SnapshotOptions,
): Promise<number> {
  const { disk } = archive;
  const files = listManifestFiles(pinned.manifest);
  const folders = new Set([draft]);
  disk.makeFolder(draft);
  let copied = 0;
  for (const [i, file] of files.entries()) {
    options.signal?.throwIfAborted();
    const to = join(draft, file.path);
    if (!folders.has(dirname(to))) disk.makeFolder(dirname(to));
    folders.add(dirname(to));
    if (tryLink(disk, join(pinned.root, file.path), to)) requireFileIntact(disk, pinned, file);
    else {
      copyFile(disk, pinned.root, file, to);
      copied++;
    }
    options.onProgress?.(i + 1, files.length);
    if (i % filesPerYield === filesPerYield - 1) await new Promise((resolve) => setImmediate(resolve));
  }
  for (const [name, text] of Object.entries(formatRootFiles(pinned.manifest)))
    disk.write(join(draft, name), Buffer.from(text));
  disk.write(join(draft, manifestName), pinned.manifestBytes);
  for (const folder of folders) disk.syncFolder(folder);
  return copied;
}

function copyFile(disk: Disk, root: string, file: PublishedFile, to: string): void {
  const bytes = disk.read(join(root, file.path));
  if (sha256(bytes) !== file.sha256)
    throw new DamageError(`${file.path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`);
  disk.write(to, bytes);
}

function renameIntoPlace(disk: Disk, draft: string, target: string): void {
  try {
    // Replaces an empty folder of that name.
    disk.rename(draft, target);
  } catch (error) {
    const { code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    if (isCrossDeviceError(error) || code === 'EBUSY')
      throw new UsageError(`${target} is a mount point. Name a new folder inside it.`, { cause: error });
    if (code === 'ENOTEMPTY' || code === 'EEXIST')
      throw new UsageError(`${target} is no longer empty: another process wrote to it.`, { cause: error });
    throw error;
  }
}
