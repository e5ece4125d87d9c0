import { join } from 'node:path';
import { UsageError } from '../../base/errors.ts';
import { forEachConcurrent } from '../../base/for-each-concurrent.ts';
import type { Clock } from '../../base/ports.ts';
import type { Archive } from '../archive.ts';
import { type Disk, sha256 } from '../disk/file-system.ts';
import { listManifestFiles, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { type Database, getMeta, manifestHashKey, setMeta } from '../journal/database.ts';
import { readCommitState } from '../journal/intent.ts';
import { takeWriteLock } from '../journal/lock.ts';
import { readRecordedDamage } from '../journal/published-files.ts';
import { clearState, hasJournaledRows } from '../journal/state.ts';
import { rebuildState } from '../rebuild-state.ts';
import { commitIntent, finishIntent } from './commit.ts';
import { reuseStaged, sortMoves, stageBytes, stageRemoval, startStage } from './staging.ts';

/** A generation that was published elsewhere. */
interface ForeignGeneration {
  /** The exact text of its manifest.json. */
  readonly text: string;
  readonly manifest: Manifest;
  /** Where it comes from, e.g. the URL of a bucket. */
  readonly origin: string;
}

interface AdoptOptions {
  /** Reads a file of the generation, which is checked already. */
  readonly fetchFile: (file: PublishedFile) => Promise<Uint8Array>;
  /** Files that are fetched at a time. */
  readonly concurrency: number;
  readonly clock: Clock;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

interface AdoptResult {
  readonly fetched: readonly PublishedFile[];
  readonly isChanged: boolean;
}

/** One at a time, because of the write lock. */
const stageName = 'adopted';

/** The last generation that is known to be whole elsewhere: copied from there or pushed there. JSON in the state. */
const adoptedKey = 'adopted';

const formatAdopted = (origin: string, hash: string): string => JSON.stringify({ origin, sha256: hash });

/**
 * Makes a copy the generation of another archive: fetches the files that differ and moves them into place by an intent, as
 * a publish does. The same transaction rebuilds the state from the new files. Readers may glob the copy at any moment.
 * Files that an interrupted run has fetched are not fetched again. Returns the fetched files and whether anything has changed.
 * @throws UsageError if the archive has data that is not known to be at `origin`: it would be lost
 */
export async function adoptGeneration(
  archive: Archive,
  generation: ForeignGeneration,
  options: AdoptOptions,
): Promise<AdoptResult> {
  using _lock = await takeWriteLock(archive.layout.lockPath, options.waitMs, options.clock, options.signal);
  finishIntent(archive);
  requireReplaceable(archive, generation.origin);
  return await adoptLocked(archive, generation, options);
}

/**
 * Records that the current generation was pushed, so that a later one from there may replace it. Not if it has changed since.
 * @param hash SHA-256 of its manifest.json
 */
export function recordPushed({ state: { db } }: Archive, origin: string, hash: string): void {
  db.transaction(() => {
    if (getMeta(db, manifestHashKey) === hash) setMeta(db, adoptedKey, formatAdopted(origin, hash));
  });
}

/** Whether the current generation is known to be whole elsewhere, as a push leaves it. */
export function isCurrentElsewhere(db: Database): boolean {
  const adopted = getMeta(db, adoptedKey);
  return adopted !== undefined && (JSON.parse(adopted) as { sha256: string }).sha256 === getMeta(db, manifestHashKey);
}

/** @throws UsageError if the archive has data that is not known to be at `origin` */
function requireReplaceable(archive: Archive, origin: string): void {
  const { state } = archive;
  const hash = getMeta(state.db, manifestHashKey) ?? '';
  const isCopy = state.generation() === 0 || getMeta(state.db, adoptedKey) === formatAdopted(origin, hash);
  if (isCopy && !hasJournaledRows(state.db)) return;
  throw createNotCopyError(archive, origin);
}

const createNotCopyError = ({ layout }: Archive, origin: string): UsageError =>
  new UsageError(
    `${layout.root} is an archive that has data that is not known to be at ${origin}. A pull would replace it. Use a new folder.`,
  );

async function adoptLocked(
  archive: Archive,
  { text, manifest, origin }: ForeignGeneration,
  options: AdoptOptions,
): Promise<AdoptResult> {
  const { disk, layout, state } = archive;
  const { db } = state;
  const builtOn = readCommitState(db);
  const base = archive.readManifest();
  const before = new Map(listManifestFiles(base).map((file) => [file.path, file]));
  const files = listManifestFiles(manifest);
  // As the last verification found it.
  const damaged = new Set(readRecordedDamage(db).map(({ path }) => path));
  const isThere = ({ path, sha256: hash, bytes }: PublishedFile): boolean =>
    before.get(path)?.sha256 === hash && disk.size(join(layout.root, path)) === bytes && !damaged.has(path);
  const missing = files.filter((file) => !isThere(file));
  const hash = sha256(Buffer.from(text));
  if (missing.length === 0 && getMeta(db, adoptedKey) === formatAdopted(origin, hash))
    return { fetched: [], isChanged: false };
  const stage = startStage(archive, base, builtOn, null, stageName);
  options.onProgress?.(0, missing.length);
  const staged = new Map<string, string>();
  const fetched: PublishedFile[] = [];
  await forEachConcurrent(options.concurrency, missing, async (file) => {
    options.signal?.throwIfAborted();
    // By its hash too: a suspended process may still write the files of another generation.
    const stagedAs = `${file.path}-${file.sha256}`;
    let path = reuseStaged(archive, stage, file, stagedAs);
    if (path === null) {
      path = stageBytes(archive, stage, file.path, await options.fetchFile(file), stagedAs);
      fetched.push(file);
    }
    staged.set(join(layout.root, file.path), path);
    options.onProgress?.(staged.size, missing.length);
  });
  const wanted = new Set(files.map(({ path }) => path));
  for (const path of before.keys()) if (!wanted.has(path)) stageRemoval(stage, path);
  const next = withFiles(disk, (path) => staged.get(path) ?? path, layout.manifestPath, Buffer.from(text));
  const commitId = manifest.commit_id ?? stage.commitId;
  const intent = { generation: manifest.generation, commitId, manifest: text, moves: sortMoves(stage) };
  commitIntent(
    archive,
    builtOn,
    intent,
    () => {
      // A collector does not hold the lock.
      if (hasJournaledRows(db)) throw createNotCopyError(archive, origin);
      clearState(db);
      rebuildState(state, manifest, layout, next);
      setMeta(db, adoptedKey, formatAdopted(origin, hash));
    },
    manifest,
  );
  return { fetched, isChanged: true };
}

/** The disk as it will be after the moves. */
const withFiles = (disk: Disk, locate: (path: string) => string, textPath: string, text: Uint8Array): Disk => ({
  ...disk,
  read: (path) => (path === textPath ? text : disk.read(locate(path))),
  size: (path) => (path === textPath ? text.length : disk.size(locate(path))),
});
