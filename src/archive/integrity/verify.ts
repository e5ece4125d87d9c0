import { join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { computeThreadsMax, openWorkerPool } from '../../base/worker-threads.ts';
import type { Archive } from '../archive.ts';
import { sha256, toTemporaryPath } from '../disk/file-system.ts';
import { datasetNames, datasets } from '../format/datasets.ts';
import { manifestName, parseDatasetName } from '../format/layout.ts';
import {
  findManifestFile,
  formatChecksums,
  listManifestFiles,
  type Manifest,
  type PublishedFile,
  sumFileSizes,
} from '../format/manifest.ts';
import { type CoverageExtent, computeCoverageExtents, findDatabaseFault } from '../journal/coverage-store.ts';
import { getMeta, manifestHashKey } from '../journal/database.ts';
import { readOpenIntent } from '../journal/intent.ts';
import { findJournalDamage } from '../journal/journal-check.ts';
import { dropRowGroups, hasRowGroups, listRecordedPaths, recordRowGroups } from '../journal/published-files.ts';
import { toStateFilePath } from '../journal/state.ts';
import { createFileRecord, type FileRecord, readFileKeys } from '../parquet/row-group-index.ts';
import { decodeRows } from '../parquet/rows.ts';
import { formatRootFiles, readRootFileHashes, recordManifestText, recordRootFileHashes } from '../publish/commit.ts';
import { locateFile, readFileNow, readPublishedFile } from '../read-published-file.ts';

export interface VerifyFinding {
  readonly path: string;
  readonly kind: 'missing' | 'checksum mismatch' | 'orphan';
}

export interface VerifyResult {
  /** The generation of the last publish, according to the state database rather than manifest.json. */
  readonly generation: number;
  readonly files: number;
  readonly bytes: number;
  readonly findings: readonly VerifyFinding[];
  /** A message if the state database is damaged or differs from the published coverage; null if it is sound. */
  readonly state: string | null;
}

/** Below this size, starting threads takes longer than hashing. */
const threadedHashBytesMin = 64 * 2 ** 20;

/**
 * Hashes published files and compares them with the manifest: all files, or only those in `only`. If a publish
 * intervenes, it also checks the changed files and reports on the new generation.
 * @param threadedBytes minimum total size for hashing on threads; tests set it lower
 */
export async function verifyArchive(
  archive: Archive,
  only: readonly PublishedFile[] | null,
  onProgress?: (done: number, total: number) => void,
  signal?: AbortSignal,
  threadedBytes = threadedHashBytesMin,
): Promise<VerifyResult> {
  const intact = new Set<string>();
  for (;;) {
    const manifestBytes = archive.readManifestBytes();
    const manifest = archive.parseManifestBytes(manifestBytes);
    const byPath = indexFiles(manifest, only);
    const files = only?.map((file) => byPath.get(file.path) ?? file) ?? [...byPath.values()];
    const findings: VerifyFinding[] = [];
    const records: FileRecord[] = [];
    const unchecked = files.filter((file) => !intact.has(toFileKey(file)));
    const prefetcher =
      sumFileSizes(unchecked).bytes < threadedBytes
        ? null
        : await openHashPrefetcher(unchecked, (file) => locateReadableFile(archive, file));
    // Verify the state while the threads hash. The result counts only if the files that it read turn out intact.
    const earlyState =
      prefetcher === null || only !== null ? null : Promise.allSettled([verifyStateNow(archive, manifest, [], signal)]);
    try {
      for (const [done, file] of files.entries()) {
        signal?.throwIfAborted();
        if (intact.has(toFileKey(file))) continue;
        const finding = await checkFile(archive, file, records, prefetcher);
        if (finding === undefined) intact.add(toFileKey(file));
        else findings.push(finding);
        onProgress?.(done + 1, files.length);
        // Yield to signals and the progress bar.
        if (done % 16 === 15) await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      await Promise.all([prefetcher?.close(), earlyState]);
    }
    if (only === null) findings.push(...findOrphanFindings(archive, files), ...checkRootFiles(archive, manifest));
    const { generation } = manifest;
    const state = only === null ? await verifyStateNow(archive, manifest, findings, signal, earlyState) : null;
    if (state === undefined) intact.clear();
    if (state === undefined || !hasGeneration(archive, manifestBytes, generation)) continue;
    if (only === null) recordKnownFiles(archive, manifest, records, byPath);
    const { bytes } = sumFileSizes(files);
    // An edited manifest may state any generation.
    const last = archive.state.generation();
    return { generation: last === 0 ? generation : last, files: files.length, bytes, findings, state };
  }
}

/** The files of a manifest by path: all, or those with the paths of `only`. */
function indexFiles(manifest: Manifest, only: readonly PublishedFile[] | null): Map<string, PublishedFile> {
  // A run verifies a few of thousands of files, several times.
  const files =
    only?.flatMap(({ path }) => findManifestFile(manifest, parseDatasetName(path), path) ?? []) ??
    listManifestFiles(manifest);
  return new Map(files.map((file) => [file.path, file]));
}

/**
 * Whether manifest.json still has the generation that it had with these bytes. It is read from its file: it is verified too, and
 * something may have changed it since this process read it.
 */
function hasGeneration(archive: Archive, before: Uint8Array, generation: number): boolean {
  const now = archive.readManifestBytes();
  return Buffer.compare(now, before) === 0 || archive.parseManifestBytes(now).generation === generation;
}

/**
 * Verifies the state database. Returns undefined if a coverage file changed meanwhile.
 * @param earlyState a verification that was started on the assumption of no findings
 */
async function verifyStateNow(
  archive: Archive,
  manifest: Manifest,
  findings: readonly VerifyFinding[],
  signal?: AbortSignal,
  earlyState: Promise<[PromiseSettledResult<string | null | undefined>]> | null = null,
): Promise<string | null | undefined> {
  const isComparable = findings.every(({ path }) => path !== manifestName && !path.startsWith('coverage/'));
  if (isComparable && earlyState !== null) {
    const [found] = await earlyState;
    if (found.status === 'fulfilled') return found.value;
    throw found.reason;
  }
  try {
    return await verifyState(archive, isComparable ? manifest.datasets.coverage.files : null, signal);
  } catch (error) {
    if (error instanceof DamageError) return undefined;
    throw error;
  }
}

const toFileKey = (file: PublishedFile): string => `${file.sha256} ${file.path}`;

/** Checks a file. Trusts a thread that finds it intact; otherwise checks it again on this thread. */
async function checkFile(
  archive: Archive,
  file: PublishedFile,
  records: FileRecord[],
  prefetcher: HashPrefetcher | null,
): Promise<VerifyFinding | undefined> {
  const isIntact = prefetcher !== null && (await prefetcher.isNextIntact());
  return isIntact && hasRowGroups(archive.state.db, file.path, file.sha256)
    ? undefined
    : checkFileContent(archive, file, records);
}

/** The current path of a published file; null if there is no regular file. */
function locateReadableFile(archive: Archive, { path }: PublishedFile): string | null {
  const at = locateFile(archive, path);
  return archive.disk.isFile(at) ? at : null;
}

/** Checks a file. If it is intact and its row groups are not recorded yet, adds them to `records`. */
function checkFileContent(archive: Archive, file: PublishedFile, records: FileRecord[]): VerifyFinding | undefined {
  const { path } = file;
  const bytes = tryReadFile(archive, path);
  if (bytes === null) return { path, kind: 'missing' };
  if (bytes === undefined || sha256(bytes) !== file.sha256) return { path, kind: 'checksum mismatch' };
  if (!hasRowGroups(archive.state.db, path, file.sha256))
    records.push(createFileRecord(path, bytes, file.sha256, readFileKeys(parseDatasetName(path), bytes)));
  return undefined;
}

/** Error codes for a folder in place of the file, a read error of the device, or a file too large to read. */
const unreadableCodes = new Set(['EISDIR', 'EIO', 'ENOTDIR', 'ELOOP', 'ERR_FS_FILE_TOO_LARGE']);

/** Whether reading failed because of the file itself. Disk errors have the original error as their cause. */
export const isUnreadableError = (error: unknown): boolean =>
  unreadableCodes.has((((error as Error).cause ?? error) as NodeJS.ErrnoException).code ?? '');

/** The current bytes of a published file; null if it is missing, undefined if it cannot be read. */
export function tryReadFile(archive: Archive, path: string): Uint8Array | null | undefined {
  try {
    const bytes = readFileNow(archive, path);
    // Something other than a regular file is at the path.
    return bytes === null && archive.disk.size(locateFile(archive, path)) !== null ? undefined : bytes;
  } catch (error) {
    if (isUnreadableError(error)) return undefined;
    throw error;
  }
}

/** Records what a repair needs, if the state was rebuilt. */
function recordKnownFiles(
  archive: Archive,
  manifest: Manifest,
  records: readonly FileRecord[],
  byPath: ReadonlyMap<string, PublishedFile>,
): void {
  const { db } = archive.state;
  if (manifest.generation > 0) recordManifestText(archive, archive.readManifestText());
  const obsolete = listRecordedPaths(db).filter((path) => !byPath.has(path));
  const texts =
    manifest.generation > 0 && readRootFileHashes(db) === undefined ? readIntactRootTexts(archive, manifest) : null;
  if (records.length + obsolete.length === 0 && texts === null) return;
  db.transaction(() => {
    // A publish in between has recorded its own files.
    if (archive.state.generation() !== manifest.generation) return;
    if (texts !== null) recordRootFileHashes(db, texts);
    recordRowGroups(db, records);
    dropRowGroups(db, obsolete);
  });
}

/**
 * Returns the root files if they match what this version derives from the manifest; otherwise null, because their
 * original texts are unknown.
 */
function readIntactRootTexts({ disk, layout }: Archive, manifest: Manifest): Readonly<Record<string, string>> | null {
  const texts = formatRootFiles(manifest);
  const isIntact = ([name, text]: [string, string]): boolean => {
    const at = join(layout.root, name);
    return disk.isFile(at) && Buffer.from(disk.read(at)).equals(Buffer.from(text));
  };
  return Object.entries(texts).every(isIntact) ? texts : null;
}

const findOrphanFindings = (archive: Archive, files: readonly PublishedFile[]): VerifyFinding[] =>
  findOrphanFiles(archive, files).map((path) => ({ path, kind: 'orphan' }));

/** Checks the root files, which readers use to check other files or run as SQL. */
export function checkRootFiles(archive: Archive, manifest: Manifest): VerifyFinding[] {
  // A publish replaces the root files last: while an intent is open, they may still belong to the previous generation.
  if (archive.state.generation() === 0 || readOpenIntent(archive.state.db) !== undefined) return [];
  // The expected hash is from the state, because manifest.json cannot prove its own integrity.
  const manifestHash = getMeta(archive.state.db, manifestHashKey);
  // Files generated from an incorrect manifest prove nothing either, and the content of such a manifest may be invalid.
  if (manifestHash !== undefined && sha256(archive.readManifestBytes()) !== manifestHash)
    return [{ path: manifestName, kind: 'checksum mismatch' }];
  const expected: Record<string, string | undefined> = {
    [manifestName]: manifestHash,
    SHA256SUMS: sha256(Buffer.from(formatChecksums(manifest))),
    // Another version of oddslake may write other texts.
    ...readRootFileHashes(archive.state.db),
  };
  return Object.entries(expected).flatMap(([path, hash]): VerifyFinding[] => {
    const at = join(archive.layout.root, path);
    if (!archive.disk.isFile(at)) return [{ path, kind: 'missing' }];
    return hash === undefined || sha256(archive.disk.read(at)) === hash ? [] : [{ path, kind: 'checksum mismatch' }];
  });
}

/**
 * Checks the integrity of the state database, and compares its coverage of each symbol with the published coverage.
 * @param coverage the published coverage files, all intact; null to skip the comparison if some are damaged
 * @returns a message with the fault and what to do; null if there is none
 * @throws DamageError if a coverage file is no longer intact
 */
async function verifyState(
  archive: Archive,
  coverage: readonly PublishedFile[] | null,
  signal?: AbortSignal,
): Promise<string | null> {
  const { state, layout } = archive;
  const path = toStateFilePath(layout.privateFolder);
  const fault = findDatabaseFault(state.db);
  if (fault !== null)
    return `The state database ${path} is damaged: ${fault}. Publish the journal if possible (oddslake publish). Then rebuild it: oddslake verify --repair`;
  const { rows } = state.db.snapshot(() => findJournalDamage(state.db));
  if (rows.length > 0) {
    return `The journal in ${path} is damaged: ${rows.length} of its rows differ from their checksums. Run oddslake publish: it quarantines them, and the next run fetches their windows again. Check the disk.`;
  }
  if (coverage === null) return null;
  const published: CoverageExtents = new Map();
  for (const file of coverage) {
    signal?.throwIfAborted();
    addCoverageExtents(published, readPublishedFile(archive, file));
    // Yield to signals and the progress bar.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const known = computeCoverageExtents(state.db);
  for (const symbol of new Set([...published.keys(), ...known.keys()])) {
    if (isSameExtent(published.get(symbol), known.get(symbol))) continue;
    return `The state database ${path} and the published files differ in the coverage of ${symbol}. ${formatRebuildAdvice(path)}`;
  }
  return null;
}

/** Windows in the state may have fractions of a millisecond; those in files do not. */
function isSameExtent(a: CoverageExtent | undefined, b: CoverageExtent | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const slack = a.windows + b.windows;
  return Math.abs(a.ms - b.ms) <= slack && Math.abs(a.from - b.from) <= 1 && Math.abs(a.to - b.to) <= 1;
}

const formatRebuildAdvice = (path: string): string =>
  `Publish the journal if possible (oddslake publish). Then, while nothing uses the archive, move ${path} away, together with the files of the same name that end in -wal and -shm; the next run rebuilds it from the published files. Unpublished journal records, and the record of which prices were contested, are lost with it.`;

/** Totals of the published coverage of each symbol's ticks. */
type CoverageExtents = Map<string, CoverageExtent>;

const extentColumns = datasets.coverage.columns.filter(({ name }) =>
  ['dataset', 'symbol', 't_from', 't_to'].includes(name),
);

/** Adds the rows of a coverage file. @throws Error if it cannot be decoded */
function addCoverageExtents(extents: CoverageExtents, bytes: Uint8Array): void {
  for (const row of decodeRows(extentColumns, bytes)) {
    const [dataset, symbol, from, to] = row as [string, string, number, number];
    if (dataset !== 'ticks') continue;
    const previous = extents.get(symbol);
    extents.set(symbol, {
      windows: (previous?.windows ?? 0) + 1,
      ms: (previous?.ms ?? 0) + to - from,
      from: Math.min(previous?.from ?? from, from),
      to: Math.max(previous?.to ?? to, to),
    });
  }
}

/** Paths of everything in the dataset folders except `files`. */
function findOrphanFiles(archive: Archive, files: readonly PublishedFile[]): string[] {
  // Files that an open intent is about to remove are not orphans, nor are the drafts of its moves.
  const moves = readOpenIntent(archive.state.db)?.moves ?? [];
  const pendingPaths = moves.map(({ from, to }) => (from === null ? to : toTemporaryPath(to)));
  const known = new Set([...files.map(({ path }) => path), ...pendingPaths]);
  const folders = new Set([...known].flatMap(listParentFolders));
  return datasetNames.flatMap((dataset) => findOrphansBelow(archive, dataset, known, folders));
}

/** The parent folders of a published path, relative to the root. */
const listParentFolders = (path: string): string[] =>
  [...path.matchAll(/\//g)].map(({ index }) => path.slice(0, index));

/**
 * Orphans in day folders are listed file by file; any other folder is listed as one orphan. A known folder may be a
 * link to another disk; any other link is an orphan itself.
 */
function findOrphansBelow(
  archive: Archive,
  folder: string,
  known: ReadonlySet<string>,
  folders: ReadonlySet<string>,
): string[] {
  const { disk, layout } = archive;
  return disk.list(join(layout.root, folder)).flatMap((name): string[] => {
    const path = `${folder}/${name}`;
    if (known.has(path)) return [];
    const at = join(layout.root, path);
    const isDay = !folder.includes('/') && !name.endsWith('.parquet') && !disk.isLink(at);
    return (isDay || folders.has(path)) && disk.isFolder(at) ? findOrphansBelow(archive, path, known, folders) : [path];
  });
}

/** Files hashed or queued ahead, per thread. */
const prefetchPerThread = 8;

/** Hashes published files on worker threads, ahead of the caller. */
type HashPrefetcher = Awaited<ReturnType<typeof openHashPrefetcher>>;

/** @param getPath returns the current path of a file; null if it cannot be read */
export async function openHashPrefetcher(
  files: readonly PublishedFile[],
  getPath: (file: PublishedFile) => string | null,
) {
  const count = Math.min(files.length, computeThreadsMax());
  const pool = await openWorkerPool('./hash-thread', import.meta.url, count);
  const prefetched: Promise<boolean>[] = [];
  let started = 0;
  let isClosed = false;

  async function isIntact(file: PublishedFile): Promise<boolean> {
    try {
      const path = getPath(file);
      return path !== null && (await pool.run('hashFile', path)) === file.sha256;
    } catch {
      return false;
    }
  }

  return {
    /**
     * Whether the next file matches its recorded hash; false if it cannot be read. Call once per file, in order; calls
     * must not overlap.
     */
    async isNextIntact(): Promise<boolean> {
      if (isClosed) return false;
      while (started < files.length && prefetched.length < count * prefetchPerThread)
        prefetched.push(isIntact(files[started++]!));
      return (await prefetched.shift()) ?? false;
    },
    /** Ends the threads. */
    async close() {
      isClosed = true;
      await pool.close();
    },
  };
}
