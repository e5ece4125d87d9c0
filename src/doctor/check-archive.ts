import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { findOtherOwner } from '../archive/disk/owner.ts';
import { createLayout } from '../archive/format/layout.ts';

import {
  createEmptyManifest,
  formatOwner,
  listManifestFiles,
  readOwner,
  sumFileSizes,
} from '../archive/format/manifest.ts';
import { type ArchiveInspection, checkFileSample, type FileSample, inspectArchive } from '../archive/inspect.ts';
import { inspectDatabase, type StateInspection, toStateFilePath, tryStateWrite } from '../archive/journal/state.ts';
import { type ArchiveStatus, readStatusOf } from '../archive/read/archive-status.ts';
import { freeBytesMin, judge } from '../archive/read/judge.ts';
import { catchOddslakeError, exitCodes, OddslakeError } from '../base/errors.ts';
import { formatBytes, formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import type { Context } from '../context/context.ts';
import { type Finding, formatSome, ok, problem, warning } from './finding.ts';

export interface ArchiveFacts extends ArchiveInspection {
  readonly root: string;
  /** Whether the output is set explicitly, so that a run may create an archive there. */
  readonly isOutputNamed: boolean;
  /** The upstream in the settings; null if none is set. */
  readonly upstream: string | null;
  /** The names of the sources in the settings; absent or empty if there is one service. */
  readonly sources?: readonly string[];
  /** Why a run could not write to the state; null if it can, or this user may not try. */
  readonly writeFault: OddslakeError | null;
  /** Checked published files. */
  readonly files: FileSample;
  /** What the judge of the archive needs; null if manifest or state cannot be read. */
  readonly status: ArchiveStatus | null;
  /** Number of files in .oddslake/damaged. */
  readonly damagedFiles: number;
  /** Size of .oddslake/quarantine. */
  readonly quarantineBytes: number;
}

const repairText = 'To repair it: oddslake verify --repair';

/** The value that was read, or null. */
export const valueOrNull = <T extends object>(found: T | OddslakeError | null): T | null =>
  found instanceof OddslakeError ? null : found;

export function judgeArchive(facts: ArchiveFacts, nowMs: number, lagMsMax: number): Finding[] {
  if (facts.kind !== 'archive') return [judgeNonArchive(facts)];
  return [judgeManifest(facts), judgeState(facts), ...judgePublished(facts, nowMs, lagMsMax), judgeQuarantine(facts)];
}

function judgeNonArchive({ root, kind, isOutputNamed }: ArchiveFacts): Finding {
  if (kind === 'other files') {
    const found = `${root} contains other files and is not an archive`;
    return problem('archive', exitCodes.usage, found, 'Use an empty or new folder.');
  }
  if (isOutputNamed) return ok('archive', `none yet at ${root}: the first run creates it`);
  return problem(
    'archive',
    exitCodes.usage,
    `none at the default path ${root}`,
    'Set its folder with --output or ODDSLAKE_OUTPUT, or create an archive with oddslake init.',
  );
}

function judgeManifest({ root, manifest: found, upstream, sources = [], state }: ArchiveFacts): Finding {
  if (found instanceof OddslakeError) {
    const isDamaged = found.exitCode === exitCodes.damaged;
    const action = isDamaged ? repairText : 'Use the version of oddslake that wrote it.';
    return problem('archive', found.exitCode, found.message, action);
  }
  if (found === null) {
    const { upstream: owner = 'not set yet', sources: owners = [] } = valueOrNull(state) ?? {};
    return ok('archive', `${root}, ${formatOwner({ upstream: owner, sources: owners })}, nothing published yet`);
  }
  const { manifest } = found;
  // Before the first publish the upstream may still be changed.
  const owner = readOwner(manifest);
  const missing = owner.sources.filter(({ name }) => !sources.includes(name));
  if (sources.length > 0 ? owner.sources.length === 0 || missing.length > 0 : upstream !== null && missing.length > 0)
    return problem(
      'archive',
      exitCodes.usage,
      `${root} is an archive of the ${formatOwner(owner)}, and the settings have ${sources.length === 0 ? `the upstream ${upstream}` : `the sources ${sources.join(', ')}`}`,
      'Use another output folder, or set every source of the archive in the config.',
    );
  if (upstream !== null && owner.sources.length === 0 && manifest.upstream !== upstream)
    return problem(
      'archive',
      exitCodes.usage,
      `${root} is an archive of the upstream ${manifest.upstream}, not of ${upstream}`,
      'Use another output folder, or set source.name if both are the same service.',
    );
  const { rows } = sumFileSizes(manifest.datasets.ticks.files);
  const { bytes } = sumFileSizes(listManifestFiles(manifest));
  const sizes = `${formatCount(rows, 'tick')}, ${formatBytes(bytes)}`;
  return ok('archive', `${root}, ${formatOwner(owner)}, generation ${manifest.generation}: ${sizes}`);
}

/** Whether manifest.json is not that of the last publish. Until a publish is finished, it belongs to the previous generation. */
const isForeign = (
  manifest: { readonly sha256: string } | null,
  { hasOpenIntent, manifestSha256 }: Pick<StateInspection, 'hasOpenIntent' | 'manifestSha256'>,
): boolean => !hasOpenIntent && manifestSha256 !== null && manifest?.sha256 !== manifestSha256;

function judgeState({ state, writeFault, manifest: published }: ArchiveFacts): Finding {
  if (state === null)
    return warning(
      'state',
      'missing: the next command rebuilds it from the published files',
      'No action is needed. Ticks that were journaled and not published are fetched again.',
    );
  if (state instanceof OddslakeError)
    return problem('state', state.exitCode, state.message, 'See docs/RELIABILITY.md.');
  const { hasOpenIntent, generation } = state;
  if (hasOpenIntent) return ok('state', `generation ${generation}, publish in progress`);
  const manifest = valueOrNull(published);
  if (isForeign(manifest, state))
    return problem(
      'state',
      exitCodes.damaged,
      manifest === null
        ? 'manifest.json is missing or damaged, although the state records a publish'
        : 'manifest.json differs from that of the last publish',
      'To restore it: oddslake verify --repair. If the whole archive was restored from a backup, move .oddslake away instead.',
    );
  if (writeFault !== null)
    return problem('state', writeFault.exitCode, writeFault.message, 'Check its disk and its users: oddslake status');
  return ok('state', 'matches the published files, and can be written');
}

/** Checks the published files, and adds what the judge of the archive finds. */
function judgePublished({ files, status }: ArchiveFacts, nowMs: number, lagMsMax: number): Finding[] {
  if (status === null)
    return files.wrong.length === 0
      ? []
      : [problem('published', exitCodes.damaged, `${formatSome(files.wrong)} damaged`, repairText)];
  const { damaged, verifiedThrough, disk } = status;
  const checked = `${formatCount(files.listed, 'file')} have the right size, and ${formatNumber(files.hashed)} that were hashed now match; ${formatVerified(verifiedThrough)}`;
  const { verdict, findings } = judge({ nowMs, lagMsMax, status });
  return [
    ...(damaged.length === 0 && files.listed > 0 ? [ok('published', checked)] : []),
    // The verdict on an empty archive is its finding.
    ...(verdict.state === 'ok' && verdict.command === null ? [ok('verdict', verdict.text)] : []),
    // What the disk has free is a check of its own.
    ...findings
      .filter(({ kind }) => kind !== 'disk full' || disk === null || disk.freeBytes >= freeBytesMin)
      .map(({ kind, severity, message, advice, command }): Finding => {
        const found = ok('finding', [message, ...(advice === undefined ? [] : [advice])].join('; '));
        const action = command === null ? null : `${severity === 'info' ? 'more' : 'next'}: ${command}`;
        if (severity !== 'action_required')
          return { ...found, action, severity: severity === 'info' ? 'ok' : severity };
        return { ...found, action, severity, exit_code: kind === 'damage' ? exitCodes.damaged : exitCodes.incomplete };
      }),
  ];
}

/** How much of the published files is verified since when. Each night hashes a share of them. */
const formatVerified = (verifiedThrough: number | null): string =>
  verifiedThrough === null
    ? 'some bytes were never verified: oddslake verify reads all'
    : `every byte verified since ${formatIsoUtc(verifiedThrough)}`;

function judgeQuarantine({ damagedFiles, quarantineBytes }: ArchiveFacts): Finding {
  if (damagedFiles > 0)
    return warning(
      'quarantined',
      `${formatCount(damagedFiles, 'damaged file')} from a repair in .oddslake/damaged`,
      'Their intact rows are published. Remove the files when you no longer need them.',
    );
  const size = formatBytes(quarantineBytes);
  return ok('quarantined', quarantineBytes === 0 ? 'nothing' : `${size} of unusable input in .oddslake/quarantine`);
}

/** Maximum number of inspections if publishes change the archive between reading the manifest and its files. */
const inspectionAttemptsMax = 3;

export function probeArchive({ settings, disk, random, clock }: Context): ArchiveFacts {
  const { archive, source, upstream } = settings;
  const root = archive.output;
  let inspection = inspectArchive(root, disk);
  let files = checkFiles(inspection);
  for (let attempts = 1; attempts < inspectionAttemptsMax && files.wrong.length > 0; attempts++) {
    const before = valueOrNull(inspection.manifest)?.sha256;
    inspection = inspectArchive(root, disk);
    if (valueOrNull(inspection.manifest)?.sha256 === before) break;
    files = checkFiles(inspection);
  }
  const { privateFolder } = createLayout(root);
  const mayWrite = valueOrNull(inspection.state) !== null && findOtherOwner(root) === null;
  return {
    ...inspection,
    root,
    writeFault: mayWrite ? catchOddslakeError(() => tryStateWrite(privateFolder)) : null,
    status: readStatusAtRest(),
    isOutputNamed: archive.outputNamed,
    upstream: source.name ?? (upstream.baseUrl === null ? null : new URL(upstream.baseUrl).origin),
    sources: settings.sources.map(({ name }) => name),
    files,
    damagedFiles: listFileSizes(join(privateFolder, 'damaged')).length,
    quarantineBytes: listFileSizes(join(privateFolder, 'quarantine')).reduce((sum, bytes) => sum + bytes, 0),
  };

  /** The status with the damage that was found now, from a state that is not opened for writing. */
  function readStatusAtRest(): ArchiveStatus | null {
    const state = valueOrNull(inspection.state);
    if (state === null || isForeign(valueOrNull(inspection.manifest), state)) return null;
    const isUnpublished = inspection.manifest === null && state.manifestSha256 === null;
    const manifest = isUnpublished ? createEmptyManifest('', '') : valueOrNull(inspection.manifest)?.manifest;
    if (manifest === undefined) return null;
    const nowMs = clock.nowMs();
    const known = new Set(state.damaged.map(({ path }) => path));
    const found = files.wrong
      .filter((path) => !known.has(path))
      .map((path) => ({ path, kind: 'checksum mismatch' as const, foundAt: nowMs }));
    return inspectDatabase(toStateFilePath(privateFolder), (db) =>
      readStatusOf(db, manifest, nowMs, root, [...state.damaged, ...found]),
    );
  }

  /** During a publish, its files may not be in place yet, so only the manifest is read. */
  function checkFiles({ manifest: found, state }: ArchiveInspection): FileSample {
    const manifest = valueOrNull(found)?.manifest;
    if (manifest === undefined) return { listed: 0, hashed: 0, wrong: [] };
    return valueOrNull(state)?.hasOpenIntent === true
      ? { listed: listManifestFiles(manifest).length, hashed: 0, wrong: [] }
      : checkFileSample(root, manifest, disk, random);
  }
}

/** Sizes of the files below a folder; none if it is missing or unreadable. */
function listFileSizes(folder: string): number[] {
  try {
    return readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0);
  } catch {
    return [];
  }
}
