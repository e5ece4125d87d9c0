import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { catchOddslakeError, OddslakeError } from '../base/errors.ts';
import { isActive } from './completeness/symbol-lifetime.ts';
import { type Disk, sha256 } from './disk/file-system.ts';
import { createLayout, listOtherFiles } from './format/layout.ts';
import { listManifestFiles, type Manifest, type PublishedFile, parseManifest } from './format/manifest.ts';
import { LockRefusedError, tryLock } from './journal/lock.ts';
import {
  inspectDatabase,
  inspectState,
  refuseOtherSchema,
  type StateInspection,
  toStateFilePath,
} from './journal/state.ts';
import { readPossiblyActiveSymbols } from './journal/symbol-subsets.ts';
import { archiveExists } from './open-archive.ts';

/** The state of a folder that may hold an archive, intact or not. */
export interface ArchiveInspection {
  readonly kind: 'archive' | 'none' | 'other files';
  /** The contents of manifest.json, or the error from reading it; null if nothing was published. */
  readonly manifest: { readonly manifest: Manifest; readonly sha256: string } | OddslakeError | null;
  /** Null if there is no state database. */
  readonly state: StateInspection | OddslakeError | null;
}

/** Inspects the archive at `root` without changing it. Accepts damaged archives. */
export function inspectArchive(root: string, disk: Disk): ArchiveInspection {
  const layout = createLayout(root);
  if (!archiveExists(root, disk)) {
    const otherNames = listOtherFiles(root, disk);
    const kind = otherNames.length > 0 || (disk.size(root) !== null && !disk.isFolder(root)) ? 'other files' : 'none';
    return { kind, manifest: null, state: null };
  }
  // State before manifest: a publish between the two reads then looks no different from a finished one.
  const state = catchOddslakeError(() => inspectState(layout.privateFolder));
  const manifest = catchOddslakeError(() => {
    if (disk.size(layout.manifestPath) === null) return null;
    const bytes = disk.read(layout.manifestPath);
    const text = Buffer.from(bytes).toString('utf8');
    return { manifest: parseManifest(text, layout.manifestPath), sha256: sha256(bytes) };
  });
  return { kind: 'archive', manifest, state };
}

/** Whether a process holds the write lock. False if the lock file does not exist or cannot be opened. */
export function isLocked(path: string, disk: Disk): boolean {
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
  /** Paths of files that are missing or differ in size or hash. */
  readonly wrong: readonly string[];
}

const sampleFilesMax = 8;
const sampleBytesMax = 64 * 2 ** 20;

/**
 * Checks the sizes of all published files, and the hashes of a sample: the newest file of each dataset and some random
 * ones. `verify` hashes all files.
 */
export function checkFileSample(root: string, manifest: Manifest, disk: Disk, random: () => number): FileSample {
  const files = listManifestFiles(manifest);
  const wrongSize = files.filter(({ path, bytes }) => disk.size(join(root, path)) !== bytes);
  const missing = new Set(wrongSize);
  const chosen = chooseSample(manifest, random).filter((file) => !missing.has(file));
  const corrupt = chosen.filter((file) => !isFileIntact(disk, join(root, file.path), file.sha256));
  return { listed: files.length, hashed: chosen.length, wrong: [...wrongSize, ...corrupt].map(({ path }) => path) };
}

function isFileIntact(disk: Disk, path: string, expectedHash: string): boolean {
  try {
    return disk.isFile(path) && sha256(disk.read(path)) === expectedHash;
  } catch {
    // The file was removed after its size was checked, or the device cannot read it.
    return false;
  }
}

function chooseSample(manifest: Manifest, random: () => number): PublishedFile[] {
  const newest = Object.values(manifest.datasets).flatMap(({ files }) => files.at(-1) ?? []);
  const all = listManifestFiles(manifest);
  const randomFiles = Array.from({ length: sampleFilesMax }, () => all[Math.floor(random() * all.length)]!);
  const chosen = new Set<PublishedFile>();
  let bytes = 0;
  for (const file of all.length === 0 ? [] : [...newest, ...randomFiles]) {
    if (chosen.size >= sampleFilesMax) break;
    if (chosen.has(file) || bytes + file.bytes > sampleBytesMax) continue;
    chosen.add(file);
    bytes += file.bytes;
  }
  return [...chosen];
}

/** A symbol that the next run would poll, without opening or changing the archive. Null if none is known. */
export function inspectLiveSymbol(
  root: string,
  named: ReadonlySet<string> | null,
  source: string | null,
): string | null {
  const { privateFolder } = createLayout(root);
  const path = toStateFilePath(privateFolder);
  try {
    refuseOtherSchema(privateFolder);
    const symbols = existsSync(path) ? inspectDatabase(path, (db) => readPossiblyActiveSymbols(db, named, source)) : [];
    return symbols.find((facts) => isActive(facts, named) && facts.suspendedAt === null)?.symbol ?? null;
  } catch {
    // Damage, and another schema, is reported by what opens the archive.
    return null;
  }
}
