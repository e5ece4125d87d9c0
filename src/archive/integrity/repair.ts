import { dirname, join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { type Archive, requirePublishedManifest } from '../archive.ts';
import { sha256 } from '../disk/file-system.ts';
import type { LostWindow } from '../format/coverage.ts';
import { datasets } from '../format/datasets.ts';
import { type ArchiveLayout, manifestName, privateFolderName } from '../format/layout.ts';
import {
  formatManifest,
  hasRows,
  listManifestFiles,
  type Manifest,
  type PublishedFile,
  parseManifest,
  sumFileSizes,
} from '../format/manifest.ts';
import { getMeta, manifestHashKey } from '../journal/database.ts';
import { type CommitState, readCommitState } from '../journal/intent.ts';
import { takeWriteLock } from '../journal/lock.ts';
import { readRecordedManifestText } from '../journal/recorded-manifest.ts';
import { toStateFilePath } from '../journal/state.ts';
import { commitIntent, finishIntent, replaceRootFile } from '../publish/commit.ts';
import { type Stage, stageBytes, startStage } from '../publish/staging.ts';
import { moveToQuarantine, quarantineCopy } from './quarantine-file.ts';
import { type RepairFilesOptions, repairDamagedFiles } from './repair-files.ts';
import type { RepairLosses, UnrecoverableRows } from './salvage-row-groups.ts';
import { type RepairTriage, triageFindings } from './triage.ts';
import { type VerifyFinding, type VerifyResult, verifyArchive } from './verify.ts';

export interface RepairOptions extends RepairFilesOptions {
  /** How long to wait for another writer, in ms. */
  readonly waitMs: number;
}

/**
 * Repairs the archive: quarantines damaged files, keeps each row group that is provably intact, and withdraws the
 * coverage of the lost rows, so that they are fetched again. All losses are committed atomically as one generation.
 * Without losses the generation stays the same.
 * @throws DamageError if the manifest cannot be restored, files are behind a broken link, or a repaired file is damaged
 * again
 */
export async function repairArchive(archive: Archive, options: RepairOptions): Promise<RepairReport> {
  const manifest = await withWriteLock(archive, options, () => repairManifest(archive));
  const verified = await verifyArchive(archive, null, options.onProgress, options.signal);
  const repaired =
    verified.findings.length === 0
      ? toIntactReport(verified)
      : await withWriteLock(archive, options, () => repairFindings(archive, verified, options));
  const [movedTo, statePath] = [archive.damagedState, toStateFilePath(privateFolderName)];
  const first = [
    ...(movedTo === null ? [] : [toRepairedFile(statePath, 'rebuilt', { kind: 'checksum mismatch', movedTo })]),
    ...(manifest === null ? [] : [toRepairedFile(manifestName, 'restored', manifest)]),
  ];
  const files = listManifestFiles(archive.readManifest()).filter((file) =>
    repaired.repaired.some(({ path }) => path === file.path),
  );
  const secondCheck = await verifyArchive(archive, files, undefined, options.signal);
  if (secondCheck.findings.length > 0) {
    const paths = secondCheck.findings.map(({ path }) => path).join(', ');
    throw new DamageError(`${paths} is damaged again right after the repair. Check the disk.`);
  }
  return { ...repaired, repaired: [...first, ...repaired.repaired] };
}

const busyAdvice = 'Damaged files are unchanged; run oddslake verify --repair again after that run has ended.';

async function withWriteLock<T>(archive: Archive, options: RepairOptions, task: () => T | Promise<T>): Promise<T> {
  const { waitMs, clock, signal } = options;
  using _lock = await takeWriteLock(archive.layout.lockPath, waitMs, clock, signal, () => busyAdvice);
  finishIntent(archive);
  return await task();
}

const toIntactReport = ({ generation, files, bytes, state }: VerifyResult): RepairReport => ({
  generation,
  files,
  bytes,
  state,
  repaired: [],
  lost: [],
  unrecoverable: [],
  written: [],
});

const toRepairedFile = (path: string, outcome: RepairOutcome, { kind, movedTo }: ManifestRepair): RepairedFile => ({
  path,
  kind,
  outcome,
  moved_to: movedTo,
  rows: null,
  rows_lost: null,
});

async function repairFindings(archive: Archive, verified: VerifyResult, options: RepairOptions): Promise<RepairReport> {
  requirePublishedManifest(archive);
  requireLinkTargets(archive, verified.findings);
  const builtOn = readCommitState(archive.state.db);
  const base = archive.readManifest();
  const triage = triageFindings(archive, base, verified.findings);
  const quarantined = new Map<string, string>();
  for (const { path } of [...triage.restorable, ...triage.damaged].map(({ finding }) => finding).concat(triage.texts))
    quarantineDamagedFile(archive, base, path, quarantined);
  const lastCommit = restoreIntactFiles(archive, base, builtOn, triage);
  for (const { path } of triage.orphans) quarantined.set(path, moveToQuarantine(archive, base.generation, path));
  const losses: RepairLosses = { windows: [], unrecoverable: [], rowsLost: new Map() };
  const stage = startStage(archive, base, lastCommit);
  const manifest =
    triage.damaged.length === 0 ? base : await repairDamagedFiles(archive, stage, triage, losses, options);
  return {
    generation: manifest.generation,
    ...sumManifestTotals(manifest),
    repaired: listRepairedFiles(triage, quarantined, base, stage, losses),
    state: verified.state,
    lost: losses.windows,
    unrecoverable: losses.unrecoverable,
    written: [...stage.stagedFiles.values()].map(({ file }) => file).filter(hasRows),
  };
}

/**
 * @throws DamageError if missing files are behind a broken link: their disk may only be unmounted, so they are not lost
 */
function requireLinkTargets({ disk, layout }: Archive, findings: readonly VerifyFinding[]): void {
  const missing = findings.filter(({ kind }) => kind === 'missing');
  for (const folder of new Set(missing.flatMap(({ path }) => [dirname(path), dirname(dirname(path))]))) {
    const at = join(layout.root, folder);
    if (!disk.isLink(at) || disk.size(at) !== null) continue;
    throw new DamageError(
      `${at} is a symbolic link whose target does not exist. Restore the target (is its disk mounted?) and run again, or remove the link to give up the files behind it.`,
    );
  }
}

const sumManifestTotals = (manifest: Manifest): { files: number; bytes: number } => {
  const files = listManifestFiles(manifest);
  return { files: files.length, bytes: sumFileSizes(files).bytes };
};

/** Quarantines whatever is at the path of a damaged file, if anything. */
function quarantineDamagedFile(archive: Archive, base: Manifest, path: string, quarantined: Map<string, string>): void {
  const at = join(archive.layout.root, path);
  if (archive.disk.stamp(at) === null) return;
  const isFile = archive.disk.isFile(at);
  quarantined.set(path, (isFile ? quarantineCopy : moveToQuarantine)(archive, base.generation, path));
}

/**
 * Restores the files whose exact bytes are available, and the root files. In the manifest, only the commit ID changes.
 * @returns the last commit
 */
function restoreIntactFiles(
  archive: Archive,
  base: Manifest,
  builtOn: CommitState,
  { restorable, texts }: RepairTriage,
): CommitState {
  if (restorable.length + texts.length === 0) return builtOn;
  const stage = startStage(archive, base, builtOn);
  for (const { finding, bytes } of restorable) stageBytes(archive, stage, finding.path, bytes());
  const { generation } = base;
  const { commitId, moves } = stage;
  const manifest = { ...base, commit_id: commitId };
  commitIntent(
    archive,
    builtOn,
    { generation, commitId, manifest: formatManifest(manifest), moves },
    () => {},
    manifest,
  );
  return { generation, commitId };
}

function listRepairedFiles(
  { restorable, damaged, orphans, texts }: RepairTriage,
  quarantined: ReadonlyMap<string, string>,
  base: Manifest,
  stage: Stage,
  losses: RepairLosses,
): RepairedFile[] {
  const rows = new Map(listManifestFiles(base).map((file) => [file.path, file.rows]));
  const line = ({ path, kind }: VerifyFinding, outcome: RepairOutcome, rowsLost: number | null): RepairedFile => ({
    path,
    kind,
    outcome,
    moved_to: quarantined.get(path) ?? null,
    rows: rows.get(path) ?? null,
    rows_lost: rowsLost,
  });
  return [
    ...restorable.map(({ finding }) => line(finding, 'restored', 0)),
    ...damaged.map(({ finding, file, dataset }) => {
      const isDerived = datasets[dataset].source === 'derived' || !hasRows(file);
      const outcome = hasNoRowsLeft(stage, file) ? 'removed' : isDerived ? 'rebuilt' : 'salvaged';
      return line(finding, outcome, losses.rowsLost.get(finding.path) ?? 0);
    }),
    ...orphans.map((finding) => line(finding, 'quarantined', null)),
    ...texts.map((finding) => line(finding, 'restored', null)),
  ];
}

/** Whether a damaged file had rows and none of them is left. A file without rows may be in its place. */
const hasNoRowsLeft = ({ removedPaths, stagedFiles }: Stage, { path, rows }: PublishedFile): boolean =>
  removedPaths.has(path) || (rows > 0 && stagedFiles.get(path)?.file.rows === 0);

/** How manifest.json was repaired. */
interface ManifestRepair {
  readonly kind: 'missing' | 'checksum mismatch';
  /** Path of the quarantined manifest, relative to the root; null if there was none. */
  readonly movedTo: string | null;
}

/**
 * Restores the manifest of the last publish if manifest.json differs or is missing. Requires the write lock, and no
 * open intent.
 * @returns null if nothing had to be repaired
 * @throws DamageError if the state database has no copy of its text, or the files match the current manifest.json
 */
function repairManifest(archive: Archive): ManifestRepair | null {
  const { state, disk, layout } = archive;
  const hash = getMeta(state.db, manifestHashKey);
  if (state.generation() === 0 || hash === undefined) return null;
  const isFolder = disk.isFolder(layout.manifestPath);
  const currentText =
    isFolder || disk.size(layout.manifestPath) === null
      ? null
      : Buffer.from(disk.read(layout.manifestPath)).toString('utf8');
  if (currentText !== null && sha256(Buffer.from(currentText)) === hash) return null;
  const known = readRecordedManifestText(state.db);
  const isKnown = known !== undefined && sha256(Buffer.from(known)) === hash;
  if (!isKnown)
    throw createUnrepairableError(layout, currentText, 'the state database has no copy of it, because it was rebuilt');
  if (currentText !== null && isFromAnotherTree(archive, currentText, known))
    throw createUnrepairableError(layout, currentText, 'the files match it');
  const keptPath = keepManifest(archive, isFolder, currentText);
  const isStillLast = state.db.transaction(() => {
    if (getMeta(state.db, manifestHashKey) !== hash) return false;
    replaceRootFile(archive, manifestName, Buffer.from(known));
    disk.syncFolder(layout.root);
    return true;
  });
  if (!isStillLast) return null;
  return { kind: keptPath === null ? 'missing' : 'checksum mismatch', movedTo: keptPath };
}

/** Quarantines what stands in the place of the manifest. A file is copied, so that there is one at every moment. */
function keepManifest(archive: Archive, isFolder: boolean, currentText: string | null): string | null {
  const generation = archive.state.generation();
  if (isFolder) return moveToQuarantine(archive, generation, manifestName);
  return currentText === null ? null : quarantineCopy(archive, generation, manifestName);
}

/** The error for a manifest that cannot be repaired; `why` is a clause. */
const createUnrepairableError = (layout: ArchiveLayout, currentText: string | null, why: string): DamageError =>
  new DamageError(
    currentText === null
      ? `${layout.manifestPath} is missing, and ${why}. Restore the manifest of the last publish from a backup or a snapshot.`
      : `${layout.manifestPath} is not the one that the last publish wrote, and ${why}. If the whole archive was restored from a backup, remove ${layout.privateFolder} to rebuild the state from the published files; otherwise restore the manifest of the last publish from a backup or a snapshot.`,
  );

/**
 * Whether some files match this manifest instead of ours. If so, the archive was restored from a backup, and a repair
 * based on the state database would treat intact files as damaged.
 */
function isFromAnotherTree({ disk, layout }: Archive, text: string, ours: string): boolean {
  let current: Manifest;
  try {
    current = parseManifest(text, layout.manifestPath);
  } catch {
    return false;
  }
  const known = new Map(
    listManifestFiles(parseManifest(ours, 'the state database')).map((file) => [file.path, file.sha256]),
  );
  return listManifestFiles(current)
    .filter((file) => known.get(file.path) !== file.sha256)
    .some((file) => {
      const at = join(layout.root, file.path);
      return disk.isFile(at) && disk.size(at) === file.bytes && sha256(disk.read(at)) === file.sha256;
    });
}

/**
 * How a damaged file was repaired. `restored`: byte for byte. `salvaged`: with the provably intact rows only.
 * `rebuilt`: from other data. `removed`: no row is left. `quarantined`: no manifest lists it.
 */
type RepairOutcome = 'restored' | 'salvaged' | 'rebuilt' | 'removed' | 'quarantined';

export interface RepairedFile extends VerifyFinding {
  readonly outcome: RepairOutcome;
  /** Path of the quarantined bytes, relative to the root; null if there were none. */
  readonly moved_to: string | null;
  /** Published rows, and lost rows; null for a file without rows. */
  readonly rows: number | null;
  readonly rows_lost: number | null;
}

export interface RepairReport {
  /** The current generation. */
  readonly generation: number;
  /** Number of files checked, and their bytes. */
  readonly files: number;
  readonly bytes: number;
  readonly repaired: readonly RepairedFile[];
  /** Windows of lost ticks. Their coverage is withdrawn, so that they are fetched again. */
  readonly lost: readonly LostWindow[];
  /** Lost rows that no request can restore. */
  readonly unrecoverable: readonly UnrecoverableRows[];
  /** The rewritten files with rows, as now published. */
  readonly written: readonly PublishedFile[];
  /** A message if the state database is damaged or differs from the published coverage; a repair does not fix this. */
  readonly state: string | null;
}
