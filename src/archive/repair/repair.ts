import { dirname, join } from 'node:path';
import { DamageError } from '../../core/errors.ts';
import { type CommitState, readCommitState } from '../../state/intent.ts';
import { takeWriteLock } from '../../state/lock.ts';
import { commitIntent, finishIntent } from '../generation/commit.ts';
import { type Stage, stagePrivate, startStage } from '../generation/staging.ts';
import { allFiles, type Manifest, manifestText, totalsOf } from '../manifest.ts';
import { type Archive, requireCurrentFormat, requireOwnManifest } from '../open-archive.ts';
import { type Finding, type Verified, verify } from '../verify/verify.ts';
import { moveAside, setAside } from './quarantine-file.ts';
import { type MendOptions, mendBroken } from './repair-files.ts';
import { type MendedManifest, mendManifest } from './repair-manifest.ts';
import type { MendedFile, Outcome, Repaired } from './repair-report.ts';
import { type Examined, examine } from './triage.ts';
import type { Losses } from './types.ts';

export interface RepairOptions extends MendOptions {
  /** How long to wait for another writer, in ms. */
  readonly waitMs: number;
}

/**
 * Makes the archive as it was published, as far as what is there proves it: damaged files are set aside, each row group
 * that is intact is kept, and the coverage of the rest is taken back, so that it counts as missing and is asked for
 * again. What is lost is one new generation, all or nothing; where nothing is, the generation stays.
 * @throws DamageError where the manifest cannot be put back, or files are behind a link whose place is not there
 */
export async function repair(archive: Archive, options: RepairOptions): Promise<Repaired> {
  const manifest = await locked(archive, options, () => mendManifest(archive));
  const found = await verify(archive, null, options.onProgress, options.signal);
  const repaired =
    found.findings.length === 0
      ? nothingToMend(found)
      : await locked(archive, options, () => mendFound(archive, found, options));
  const first: readonly MendedFile[] = manifest === null ? [] : [mendedManifest(manifest)];
  const files = allFiles(archive.manifest()).filter((file) => repaired.mended.some(({ path }) => path === file.path));
  const again = await verify(archive, files, undefined, options.signal);
  if (again.findings.length > 0) {
    const paths = again.findings.map(({ path }) => path).join(', ');
    throw new DamageError(`${paths} is damaged again right after it was mended: check the disk.`);
  }
  return { ...repaired, mended: [...first, ...repaired.mended] };
}

const unmended = 'What is damaged is as it was; run oddslake verify --repair again once that run is done.';

async function locked<T>(archive: Archive, options: RepairOptions, work: () => T | Promise<T>): Promise<T> {
  const { waitMs, clock, signal } = options;
  const lock = await takeWriteLock(archive.layout.lock, waitMs, clock, signal, unmended);
  try {
    finishIntent(archive);
    return await work();
  } finally {
    lock.release();
  }
}

const nothingToMend = ({ generation, files, bytes, state }: Verified): Repaired => ({
  generation,
  files,
  bytes,
  state,
  mended: [],
  lost: [],
  gone: [],
  written: [],
});

const mendedManifest = ({ what, setAside }: MendedManifest): MendedFile => ({
  path: 'manifest.json',
  what,
  outcome: 'put back',
  setAside,
  rows: null,
  rowsLost: null,
});

async function mendFound(archive: Archive, found: Verified, options: RepairOptions): Promise<Repaired> {
  requireOwnManifest(archive);
  requireCurrentFormat(archive);
  requireFolders(archive, found.findings);
  const builtOn = readCommitState(archive.state.db);
  const base = archive.manifest();
  const examined = examine(archive, base, found.findings);
  const aside = new Map<string, string>();
  for (const { path } of [...examined.whole, ...examined.broken].map(({ finding }) => finding).concat(examined.texts))
    keep(archive, base, path, aside);
  const last = putBack(archive, base, builtOn, examined);
  for (const { path } of examined.orphans) aside.set(path, moveAside(archive, base.generation, path));
  const losses: Losses = { windows: [], gone: [], rowsLost: new Map() };
  const stage = startStage(archive, base, last);
  const manifest = examined.broken.length === 0 ? base : await mendBroken(archive, stage, examined, losses, options);
  return {
    generation: manifest.generation,
    ...totals(manifest),
    mended: mendedFiles(examined, aside, base, stage, losses),
    state: found.state,
    lost: losses.windows,
    gone: losses.gone,
    written: [...stage.files.values()].map(({ file }) => file),
  };
}

/** What lies behind a link to a disk that is not there now is not lost: to mend it would be to give it up. */
function requireFolders({ disk, layout }: Archive, findings: readonly Finding[]): void {
  const missing = findings.filter(({ what }) => what === 'missing');
  for (const folder of new Set(missing.flatMap(({ path }) => [dirname(path), dirname(dirname(path))]))) {
    const at = join(layout.root, folder);
    if (!disk.isLink(at) || disk.size(at) !== null) continue;
    throw new DamageError(
      `${at} is a link to a place that is not there. Put that place back (is its disk mounted?), and run again; or remove the link, to give up what was in it.`,
    );
  }
}

const totals = (manifest: Manifest): { files: number; bytes: number } => {
  const files = allFiles(manifest);
  return { files: files.length, bytes: totalsOf(files).bytes };
};

/** Sets a damaged file aside, where there is one. */
function keep(archive: Archive, base: Manifest, path: string, aside: Map<string, string>): void {
  const at = join(archive.layout.root, path);
  if (archive.disk.stamp(at) === null) return;
  const aFile = archive.disk.isFile(at);
  aside.set(path, (aFile ? setAside : moveAside)(archive, base.generation, path));
}

/**
 * Puts back what can be had to the byte, the texts at the root with it: the manifest says the same but for the commit's ID.
 * @returns the last commit then
 */
function putBack(archive: Archive, base: Manifest, builtOn: CommitState, { whole, texts }: Examined): CommitState {
  if (whole.length + texts.length === 0) return builtOn;
  const stage = startStage(archive, base, builtOn);
  for (const { finding, bytes } of whole) stagePrivate(archive, stage, finding.path, bytes());
  const { generation } = base;
  const { commitId, moves } = stage;
  const manifest = { ...base, commit_id: commitId };
  commitIntent(archive, builtOn, { generation, commitId, manifest: manifestText(manifest), moves }, () => {}, manifest);
  return { generation, commitId };
}

function mendedFiles(
  { whole, broken, orphans, texts }: Examined,
  aside: ReadonlyMap<string, string>,
  base: Manifest,
  stage: Stage,
  losses: Losses,
): MendedFile[] {
  const rows = new Map(allFiles(base).map((file) => [file.path, file.rows]));
  const line = ({ path, what }: Finding, outcome: Outcome, rowsLost: number | null): MendedFile => ({
    path,
    what,
    outcome,
    setAside: aside.get(path) ?? null,
    rows: rows.get(path) ?? null,
    rowsLost,
  });
  return [
    ...whole.map(({ finding }) => line(finding, 'put back', 0)),
    ...broken.map(({ finding, dataset }) => {
      const madeAnew = dataset === 'symbols' || dataset === 'coverage' || dataset.startsWith('candles');
      const outcome = stage.gone.has(finding.path) ? 'removed' : madeAnew ? 'made anew' : 'kept in part';
      return line(finding, outcome, losses.rowsLost.get(finding.path) ?? 0);
    }),
    ...orphans.map((finding) => line(finding, 'set aside', null)),
    ...texts.map((finding) => line(finding, 'put back', null)),
  ];
}
