import type { Clock } from '../../core/clock.ts';
import { chooseHashShare } from '../../core/verified.ts';
import { type FileDamage, readRecordedDamage, recordDamage, replaceDamage } from '../../state/damage.ts';
import {
  dropHashTimes,
  readHashTimes,
  readShareHashedTo,
  recordHashed,
  recordShareHashedTo,
} from '../../state/hash-times.ts';
import { toStateFilePath } from '../../state/state.ts';
import { listManifestFiles, type PublishedFile, sumFileTotals } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { classifyFinding } from './check-sizes.ts';
import { type VerifyResult, verifyArchive } from './verify.ts';

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
