import { join } from 'node:path';
import { OddslakeError } from '../base/errors.ts';
import { type Disk, sha256 } from './disk/file-system.ts';
import { createLayout } from './format/layout.ts';
import { listManifestFiles, type Manifest, type PublishedFile, parseManifest } from './format/manifest.ts';
import { LockRefusedError, tryLock } from './journal/lock.ts';
import { inspectState, type StateInspection } from './journal/state.ts';
import { archiveExists } from './open-archive.ts';

/** An archive as it is found, whatever state it is in. */
export interface ArchiveInspection {
  readonly kind: 'archive' | 'none' | 'other files';
  /** Null where nothing was published; else what manifest.json says, or why it cannot be read. */
  readonly manifest: { readonly manifest: Manifest; readonly sha256: string } | OddslakeError | null;
  /** Null where it is lost, or was never there. */
  readonly state: StateInspection | OddslakeError | null;
  readonly isBeingWritten: boolean;
}

/** Looks at the archive at `root` and changes nothing of it; an older or a damaged one is looked at as any other. */
export function inspectArchive(root: string, disk: Disk): ArchiveInspection {
  const layout = createLayout(root);
  if (!archiveExists(root, disk)) {
    const others = disk.list(root).filter((name) => name !== '.gitkeep' && name !== '.oddslake');
    const kind = others.length > 0 || (disk.size(root) !== null && !disk.isFolder(root)) ? 'other files' : 'none';
    return { kind, manifest: null, state: null, isBeingWritten: false };
  }
  // The state first: a publish that comes in between is then no difference to be told.
  const state = catchOddslakeError(() => inspectState(layout.privateFolder));
  const manifest = catchOddslakeError(() => {
    if (disk.size(layout.manifestPath) === null) return null;
    const bytes = disk.read(layout.manifestPath);
    const text = Buffer.from(bytes).toString('utf8');
    return { manifest: parseManifest(text, layout.manifestPath), sha256: sha256(bytes) };
  });
  return { kind: 'archive', manifest, state, isBeingWritten: isLocked(layout.lockPath, disk) };
}

function catchOddslakeError<T>(look: () => T): T | OddslakeError {
  try {
    return look();
  } catch (error) {
    if (error instanceof OddslakeError) return error;
    throw error;
  }
}

/** Whether somebody has the write lock; of one that may not be taken, or was never made, nobody can say so. */
function isLocked(path: string, disk: Disk): boolean {
  if (disk.size(path) === null) return false;
  try {
    const lock = tryLock(path);
    lock?.release();
    return lock === null;
  } catch (error) {
    if (error instanceof LockRefusedError || error instanceof OddslakeError) return false;
    throw error;
  }
}

export interface FileSample {
  readonly listed: number;
  readonly hashed: number;
  /** Paths that are missing, of another size, or of another hash. */
  readonly wrong: readonly string[];
}

const sampleFilesMax = 8;
const sampleBytesMax = 64 * 2 ** 20;

/**
 * Looks at the sizes of all published files, and hashes a few: of each dataset the newest, and some more by chance. What
 * `verify` does for all of them.
 */
export function checkFileSample(root: string, manifest: Manifest, disk: Disk, random: () => number): FileSample {
  const files = listManifestFiles(manifest);
  const wrongSize = files.filter(({ path, bytes }) => disk.size(join(root, path)) !== bytes);
  const missing = new Set(wrongSize);
  const chosen = chooseSample(manifest, random).filter((file) => !missing.has(file));
  const differing = chosen.filter((file) => !isFileIntact(disk, join(root, file.path), file.sha256));
  return { listed: files.length, hashed: chosen.length, wrong: [...wrongSize, ...differing].map(({ path }) => path) };
}

function isFileIntact(disk: Disk, path: string, wanted: string): boolean {
  try {
    return disk.isFile(path) && sha256(disk.read(path)) === wanted;
  } catch {
    // It went since its size was looked at, or the device does not give it.
    return false;
  }
}

function chooseSample(manifest: Manifest, random: () => number): PublishedFile[] {
  const newest = Object.values(manifest.datasets).flatMap(({ files }) => files.at(-1) ?? []);
  const all = listManifestFiles(manifest);
  const others = Array.from({ length: sampleFilesMax }, () => all[Math.floor(random() * all.length)]!);
  const chosen = new Set<PublishedFile>();
  let bytes = 0;
  for (const file of all.length === 0 ? [] : [...newest, ...others]) {
    if (chosen.size >= sampleFilesMax) break;
    if (chosen.has(file) || bytes + file.bytes > sampleBytesMax) continue;
    chosen.add(file);
    bytes += file.bytes;
  }
  return [...chosen];
}
