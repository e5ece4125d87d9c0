import { dirname, join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { sha256 } from '../disk/file-system.ts';
import type { ArchiveLayout } from '../format/layout.ts';
import { formatManifest, listManifestFiles, type Manifest, parseManifest, sumFileTotals } from '../format/manifest.ts';
import { getMeta, manifestHashKey, manifestTextKey } from '../journal/database.ts';
import { type CommitState, readCommitState } from '../journal/intent.ts';
import { takeWriteLock } from '../journal/lock.ts';
import { type Archive, requireCurrentFormat, requirePublishedManifest } from '../open-archive.ts';
import { commitIntent, finishIntent, replaceRootFile } from '../publish/commit.ts';
import { type Stage, stageBytes, startStage } from '../publish/staging.ts';
import { moveToQuarantine, quarantineCopy } from './quarantine-file.ts';
import { type RepairFilesOptions, repairDamagedFiles } from './repair-files.ts';
import type { RepairedFile, RepairOutcome, RepairReport } from './repair-report.ts';
import type { RepairLosses } from './salvage-row-groups.ts';
import { type RepairTriage, triageFindings } from './triage.ts';
import { type VerifyFinding, type VerifyResult, verifyArchive } from './verify.ts';

export interface RepairOptions extends RepairFilesOptions {
  /** How long to wait for another writer, in ms. */
  readonly waitMs: number;
}

/**
 * Makes the archive as it was published, as far as what is there proves it: damaged files are set aside, each row group
 * that is intact is kept, and the coverage of the rest is taken back, so that it counts as missing and is asked for
 * again. What is lost is one new generation, all or nothing; where nothing is, the generation stays.
 * @throws DamageError where the manifest cannot be put back, or files are behind a link whose place is not there
 */
export async function repairArchive(archive: Archive, options: RepairOptions): Promise<RepairReport> {
  const manifest = await withWriteLock(archive, options, () => repairManifest(archive));
  const found = await verifyArchive(archive, null, options.onProgress, options.signal);
  const repaired =
    found.findings.length === 0
      ? toIntactReport(found)
      : await withWriteLock(archive, options, () => repairFindings(archive, found, options));
  const first: readonly RepairedFile[] = manifest === null ? [] : [toRepairedManifest(manifest)];
  const files = listManifestFiles(archive.readManifest()).filter((file) =>
    repaired.repaired.some(({ path }) => path === file.path),
  );
  const again = await verifyArchive(archive, files, undefined, options.signal);
  if (again.findings.length > 0) {
    const paths = again.findings.map(({ path }) => path).join(', ');
    throw new DamageError(`${paths} is damaged again right after it was mended: check the disk.`);
  }
  return { ...repaired, repaired: [...first, ...repaired.repaired] };
}

const busyAdvice = 'What is damaged is as it was; run oddslake verify --repair again once that run is done.';

async function withWriteLock<T>(archive: Archive, options: RepairOptions, work: () => T | Promise<T>): Promise<T> {
  const { waitMs, clock, signal } = options;
  const lock = await takeWriteLock(archive.layout.lockPath, waitMs, clock, signal, busyAdvice);
  try {
    finishIntent(archive);
    return await work();
  } finally {
    lock.release();
  }
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

const toRepairedManifest = ({ kind, setAside }: ManifestRepair): RepairedFile => ({
  path: 'manifest.json',
  kind,
  outcome: 'restored',
  moved_to: setAside,
  rows: null,
  rows_lost: null,
});

async function repairFindings(archive: Archive, found: VerifyResult, options: RepairOptions): Promise<RepairReport> {
  requirePublishedManifest(archive);
  requireCurrentFormat(archive);
  requireLinkTargets(archive, found.findings);
  const builtOn = readCommitState(archive.state.db);
  const base = archive.readManifest();
  const examined = triageFindings(archive, base, found.findings);
  const aside = new Map<string, string>();
  for (const { path } of [...examined.restorable, ...examined.damaged]
    .map(({ finding }) => finding)
    .concat(examined.texts))
    quarantineDamagedFile(archive, base, path, aside);
  const last = restoreIntactFiles(archive, base, builtOn, examined);
  for (const { path } of examined.orphans) aside.set(path, moveToQuarantine(archive, base.generation, path));
  const losses: RepairLosses = { windows: [], unrecoverable: [], rowsLost: new Map() };
  const stage = startStage(archive, base, last);
  const manifest =
    examined.damaged.length === 0 ? base : await repairDamagedFiles(archive, stage, examined, losses, options);
  return {
    generation: manifest.generation,
    ...sumManifestTotals(manifest),
    repaired: listRepairedFiles(examined, aside, base, stage, losses),
    state: found.state,
    lost: losses.windows,
    unrecoverable: losses.unrecoverable,
    written: [...stage.stagedFiles.values()].map(({ file }) => file),
  };
}

/** What lies behind a link to a disk that is not there now is not lost: to mend it would be to give it up. */
function requireLinkTargets({ disk, layout }: Archive, findings: readonly VerifyFinding[]): void {
  const missing = findings.filter(({ kind }) => kind === 'missing');
  for (const folder of new Set(missing.flatMap(({ path }) => [dirname(path), dirname(dirname(path))]))) {
    const at = join(layout.root, folder);
    if (!disk.isLink(at) || disk.size(at) !== null) continue;
    throw new DamageError(
      `${at} is a link to a place that is not there. Put that place back (is its disk mounted?), and run again; or remove the link, to give up what was in it.`,
    );
  }
}

const sumManifestTotals = (manifest: Manifest): { files: number; bytes: number } => {
  const files = listManifestFiles(manifest);
  return { files: files.length, bytes: sumFileTotals(files).bytes };
};

/** Sets a damaged file aside, where there is one. */
function quarantineDamagedFile(archive: Archive, base: Manifest, path: string, aside: Map<string, string>): void {
  const at = join(archive.layout.root, path);
  if (archive.disk.stamp(at) === null) return;
  const aFile = archive.disk.isFile(at);
  aside.set(path, (aFile ? quarantineCopy : moveToQuarantine)(archive, base.generation, path));
}

/**
 * Puts back what can be had to the byte, the texts at the root with it: the manifest says the same but for the commit's ID.
 * @returns the last commit then
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
  aside: ReadonlyMap<string, string>,
  base: Manifest,
  stage: Stage,
  losses: RepairLosses,
): RepairedFile[] {
  const rows = new Map(listManifestFiles(base).map((file) => [file.path, file.rows]));
  const line = ({ path, kind }: VerifyFinding, outcome: RepairOutcome, rowsLost: number | null): RepairedFile => ({
    path,
    kind,
    outcome,
    moved_to: aside.get(path) ?? null,
    rows: rows.get(path) ?? null,
    rows_lost: rowsLost,
  });
  return [
    ...restorable.map(({ finding }) => line(finding, 'restored', 0)),
    ...damaged.map(({ finding, dataset }) => {
      const madeAnew = dataset === 'symbols' || dataset === 'coverage' || dataset.startsWith('candles');
      const outcome = stage.removedPaths.has(finding.path) ? 'removed' : madeAnew ? 'rebuilt' : 'salvaged';
      return line(finding, outcome, losses.rowsLost.get(finding.path) ?? 0);
    }),
    ...orphans.map((finding) => line(finding, 'quarantined', null)),
    ...texts.map((finding) => line(finding, 'restored', null)),
  ];
}

const manifestName = 'manifest.json';

/** What became of manifest.json. */
export interface ManifestRepair {
  readonly kind: 'missing' | 'checksum mismatch';
  /** Where the other one is now, relative to the root; null where there was none. */
  readonly setAside: string | null;
}

/**
 * Puts the manifest of the last publish back, where manifest.json is another or missing. Holder of the write lock only,
 * with no intent open.
 * @throws DamageError where the state does not know its text, or the tree is that of another manifest
 */
export function repairManifest(archive: Archive): ManifestRepair | null {
  const { state, disk, layout } = archive;
  const hash = getMeta(state.db, manifestHashKey);
  if (state.generation() === 0 || hash === undefined) return null;
  const found =
    disk.size(layout.manifestPath) === null ? null : Buffer.from(disk.read(layout.manifestPath)).toString('utf8');
  if (found !== null && sha256(Buffer.from(found)) === hash) return null;
  const known = getMeta(state.db, manifestTextKey);
  const isKnown = known !== undefined && sha256(Buffer.from(known)) === hash;
  if (!isKnown)
    throw createUnrepairableError(
      layout,
      found,
      'the state does not know its text, an older oddslake having written it',
    );
  if (found !== null && isFromAnotherTree(archive, found, known))
    throw createUnrepairableError(layout, found, 'files are as it says');
  const kept = found === null ? null : quarantineCopy(archive, state.generation(), manifestName);
  const isStillLast = state.db.transaction(() => {
    if (getMeta(state.db, manifestHashKey) !== hash) return false;
    replaceRootFile(archive, manifestName, known);
    disk.syncFolder(layout.root);
    return true;
  });
  if (!isStillLast) return null;
  return { kind: found === null ? 'missing' : 'checksum mismatch', setAside: kept };
}

/** What to do where a repair can do nothing; `why` is a clause. */
const createUnrepairableError = (layout: ArchiveLayout, found: string | null, why: string): DamageError =>
  new DamageError(
    found === null
      ? `${layout.manifestPath} is missing, and ${why}: put the one of the last publish back from a backup or a snapshot.`
      : `${layout.manifestPath} is not the one that the last publish wrote, and ${why}. Where the whole tree was restored from a backup, remove ${layout.privateFolder} to start from what is there; else put the manifest of the last publish back from a backup or a snapshot.`,
  );

/**
 * Whether files are as this manifest says and not as ours does: then the tree was restored from a backup, and to mend it
 * by what the state knows would take good files for bad ones.
 */
function isFromAnotherTree({ disk, layout }: Archive, text: string, ours: string): boolean {
  let found: Manifest;
  try {
    found = parseManifest(text, layout.manifestPath);
  } catch {
    return false;
  }
  const known = new Map(
    listManifestFiles(parseManifest(ours, 'the state database')).map((file) => [file.path, file.sha256]),
  );
  return listManifestFiles(found)
    .filter((file) => known.get(file.path) !== file.sha256)
    .some((file) => {
      const at = join(layout.root, file.path);
      return disk.isFile(at) && disk.size(at) === file.bytes && sha256(disk.read(at)) === file.sha256;
    });
}
