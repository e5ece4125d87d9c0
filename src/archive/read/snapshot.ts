import { dirname, join } from 'node:path';
import { DamageError, UsageError } from '../../base/errors.ts';
import { type Disk, isCrossDeviceError, sha256, tryLink } from '../disk/file-system.ts';
import { datasetNames } from '../format/datasets.ts';
import { listManifestFiles, type PublishedFile, sumFileTotals } from '../format/manifest.ts';
import type { Archive } from '../open-archive.ts';
import { formatRootFiles } from '../publish/root-files.ts';
import { closeDraft, isInside, openDraft, removeAbandonedDrafts, requireFileIntact } from './export-file.ts';
import { type GenerationPin, pinGeneration } from './pin-generation.ts';

export interface ArchiveSnapshot {
  /** Its folder, absolute. */
  readonly folder: string;
  readonly generation: number;
  readonly files: number;
  readonly bytes: number;
  /** Files that were copied: on another device, or a file system without hard links, there is nothing to link. */
  readonly copied: number;
}

export interface SnapshotOptions {
  /** Tells snapshots of one process apart. */
  readonly id: string;
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * Makes `folder`, which must be new or empty, a copy of one generation by hard links, durable when it returns. It comes
 * into being by one rename: nobody sees half of it, and of one that failed nothing is left. Throws UsageError for a
 * folder that cannot be used and for an archive that has published nothing, DamageError where a file is not as it was
 * published: whoever keeps a copy for later would learn of it too late.
 */
export async function takeSnapshot(
  archive: Archive,
  folder: string,
  options: SnapshotOptions,
): Promise<ArchiveSnapshot> {
  const { disk, layout } = archive;
  const target = requireEmptyTarget(disk, layout.root, folder);
  if (archive.readManifest().generation === 0)
    throw new UsageError(`${layout.root} has published nothing yet: there is nothing to take a snapshot of.`);
  removeAbandonedDrafts(disk, target);
  // Links inside of the archive come first: they hold on to the generation, however long the rest takes.
  const pinned = pinGeneration(archive, datasetNames, `${options.id}-snapshot`);
  const draft = openDraft(target, options.id);
  let made = draft;
  try {
    const copied = await copyGeneration(archive, pinned, draft, options);
    renameIntoPlace(disk, draft, target);
    made = target;
    disk.syncFolder(dirname(target));
    const files = listManifestFiles(pinned.manifest);
    const { bytes } = sumFileTotals(files);
    return { folder: target, generation: pinned.manifest.generation, files: files.length, bytes, copied };
  } catch (error) {
    disk.remove(made);
    throw error;
  } finally {
    closeDraft(draft);
    pinned.release();
  }
}

/** The absolute path of a folder that is new or empty, and outside of the archive. */
function requireEmptyTarget(disk: Disk, root: string, folder: string): string {
  const target = disk.realPath(folder);
  if (isInside(disk, target, root))
    throw new UsageError(`${folder} is inside the archive ${root}: a snapshot of it needs a folder elsewhere.`);
  if (!disk.isFolder(target) && disk.size(target) !== null)
    throw new UsageError(`${folder} is a file; a snapshot needs a new or empty folder.`);
  const there = disk.list(target);
  if (there.length > 0) {
    throw new UsageError(
      `${folder} is not empty (${there.slice(0, 3).join(', ')}${there.length > 3 ? ', …' : ''}). A snapshot needs a new or empty folder.`,
    );
  }
  return target;
}

/** Files between two turns for signals and the progress bar. */
const filesPerYield = 16;

/** Builds the snapshot in `draft`, every file and folder of it synced; returns how many files were copied. */
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
  disk.write(join(draft, 'manifest.json'), Buffer.from(pinned.manifestText));
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
    // An empty folder of that name gives way.
    disk.rename(draft, target);
  } catch (error) {
    const { code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    if (isCrossDeviceError(error) || code === 'EBUSY')
      throw new UsageError(`${target} is where a device is mounted: name a new folder inside of it.`, { cause: error });
    if (code === 'ENOTEMPTY' || code === 'EEXIST')
      throw new UsageError(`${target} was filled by somebody else meanwhile.`, { cause: error });
    throw error;
  }
}
