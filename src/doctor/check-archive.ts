import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createLayout } from '../archive/format/layout.ts';
import { formatOwner, listManifestFiles, type Manifest, readOwner, sumFileSizes } from '../archive/format/manifest.ts';
import { type ArchiveInspection, checkFileSample, type FileSample, inspectArchive } from '../archive/inspect.ts';
import { computeVerifiedThrough } from '../archive/journal/published-files.ts';
import type { StateInspection } from '../archive/journal/state.ts';
import { computeKnownDamage } from '../archive/known-state.ts';
import { exitCodes, formatExitCode, OddslakeError } from '../base/errors.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import type { Context } from '../context/context.ts';
import {
  type CompletenessCounts,
  formatCompleteness,
  formatCoveredSymbols,
  updatePublishedCompleteness,
  updatePublishedDays,
} from '../contract/completeness-counts.ts';
import { listOpenDays, type OpenDay, selectShownDays, suggestOpenDaysAction } from '../contract/day-reasons.ts';
import { type Finding, formatSome, ok, problem, warning } from './finding.ts';

export interface ArchiveFacts extends ArchiveInspection {
  readonly root: string;
  /** Whether the output is set explicitly, so that a run may create an archive there. */
  readonly isOutputNamed: boolean;
  /** The upstream in the settings; null if none is set. */
  readonly upstream: string | null;
  /** The names of the sources in the settings; absent or empty if there is one service. */
  readonly sources?: readonly string[];
  /** Checked published files. */
  readonly files: FileSample;
  /** Number of files in .oddslake/damaged. */
  readonly damagedFiles: number;
  /** Size of .oddslake/quarantine. */
  readonly quarantineBytes: number;
}

/** The value that was read, or null. */
export const valueOrNull = <T extends object>(found: T | OddslakeError | null): T | null =>
  found instanceof OddslakeError ? null : found;

export function judgeArchive(facts: ArchiveFacts, nowMs: number, lagMsMax: number): Finding[] {
  if (facts.kind !== 'archive') return [judgeNonArchive(facts)];
  const manifest = valueOrNull(facts.manifest)?.manifest;
  const state = valueOrNull(facts.state);
  return [
    judgeManifest(facts),
    judgeState(facts),
    ...(state === null ? [] : [judgeJournal(facts, state), judgeRun(state, nowMs)]),
    ...(manifest === undefined ? [] : judgePublished(facts, manifest, nowMs, lagMsMax)),
    judgeQuarantine(facts, manifest?.lost?.length ?? 0),
  ];
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
    const action = isDamaged ? 'To repair it: oddslake verify --repair' : 'Use the version of oddslake that wrote it.';
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

function judgeState({ state, manifest: published }: ArchiveFacts): Finding {
  if (state === null)
    return warning(
      'state',
      'missing: the next command rebuilds it from the published files',
      'No action is needed. Ticks that were journaled and not published are fetched again.',
    );
  if (state instanceof OddslakeError)
    return problem('state', state.exitCode, state.message, 'See docs/RELIABILITY.md.');
  const { hasOpenIntent, generation, manifestSha256 } = state;
  // Until the publish is finished, manifest.json belongs to the previous generation.
  if (hasOpenIntent) return ok('state', `generation ${generation}, publish in progress`);
  const manifest = valueOrNull(published);
  if (manifestSha256 !== null && manifest?.sha256 !== manifestSha256)
    return problem(
      'state',
      exitCodes.damaged,
      manifest === null
        ? 'manifest.json is missing or damaged, although the state records a publish'
        : 'manifest.json differs from that of the last publish',
      'To restore it: oddslake verify --repair. If the whole archive was restored from a backup, move .oddslake away instead.',
    );
  return ok('state', 'matches the published files');
}

function judgeJournal({ isBeingWritten }: ArchiveFacts, { hasOpenIntent, journaledTicks }: StateInspection): Finding {
  const ticks = formatCount(journaledTicks, 'tick');
  if (isBeingWritten) return ok('journal', `${ticks}; a run is publishing`);
  if (hasOpenIntent) {
    const found = 'a publish was interrupted after its commit point';
    return warning('journal', found, 'Nothing is lost. To finish it: oddslake publish');
  }
  const action = 'The next run publishes them. To publish them now: oddslake publish';
  return journaledTicks === 0 ? ok('journal', 'empty') : warning('journal', `${ticks} not yet published`, action);
}

function judgeRun({ lastRun }: StateInspection, nowMs: number): Finding {
  if (lastRun === null) return ok('last run', 'none yet');
  const { job, startedAt, finishedAt, exitCode, isOver } = lastRun;
  const started = `${job}, ${formatDuration(nowMs - startedAt)} ago`;
  if (finishedAt === null)
    return isOver
      ? warning('last run', `${started}, was interrupted`, 'Accepted ticks are kept; the next run resumes from there.')
      : ok('last run', `${started}, is running`);
  if (exitCode === exitCodes.done)
    return ok('last run', `${started}, succeeded after ${formatDuration(finishedAt - startedAt)}`);
  return warning(
    'last run',
    `${started}, ended with ${formatExitCode(exitCode!)}`,
    exitCode === exitCodes.incomplete
      ? 'The next run fetches the missing windows. To list them: oddslake gaps'
      : 'See the end of its log, fix the cause, and run it again.',
  );
}

/** Checks the published files: damage, lag and completeness. */
function judgePublished({ files, state }: ArchiveFacts, manifest: Manifest, nowMs: number, lagMsMax: number) {
  const known = valueOrNull(state)?.damaged ?? [];
  const isKnown = new Set(known.map(({ path }) => path));
  const found = files.wrong.filter((path) => !isKnown.has(path));
  const damage = [...known, ...found.map((path) => ({ path, kind: 'checksum mismatch' as const }))];
  const knownDamage = computeKnownDamage(damage, manifest);
  const completeness = updatePublishedCompleteness(manifest, knownDamage, nowMs);
  const openDays = listOpenDays(Object.entries(updatePublishedDays(manifest, knownDamage)), nowMs);
  const { hashedAt } = valueOrNull(state) ?? {};
  const verifiedThrough =
    hashedAt === undefined
      ? (manifest.verified_through ?? null)
      : computeVerifiedThrough(listManifestFiles(manifest), hashedAt);
  const published =
    damage.length === 0
      ? ok(
          'published',
          `${formatCount(files.listed, 'file')} have the right size, and ${formatNumber(files.hashed)} that were hashed now match; ${formatVerified(verifiedThrough)}`,
        )
      : problem(
          'published',
          exitCodes.damaged,
          `${formatSome(damage.map(({ path }) => path))} damaged`,
          'To check every file: oddslake verify. To repair: oddslake verify --repair',
        );
  if (manifest.generation === 0) return [published, ok('covered', 'nothing yet')];
  return [
    published,
    judgeLag((valueOrNull(state)?.progress ?? manifest).reached, completeness, nowMs, lagMsMax),
    ...judgeCompleteness(completeness, openDays),
  ];
}

function judgeLag(
  reached: number | null,
  { live, damaged }: CompletenessCounts,
  nowMs: number,
  lagMsMax: number,
): Finding {
  // The manifest may have been edited manually.
  if (typeof reached !== 'number') {
    const found = `nothing yet for ${formatCount(live, 'live symbol')}`;
    const action = 'Run oddslake nightly, and check why requests fail.';
    return live === 0 ? ok('covered', 'no live symbols') : warning('covered', found, action);
  }
  const lagMs = nowMs - reached;
  const found = `${formatCoveredSymbols(damaged.files)} up to ${formatIsoUtc(reached)}, ${formatDuration(lagMs)} ago`;
  const action = 'Run oddslake nightly, and check that a scheduler runs it every night.';
  return lagMs <= lagMsMax ? ok('covered', found) : warning('covered', found, action);
}

/** How much of the published files is verified since when. Each night hashes a share of them. */
const formatVerified = (verifiedThrough: number | null): string =>
  verifiedThrough === null
    ? 'some bytes were never verified: oddslake verify reads all'
    : `every byte verified since ${formatIsoUtc(verifiedThrough)}`;

/** Reports the completeness. Damage is reported by `judgePublished`. */
function judgeCompleteness(completeness: CompletenessCounts, openDays: readonly OpenDay[]): Finding[] {
  const { lines, more } = selectShownDays(openDays);
  const found = [
    formatCompleteness(completeness),
    ...lines,
    ...(more > 0 ? [`${formatCount(more, 'more day')} not complete`] : []),
  ].join('. ');
  const { state, suspended } = completeness;
  const judged =
    state === 'incomplete' || state === 'damaged'
      ? warning(
          'completeness',
          found,
          state === 'damaged'
            ? 'Repair the damaged files first: oddslake verify --repair'
            : 'The next run fetches the missing windows. To list them: oddslake gaps. To accept them: oddslake gaps accept',
        )
      : { ...ok('completeness', found), action: suggestOpenDaysAction(openDays) };
  if (suspended === 0) return [judged];
  const unknown = `${formatCount(suspended, 'active symbol')}, which the service reports as unknown`;
  const action = 'To list them: oddslake gaps. To request them now: oddslake symbols retry';
  return [judged, warning('suspended', unknown, action)];
}

function judgeQuarantine({ damagedFiles, quarantineBytes }: ArchiveFacts, lostWindows: number): Finding {
  if (lostWindows > 0)
    return warning(
      'quarantined',
      `${formatCount(lostWindows, 'window')} with lost ticks`,
      'To list them: oddslake gaps. To restore them from another oddslake: oddslake verify --repair --from-url URL',
    );
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

export function probeArchive({ settings, disk, random }: Context): ArchiveFacts {
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
  return {
    ...inspection,
    root,
    isOutputNamed: archive.outputNamed,
    upstream: source.name ?? (upstream.baseUrl === null ? null : new URL(upstream.baseUrl).origin),
    sources: settings.sources.map(({ name }) => name),
    files,
    damagedFiles: listFileSizes(join(privateFolder, 'damaged')).length,
    quarantineBytes: listFileSizes(join(privateFolder, 'quarantine')).reduce((sum, bytes) => sum + bytes, 0),
  };

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
