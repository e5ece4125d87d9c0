import { join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { sha256, toDraftPath } from '../disk/file-system.ts';
import { type DatasetName, datasetNames, datasets } from '../format/datasets.ts';
import {
  formatChecksums,
  listManifestFiles,
  type Manifest,
  type PublishedFile,
  sumFileTotals,
} from '../format/manifest.ts';
import { type CoverageExtent, computeCoverageExtents, findDatabaseFault } from '../journal/coverage.ts';
import { getMeta, manifestHashKey } from '../journal/database.ts';
import { readOpenIntent } from '../journal/intent.ts';
import { findJournalDamage } from '../journal/journal-check.ts';
import { dropRowGroups, hasRowGroups, listRecordedPaths, recordRowGroups } from '../journal/published-files.ts';
import { toStateFilePath } from '../journal/state.ts';
import { type Archive, locateFile, readFileNow, readPublishedFile } from '../open-archive.ts';
import { createFileRecord, type FileRecord, readFileKeys } from '../parquet/row-group-index.ts';
import { decodeRows } from '../parquet/rows.ts';
import { recordManifestText } from '../publish/commit.ts';
import { formatRootFiles, readRootFileHashes, recordRootFileHashes } from '../publish/root-files.ts';
import { type HashPrefetcher, openHashPrefetcher } from './prefetch-hashes.ts';

export interface VerifyFinding {
  readonly path: string;
  readonly kind: 'missing' | 'checksum mismatch' | 'orphan';
}

export interface VerifyResult {
  /** That of the last publish, whatever manifest.json says. */
  readonly generation: number;
  readonly files: number;
  readonly bytes: number;
  readonly findings: readonly VerifyFinding[];
  /** A sentence on a state that is damaged, or knows another coverage than is published; null where it is sound. */
  readonly state: string | null;
}

/** Threads take longer to start than to hash fewer bytes than these. */
const threadedHashBytesMin = 64 * 2 ** 20;

/**
 * Re-reads and re-hashes published files against the manifest: all of them, or just those given. Where a publish goes on
 * meanwhile, it looks at what the new generation changed too, and speaks of that generation.
 * @param threadedBytesMin from how many bytes on threads hash: other than the default only to have them with small files
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
    const manifest = archive.readManifest();
    const byPath = new Map(listManifestFiles(manifest).map((file) => [file.path, file]));
    const files = only?.map((file) => byPath.get(file.path) ?? file) ?? [...byPath.values()];
    const findings: VerifyFinding[] = [];
    const records: FileRecord[] = [];
    const left = files.filter((file) => !intact.has(toFileKey(file)));
    const ahead =
      sumFileTotals(left).bytes < threadedBytes
        ? null
        : await openHashPrefetcher(left, (file) => locateReadableFile(archive, file));
    // While the threads hash. What comes of it counts only where the files that it read were found intact.
    const early =
      ahead === null || only !== null ? null : Promise.allSettled([verifyStateNow(archive, manifest, [], signal)]);
    try {
      for (const [done, file] of files.entries()) {
        signal?.throwIfAborted();
        if (intact.has(toFileKey(file))) continue;
        const finding = await checkFile(archive, file, records, ahead);
        if (finding === undefined) intact.add(toFileKey(file));
        else findings.push(finding);
        onProgress?.(done + 1, files.length);
        // Signals and the progress bar get their turn.
        if (done % 16 === 15) await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      await Promise.all([ahead?.close(), early]);
    }
    if (only === null) findings.push(...findOrphanFindings(archive, files), ...checkRootFiles(archive, manifest));
    const { generation } = manifest;
    const state = only === null ? await verifyStateNow(archive, manifest, findings, signal, early) : null;
    if (state === undefined) intact.clear();
    if (state === undefined || archive.readManifest().generation !== generation) continue;
    if (only === null) recordKnownFiles(archive, manifest, records, byPath);
    const { bytes } = sumFileTotals(files);
    // A manifest that somebody edited may say anything.
    const last = archive.state.generation();
    return { generation: last === 0 ? generation : last, files: files.length, bytes, findings, state };
  }
}

/**
 * Undefined where a file of coverage is no more what it was a moment ago.
 * @param early the same for no findings, begun before they were known
 */
async function verifyStateNow(
  archive: Archive,
  manifest: Manifest,
  findings: readonly VerifyFinding[],
  signal?: AbortSignal,
  early: Promise<[PromiseSettledResult<string | null | undefined>]> | null = null,
): Promise<string | null | undefined> {
  const comparable = findings.every(({ path }) => path !== 'manifest.json' && !path.startsWith('coverage/'));
  if (comparable && early !== null) {
    const [found] = await early;
    if (found.status === 'fulfilled') return found.value;
    throw found.reason;
  }
  try {
    return await verifyState(archive, comparable ? manifest.datasets.coverage.files : null, signal);
  } catch (error) {
    if (error instanceof DamageError) return undefined;
    throw error;
  }
}

const toFileKey = (file: PublishedFile): string => `${file.sha256} ${file.path}`;

/** A thread's word is taken for what is intact, never for what is wrong. */
async function checkFile(
  archive: Archive,
  file: PublishedFile,
  records: FileRecord[],
  ahead: HashPrefetcher | null,
): Promise<VerifyFinding | undefined> {
  const isIntact = ahead !== null && (await ahead.isNextIntact());
  return isIntact && hasRowGroups(archive.state.db, file.path, file.sha256)
    ? undefined
    : checkFileContent(archive, file, records);
}

/** Where the bytes of a published file are now; null where that is no file. */
function locateReadableFile(archive: Archive, { path }: PublishedFile): string | null {
  const at = locateFile(archive, path);
  return archive.disk.isFile(at) ? at : null;
}

/** Looks at one file; `records` takes what it is made of, where that is not known yet and it is intact. */
function checkFileContent(archive: Archive, file: PublishedFile, records: FileRecord[]): VerifyFinding | undefined {
  const { path } = file;
  const bytes = tryReadFile(archive, path);
  if (bytes === null) return { path, kind: 'missing' };
  if (bytes === undefined || sha256(bytes) !== file.sha256) return { path, kind: 'checksum mismatch' };
  if (!hasRowGroups(archive.state.db, path, file.sha256)) {
    const dataset = path.slice(0, path.indexOf('/')) as DatasetName;
    records.push(createFileRecord(path, bytes, file.sha256, readFileKeys(dataset, bytes)));
  }
  return undefined;
}

/** A folder in the file's place, bytes that the device does not give, more of them than can be read at once. */
const unreadableCodes = new Set(['EISDIR', 'EIO', 'ENOTDIR', 'ELOOP', 'ERR_FS_FILE_TOO_LARGE']);

/** Whether reading a file failed because of what is there. A disk that failed is told in words, with the error as cause. */
export const isUnreadableError = (error: unknown): boolean =>
  unreadableCodes.has((((error as Error).cause ?? error) as NodeJS.ErrnoException).code ?? '');

/** The bytes of a published file as it is now; null where it is missing, undefined where they cannot be had. */
export function tryReadFile(archive: Archive, path: string): Uint8Array | null | undefined {
  try {
    const bytes = readFileNow(archive, path);
    // What stands there and is no file was not published.
    return bytes === null && archive.disk.size(locateFile(archive, path)) !== null ? undefined : bytes;
  } catch (error) {
    if (isUnreadableError(error)) return undefined;
    throw error;
  }
}

/** Keeps what a repair needs to know, where an older oddslake did not or the state was lost. */
function recordKnownFiles(
  archive: Archive,
  manifest: Manifest,
  records: readonly FileRecord[],
  byPath: ReadonlyMap<string, PublishedFile>,
): void {
  const { db } = archive.state;
  if (manifest.generation > 0) recordManifestText(archive, archive.readManifestText());
  const gone = listRecordedPaths(db).filter((path) => !byPath.has(path));
  const texts =
    manifest.generation > 0 && readRootFileHashes(db) === undefined ? readIntactRootTexts(archive, manifest) : null;
  if (records.length + gone.length === 0 && texts === null) return;
  db.transaction(() => {
    // A publish that came in between noted its own files.
    if (archive.state.generation() !== manifest.generation) return;
    if (texts !== null) recordRootFileHashes(db, texts);
    recordRowGroups(db, records);
    dropRowGroups(db, gone);
  });
}

/** The texts at the root, where they are what this oddslake writes of the manifest; else nobody knows what they were. */
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

/** The texts at the root that readers check files against, or run. */
export function checkRootFiles(archive: Archive, manifest: Manifest): VerifyFinding[] {
  // They are the last that a publish puts into place: until it is through they speak of the generation before.
  if (archive.state.generation() === 0 || readOpenIntent(archive.state.db) !== undefined) return [];
  // What manifest.json says of itself proves nothing: the state knows its hash.
  const own = getMeta(archive.state.db, manifestHashKey);
  // Texts that follow from another manifest prove nothing either, and not all that it says need make sense.
  if (own !== undefined && sha256(Buffer.from(archive.readManifestText())) !== own)
    return [{ path: 'manifest.json', kind: 'checksum mismatch' }];
  const expected: Record<string, string | undefined> = {
    'manifest.json': own,
    SHA256SUMS: sha256(Buffer.from(formatChecksums(manifest))),
    // Only as they were written: an older oddslake worded them otherwise, and may have had no views.
    ...readRootFileHashes(archive.state.db),
  };
  return Object.entries(expected).flatMap(([path, hash]): VerifyFinding[] => {
    const at = join(archive.layout.root, path);
    if (!archive.disk.isFile(at)) return [{ path, kind: 'missing' }];
    return hash === undefined || sha256(archive.disk.read(at)) === hash ? [] : [{ path, kind: 'checksum mismatch' }];
  });
}

/**
 * Whether the state is sound and knows the coverage that is published: SQLite looks at its file, and of every symbol what
 * both say is added up. Resolves to a sentence that says what is wrong and what to do; null where nothing is.
 * @param coverage the published files of coverage, all of them intact; null where they are not, so that nothing is compared
 * @throws DamageError where one of them is not so any more
 */
export async function verifyState(
  archive: Archive,
  coverage: readonly PublishedFile[] | null,
  signal?: AbortSignal,
): Promise<string | null> {
  const { state, layout } = archive;
  const path = toStateFilePath(layout.privateFolder);
  const fault = findDatabaseFault(state.db);
  if (fault !== null) return `The state database ${path} is damaged: ${fault}. ${formatRebuildAdvice(path)}`;
  const { rows } = state.db.snapshot(() => findJournalDamage(state.db));
  if (rows.length > 0) {
    return `The journal in ${path} is damaged: ${rows.length} of its rows differ from their checksums. Run oddslake publish: it quarantines them, and the next run asks for what they held again. Check the disk.`;
  }
  if (coverage === null) return null;
  const published: CoverageExtents = new Map();
  for (const file of coverage) {
    signal?.throwIfAborted();
    addCoverageExtents(published, readPublishedFile(archive, file));
    // Signals and the progress bar get their turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const known = computeCoverageExtents(state.db);
  for (const symbol of new Set([...published.keys(), ...known.keys()])) {
    if (isSameExtent(published.get(symbol), known.get(symbol))) continue;
    return `The state database ${path} does not know the coverage of ${symbol} as it is published. ${formatRebuildAdvice(path)}`;
  }
  return null;
}

/** Windows of a state may begin amid a millisecond, where those of a file cannot. */
function isSameExtent(a: CoverageExtent | undefined, b: CoverageExtent | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const slack = a.windows + b.windows;
  return Math.abs(a.ms - b.ms) <= slack && Math.abs(a.from - b.from) <= 1 && Math.abs(a.to - b.to) <= 1;
}

const formatRebuildAdvice = (path: string): string =>
  `Publish what is journaled, if that can still be done (oddslake publish); then, while nothing runs on the archive, move ${path} away, and with it the files of that name that end in -wal and -shm: the next run makes a new one of what is published. What is journaled only, and which prices were contested, is gone with it.`;

/** How much of the time of each symbol's ticks is published as covered. */
export type CoverageExtents = Map<string, CoverageExtent>;

const extentColumns = datasets.coverage.filter(({ name }) => ['dataset', 'symbol', 't_from', 't_to'].includes(name));

/** Adds what one file of coverage says. @throws Error where it is no such file */
export function addCoverageExtents(extents: CoverageExtents, bytes: Uint8Array): void {
  for (const row of decodeRows(extentColumns, bytes)) {
    const [dataset, symbol, from, to] = row as [string, string, number, number];
    if (dataset !== 'ticks') continue;
    const was = extents.get(symbol);
    extents.set(symbol, {
      windows: (was?.windows ?? 0) + 1,
      ms: (was?.ms ?? 0) + to - from,
      from: Math.min(was?.from ?? from, from),
      to: Math.max(was?.to ?? to, to),
    });
  }
}

/** Paths of whatever lies in the folders of the datasets and is none of these files. */
export function findOrphanFiles(archive: Archive, files: readonly PublishedFile[]): string[] {
  // What a repair is about to remove is none, nor what a publish copies beside its place.
  const moves = readOpenIntent(archive.state.db)?.moves ?? [];
  const coming = moves.map(({ from, to }) => (from === null ? to : toDraftPath(to)));
  const known = new Set([...files.map(({ path }) => path), ...coming]);
  const folders = new Set([...known].flatMap(listParentFolders));
  return datasetNames.flatMap((dataset) => findOrphansBelow(archive, dataset, known, folders));
}

/** The folders that a published path is in, below the root. */
const listParentFolders = (path: string): string[] =>
  [...path.matchAll(/\//g)].map(({ index }) => path.slice(0, index));

/**
 * Below a dataset's folder are days, whose files are named one by one; any other folder counts as one thing. A folder of
 * ours may be a link to where there is room; any other link is a stranger itself.
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
