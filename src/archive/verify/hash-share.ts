import type { Clock } from '../../core/clock.ts';
import { chooseShare } from '../../core/verified.ts';
import { type Damage, knownDamage, noteDamage, replaceDamage } from '../../state/damage.ts';
import { dropHashTimes, noteHashed, noteShareHashedTo, readHashTimes, shareHashedTo } from '../../state/hash-times.ts';
import { stateFile } from '../../state/state.ts';
import { allFiles, type PublishedFile, totalsOf } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { kindOf } from './check-sizes.ts';
import { type Verified, verify } from './verify.ts';

// What is remembered of the bytes of published files: when they were hashed, and which are not as published.

export interface ShareOptions {
  readonly runId: string;
  readonly clock: Clock;
  /** Within which every file is to be hashed again, in ms. */
  readonly everyMs: number;
  /** How long it may take, in ms. What is left is due in the next run. */
  readonly msMax: number;
  readonly signal?: AbortSignal;
}

/** Files that are hashed between two looks at the clock, at most; and their bytes, unless one has more. */
const batchMax = 64;
const batchBytesMax = 256 * 2 ** 20;

/** Hashes the share of the published files that is due, the longest unhashed first, and remembers what was found. */
export async function hashShare(archive: Archive, options: ShareOptions): Promise<Damage[]> {
  const { clock, runId, signal } = options;
  const { db } = archive.state;
  const hashedAt = readHashTimes(db);
  // They are found already; they would take the place of the others in every share.
  const damaged = new Set(knownDamage(db).map(({ path }) => path));
  const files = allFiles(archive.manifest())
    .filter(({ path }) => !damaged.has(path))
    .map((file) => ({ ...file, hashedAt: hashedAt(file) }));
  const before = shareHashedTo(db);
  const share = chooseShare(files, before, clock.nowMs(), options.everyMs);
  const endMs = clock.monotonicMs() + options.msMax;
  const found: Damage[] = [];
  let done = 0;
  while (done < share.files.length && clock.monotonicMs() < endMs) {
    const batch = nextBatch(share.files.slice(done, done + batchMax));
    done += batch.length;
    found.push(...(await hashFiles(archive, batch, { runId, clock, ...(signal && { signal }) })));
    noteShareHashedTo(db, share.hashedTo(done));
  }
  if (done === 0 && share.hashedTo(0) !== before) noteShareHashedTo(db, share.hashedTo(0));
  return found;
}

function nextBatch(files: readonly PublishedFile[]): PublishedFile[] {
  const over = files.findIndex((_, i) => i > 0 && totalsOf(files.slice(0, i + 1)).bytes > batchBytesMax);
  return files.slice(0, over < 0 ? files.length : over);
}

/** Hashes these files, and remembers when, and which are not as published. Returns those. */
export async function hashFiles(
  archive: Archive,
  files: readonly PublishedFile[],
  { runId, clock, signal }: Pick<ShareOptions, 'runId' | 'clock' | 'signal'>,
): Promise<Damage[]> {
  if (files.length === 0) return [];
  const { db } = archive.state;
  const atMs = clock.nowMs();
  const { findings } = await verify(archive, files, undefined, signal);
  const found = findings.map((finding) => ({ path: finding.path, kind: kindOf(archive, finding) }));
  const wrong = new Set(findings.map(({ path }) => path));
  db.transaction(() => {
    const now = new Map(allFiles(archive.manifest()).map((file) => [file.path, file.sha256]));
    // One that a publish has replaced meanwhile was noted by that.
    const same = files.filter(({ path, sha256 }) => !wrong.has(path) && now.get(path) === sha256);
    noteHashed(db, same, atMs);
    noteDamage(db, found, runId, atMs);
  });
  return found;
}

/**
 * Remembers what a verification of the whole archive has found, in place of all that was remembered before.
 * @param begunAt when it began, epoch ms
 */
export function noteVerified(archive: Archive, found: Verified, runId: string, begunAt: number): void {
  const { db } = archive.state;
  const damage: Damage[] = found.findings.map((finding) => ({
    path: finding.path,
    kind: kindOf(archive, finding),
  }));
  if (found.state !== null) damage.push({ path: stateFile('.oddslake'), kind: 'state' });
  const wrong = new Set(found.findings.map(({ path }) => path));
  db.transaction(() => {
    const files = new Map(allFiles(archive.manifest()).map((file) => [file.path, file]));
    // What a publish has written since was noted by that.
    const seen = [...files.values()].filter((file) => file.generation <= found.generation && !wrong.has(file.path));
    noteHashed(db, seen, begunAt);
    dropHashTimes(db, (path) => files.has(path));
    replaceDamage(db, damage, runId, begunAt);
  });
}
