import { join } from 'node:path';
import type { Clock } from '../../base/ports.ts';
import { listManifestFiles, type PublishedFile, sumFileTotals } from '../format/manifest.ts';
import { chooseHashShare } from '../format/verified-through.ts';
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
import { type Archive, locateFile } from '../open-archive.ts';
import { type VerifyFinding, type VerifyResult, verifyArchive } from './verify.ts';

// What is remembered of the bytes of published files: when they were hashed, and which are not as published.

export interface HashShareOptions {
  readonly runId: string;
  readonly clock: Clock;
  /** Within which every file is to be hashed again, in ms. */
  readonly intervalMs: number;
  /** How long it may take, in ms. What is left is due in the next run. */
  readonly durationMsMax: number;
  readonly signal?: AbortSignal;
}

/** Files that are hashed between two looks at the clock, at most; and their bytes, unless one has more. */
const batchFilesMax = 64;
const batchBytesMax = 256 * 2 ** 20;

/** Hashes the share of the published files that is due, the longest unhashed first, and remembers what was found. */
export async function hashDueShare(archive: Archive, options: HashShareOptions): Promise<FileDamage[]> {
  const { clock, runId, signal } = options;
  const { db } = archive.state;
  const hashedAt = readHashTimes(db);
  // They are found already; they would take the place of the others in every share.
  const damaged = new Set(readRecordedDamage(db).map(({ path }) => path));
  const files = listManifestFiles(archive.readManifest())
    .filter(({ path }) => !damaged.has(path))
    .map((file) => ({ ...file, hashedAt: hashedAt(file) }));
  const before = readShareHashedTo(db);
  const share = chooseHashShare(files, before, clock.nowMs(), options.intervalMs);
  const endMs = clock.monotonicMs() + options.durationMsMax;
  const found: FileDamage[] = [];
  let done = 0;
  while (done < share.files.length && clock.monotonicMs() < endMs) {
    const batch = takeBatch(share.files.slice(done, done + batchFilesMax));
    done += batch.length;
    found.push(...(await hashFiles(archive, batch, { runId, clock, ...(signal && { signal }) })));
    recordShareHashedTo(db, share.hashedTo(done));
  }
  if (done === 0 && share.hashedTo(0) !== before) recordShareHashedTo(db, share.hashedTo(0));
  return found;
}

function takeBatch(files: readonly PublishedFile[]): PublishedFile[] {
  const over = files.findIndex((_, i) => i > 0 && sumFileTotals(files.slice(0, i + 1)).bytes > batchBytesMax);
  return files.slice(0, over < 0 ? files.length : over);
}

/** Hashes these files, and remembers when, and which are not as published. Returns those. */
export async function hashFiles(
  archive: Archive,
  files: readonly PublishedFile[],
  { runId, clock, signal }: Pick<HashShareOptions, 'runId' | 'clock' | 'signal'>,
): Promise<FileDamage[]> {
  if (files.length === 0) return [];
  const { db } = archive.state;
  const atMs = clock.nowMs();
  const { findings } = await verifyArchive(archive, files, undefined, signal);
  const found = findings.map((finding) => ({ path: finding.path, kind: classifyFinding(archive, finding) }));
  const wrong = new Set(findings.map(({ path }) => path));
  db.transaction(() => {
    const now = new Map(listManifestFiles(archive.readManifest()).map((file) => [file.path, file.sha256]));
    // One that a publish has replaced meanwhile was noted by that.
    const same = files.filter(({ path, sha256 }) => !wrong.has(path) && now.get(path) === sha256);
    recordHashed(db, same, atMs);
    recordDamage(db, found, runId, atMs);
  });
  return found;
}

/**
 * Remembers what a verification of the whole archive has found, in place of all that was remembered before.
 * @param begunAt when it began, epoch ms
 */
export function recordVerification(archive: Archive, found: VerifyResult, runId: string, begunAt: number): void {
  const { db } = archive.state;
  const damage: FileDamage[] = found.findings.map((finding) => ({
    path: finding.path,
    kind: classifyFinding(archive, finding),
  }));
  if (found.state !== null) damage.push({ path: toStateFilePath('.oddslake'), kind: 'state' });
  const wrong = new Set(found.findings.map(({ path }) => path));
  db.transaction(() => {
    const files = new Map(listManifestFiles(archive.readManifest()).map((file) => [file.path, file]));
    // What a publish has written since was noted by that.
    const seen = [...files.values()].filter((file) => file.generation <= found.generation && !wrong.has(file.path));
    recordHashed(db, seen, begunAt);
    dropHashTimes(db, (path) => files.has(path));
    replaceDamage(db, damage, runId, begunAt);
  });
}

/**
 * Which published files are missing or of another size than published. It reads no byte of them, so that every run can
 * afford it. Where a publish goes on meanwhile, it looks again at the new generation.
 */
export function checkFileSizes(archive: Archive): FileDamage[] {
  for (;;) {
    const { generation, datasets } = archive.readManifest();
    const damage = Object.values(datasets).flatMap(({ files }) =>
      files.flatMap((file) => checkFileSize(archive, file)),
    );
    if (damage.length === 0 || archive.readManifest().generation === generation) return damage;
  }
}

function checkFileSize(archive: Archive, file: PublishedFile): FileDamage[] {
  const { disk, layout } = archive;
  const at = join(layout.root, file.path);
  if (disk.size(at) === file.bytes) return [];
  // A publish that is being carried out moves it from the stage to its place, if not at this moment.
  const staged = locateFile(archive, file.path);
  if (staged !== at && disk.size(staged) === file.bytes) return [];
  const size = disk.size(at);
  if (size === file.bytes) return [];
  return [{ path: file.path, kind: size === null ? 'missing' : 'size mismatch' }];
}

/** A finding in the words in which it is remembered. */
export function classifyFinding(archive: Archive, { path, kind }: VerifyFinding): DamageKind {
  const { disk, layout } = archive;
  if (kind === 'missing') return 'missing';
  if (kind === 'orphan') return 'orphan';
  const published = findFilesAt(archive, new Set([path]))[0];
  const size = disk.isFile(join(layout.root, path)) ? disk.size(join(layout.root, path)) : null;
  return published !== undefined && size !== published.bytes ? 'size mismatch' : 'checksum mismatch';
}

/** The files of the current manifest that are at these paths. */
export const findFilesAt = (archive: Archive, paths: ReadonlySet<string>): PublishedFile[] =>
  paths.size === 0 ? [] : listManifestFiles(archive.readManifest()).filter(({ path }) => paths.has(path));
