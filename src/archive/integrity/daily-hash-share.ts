import { join } from 'node:path';
import type { Clock } from '../../base/ports.ts';
import { dayMs } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { privateFolderName } from '../format/layout.ts';
import { listManifestFiles, type PublishedFile, sumFileSizes } from '../format/manifest.ts';
import {
  type DamageKind,
  dropHashTimes,
  type FileDamage,
  readHashTimes,
  readRecordedDamage,
  readShareHashedTo,
  recordDamage,
  recordHashed,
  recordShareHashedTo,
  replaceDamage,
} from '../journal/published-files.ts';
import { toStateFilePath } from '../journal/state.ts';
import { locateFile } from '../read-published-file.ts';
import { type VerifyFinding, type VerifyResult, verifyArchive } from './verify.ts';

// Records when published files were last hashed, and which of them are damaged.

interface HashShareOptions {
  readonly runId: string;
  readonly clock: Clock;
  /** Interval within which every file must be hashed once, in ms. */
  readonly intervalMs: number;
  /** Time limit in ms. The rest of the share is due in the next run. */
  readonly durationMsMax: number;
  readonly signal?: AbortSignal;
}

/** Maximum files and bytes hashed between two checks of the time limit. A single file may be larger. */
const batchFilesMax = 64;
const batchBytesMax = 256 * 2 ** 20;

/**
 * Hashes the share of published files that is due, least recently hashed first, and records and returns the damage
 * found.
 */
export async function hashDueShare(archive: Archive, options: HashShareOptions): Promise<FileDamage[]> {
  const { clock, runId, signal } = options;
  const { db } = archive.state;
  const hashedAt = readHashTimes(db);
  // Skip files known to be damaged: they would be part of every share.
  const damaged = new Set(readRecordedDamage(db).map(({ path }) => path));
  const files = listManifestFiles(archive.readManifest())
    .filter(({ path }) => !damaged.has(path))
    .map((file): HashableFile & { readonly file: PublishedFile } => ({
      file,
      bytes: file.bytes,
      hashedAt: hashedAt(file),
    }));
  const hashedTo = readShareHashedTo(db);
  const share = chooseHashShare(files, hashedTo, clock.nowMs(), options.intervalMs);
  const endMs = clock.monotonicMs() + options.durationMsMax;
  const damage: FileDamage[] = [];
  let done = 0;
  while (done < share.files.length && clock.monotonicMs() < endMs) {
    const batch = takeBatch(share.files.slice(done, done + batchFilesMax).map(({ file }) => file));
    done += batch.length;
    damage.push(...(await hashFiles(archive, batch, { runId, clock, ...(signal && { signal }) })));
    recordShareHashedTo(db, share.hashedTo(done));
  }
  if (done === 0 && share.hashedTo(0) !== hashedTo) recordShareHashedTo(db, share.hashedTo(0));
  return damage;
}

/** A published file, and when it was last hashed and matched its checksum, epoch ms; undefined if not known. */
export interface HashableFile {
  readonly bytes: number;
  readonly hashedAt: number | undefined;
}

export interface HashShare<File> {
  /** The files to hash now, in this order. */
  readonly files: readonly File[];
  /** The time up to which shares are done once `n` files are hashed, epoch ms. */
  hashedTo(n: number): number;
}

/**
 * Chooses the files that are due, least recently hashed first. The number of bytes due is the total size times the
 * fraction of `intervalMs` that has passed since the last share. On any schedule, every file is therefore hashed again
 * within `intervalMs`. A file larger than the due bytes waits until they suffice.
 * @param hashedTo the time up to which shares are done, epoch ms; null before the first share, which is that of one day
 */
export function chooseHashShare<File extends HashableFile>(
  files: readonly File[],
  hashedTo: number | null,
  nowMs: number,
  intervalMs: number,
): HashShare<File> {
  // At most all files are due. If the clock was ahead, nothing is due.
  const from = Math.min(nowMs, Math.max(hashedTo ?? nowMs - Math.min(dayMs, intervalMs), nowMs - intervalMs));
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (bytes === 0) return { files: [], hashedTo: () => nowMs };
  const oldestFirst = sortByHashTime(files);
  const due = (bytes * (nowMs - from)) / intervalMs;
  const chosen: File[] = [];
  const ends: number[] = [from];
  for (let sum = 0, i = 0; i < oldestFirst.length; i++) {
    sum += oldestFirst[i]!.bytes;
    if (sum > due) break;
    chosen.push(oldestFirst[i]!);
    ends.push(Math.ceil(from + (sum / bytes) * intervalMs));
  }
  return { files: chosen, hashedTo: (n) => Math.min(nowMs, ends[n]!) };
}

/** Sorts by time, and by position where it is the same. Thousands of files have few times: those of the nights that hashed them. */
function sortByHashTime<File extends HashableFile>(files: readonly File[]): File[] {
  const byTime = Map.groupBy(files, toHashTime);
  return [...byTime.keys()].sort((a, b) => (a < b ? -1 : 1)).flatMap((time) => byTime.get(time)!);
}

const toHashTime = ({ hashedAt }: HashableFile): number => hashedAt ?? Number.NEGATIVE_INFINITY;

function takeBatch(files: readonly PublishedFile[]): PublishedFile[] {
  const firstExcluded = files.findIndex((_, i) => i > 0 && sumFileSizes(files.slice(0, i + 1)).bytes > batchBytesMax);
  return files.slice(0, firstExcluded < 0 ? files.length : firstExcluded);
}

/** Hashes files, and records the time and the damage. Returns the damage. */
export async function hashFiles(
  archive: Archive,
  files: readonly PublishedFile[],
  { runId, clock, signal }: Pick<HashShareOptions, 'runId' | 'clock' | 'signal'>,
): Promise<FileDamage[]> {
  if (files.length === 0) return [];
  const { db } = archive.state;
  const atMs = clock.nowMs();
  const { findings } = await verifyArchive(archive, files, undefined, signal);
  const damage = findings.map((finding) => ({ path: finding.path, kind: classifyFinding(archive, finding) }));
  const damagedPaths = new Set(findings.map(({ path }) => path));
  db.transaction(() => {
    const current = findFilesAt(archive, new Set(files.map(({ path }) => path)));
    const currentHashes = new Map(current.map((file) => [file.path, file.sha256]));
    // A publish that replaced a file meanwhile has recorded its hash time.
    const unchanged = files.filter(({ path, sha256 }) => !damagedPaths.has(path) && currentHashes.get(path) === sha256);
    recordHashed(db, unchanged, atMs);
    recordDamage(db, damage, runId, atMs);
  });
  return damage;
}

/**
 * Records the result of a verification of the whole archive, replacing all recorded damage.
 * @param begunAt start of the verification, epoch ms
 */
export function recordVerification(archive: Archive, found: VerifyResult, runId: string, begunAt: number): void {
  const { db } = archive.state;
  const damage: FileDamage[] = found.findings.map((finding) => ({
    path: finding.path,
    kind: classifyFinding(archive, finding),
  }));
  if (found.state !== null) damage.push({ path: toStateFilePath(privateFolderName), kind: 'state' });
  const damagedPaths = new Set(found.findings.map(({ path }) => path));
  db.transaction(() => {
    const files = new Map(listManifestFiles(archive.readManifest()).map((file) => [file.path, file]));
    // Later publishes have recorded the hash time of their own files.
    const hashedFiles = [...files.values()].filter(
      (file) => file.generation <= found.generation && !damagedPaths.has(file.path),
    );
    recordHashed(db, hashedFiles, begunAt);
    dropHashTimes(db, (path) => files.has(path));
    replaceDamage(db, damage, runId, begunAt);
  });
}

/**
 * Finds published files that are missing or have the wrong size. Reads no contents, so that every run can afford it.
 * Starts again if a publish intervenes.
 */
export function checkFileSizes(archive: Archive): FileDamage[] {
  for (;;) {
    const { generation, datasets } = archive.readManifest();
    const damage: FileDamage[] = [];
    for (const { files } of Object.values(datasets))
      for (const file of files) {
        const found = checkFileSize(archive, file);
        if (found !== null) damage.push(found);
      }
    if (damage.length === 0 || archive.readManifest().generation === generation) return damage;
  }
}

/** Null if the file is there in its size. */
function checkFileSize(archive: Archive, file: PublishedFile): FileDamage | null {
  const { disk, layout } = archive;
  // Every job does this for every file, and `join` takes a quarter of the time of the system call.
  const at = `${layout.root}/${file.path}`;
  if (disk.size(at) === file.bytes) return null;
  // A pending publish moves the file out of staging, possibly between these two checks.
  const staged = locateFile(archive, file.path);
  if (staged !== at && disk.size(staged) === file.bytes) return null;
  const size = disk.size(at);
  if (size === file.bytes) return null;
  return { path: file.path, kind: size === null ? 'missing' : 'size mismatch' };
}

/** Returns the kind of damage that is recorded for a finding. */
function classifyFinding(archive: Archive, { path, kind }: VerifyFinding): DamageKind {
  const { disk, layout } = archive;
  if (kind === 'missing') return 'missing';
  if (kind === 'orphan') return 'orphan';
  const published = findFilesAt(archive, new Set([path]))[0];
  const size = disk.isFile(join(layout.root, path)) ? disk.size(join(layout.root, path)) : null;
  return published !== undefined && size !== published.bytes ? 'size mismatch' : 'checksum mismatch';
}

/** The files of the current manifest with these paths. */
export const findFilesAt = (archive: Archive, paths: ReadonlySet<string>): PublishedFile[] =>
  paths.size === 0
    ? []
    : Object.values(archive.readManifest().datasets).flatMap(({ files }) =>
        files.filter(({ path }) => paths.has(path)),
      );
