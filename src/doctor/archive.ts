import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { damagedFilesFolder, quarantineFolder } from '../archive/format/layout.ts';
import { formatVersion, listManifestFiles, type Manifest, sumFileSizes } from '../archive/format/manifest.ts';
import { type ArchiveInspection, checkFileSample, type FileSample, inspectArchive } from '../archive/inspect.ts';
import { schemaVersion } from '../archive/journal/schema.ts';
import { computeKnownDamage } from '../archive/known-state.ts';
import { type ExitCode, exitCodes, OddslakeError } from '../base/errors.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import type { Context } from '../context/context.ts';
import {
  type CompletenessCounts,
  formatCompleteness,
  updatePublishedCompleteness,
} from '../contract/completeness-counts.ts';
import { createFindings, type Finding } from './finding.ts';

export interface ArchiveFacts {
  readonly root: string;
  readonly kind: 'archive' | 'none' | 'other files';
  /** Whether the output is set explicitly, so that a run may create an archive there. */
  readonly isOutputNamed: boolean;
  /** The upstream in the settings; null if none is set. */
  readonly upstream: string | null;
  /** Contents of manifest.json; null before the first publish. */
  readonly manifest: ManifestFacts | ReadFault | null;
  /** Null if it is missing. */
  readonly state: StateFacts | ReadFault | null;
  readonly currentFormat: number;
  readonly currentSchema: number;
  /** Whether another process holds the write lock. */
  readonly isBeingWritten: boolean;
  /** Checked published files; `wrong`: paths that differ from the manifest. */
  readonly files: { readonly listed: number; readonly hashed: number; readonly wrong: readonly string[] };
  /** Number of files in .oddslake/damaged. */
  readonly damagedFiles: number;
  readonly quarantine: { readonly files: number; readonly bytes: number };
}

/** Something could not be read: the error message and exit code that a run would have. */
interface ReadFault {
  readonly fault: string;
  readonly exitCode: ExitCode;
}

export interface ManifestFacts {
  readonly format: number;
  readonly generation: number;
  readonly upstream: string;
  readonly ticks: number;
  readonly bytes: number;
  /** The watermark including inferred windows and not stopped by lost windows, epoch ms; null if no symbol is live. */
  readonly reached: number | null;
  readonly lostWindows: number;
  /** Completeness of the archive, including known and newly found damage. */
  readonly completeness: CompletenessCounts;
  readonly sha256: string;
}

export interface StateFacts {
  readonly schema: number;
  readonly generation: number;
  readonly upstream: string;
  /** sha256 of the manifest of the last publish; null before the first. */
  readonly manifestSha256: string | null;
  /** Whether a publish is past its commit point and not finished. */
  readonly hasOpenIntent: boolean;
  readonly journaledTicks: number;
  /** Files that an earlier run found damaged. */
  readonly damaged: readonly { readonly path: string }[];
  readonly lastRun: LastRunFacts | null;
}

interface LastRunFacts {
  readonly job: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly exitCode: number | null;
  /** Whether its process has ended. */
  readonly isOver: boolean;
}

const isFault = (facts: object | null): facts is ReadFault => facts !== null && 'fault' in facts;

export function judgeArchive(facts: ArchiveFacts, nowMs: number, lagMsMax: number): Finding[] {
  if (facts.kind !== 'archive') return [judgeNonArchive(facts)];
  const { manifest, state } = facts;
  const readableManifest = isFault(manifest) ? null : manifest;
  const readableState = isFault(state) ? null : state;
  return [
    judgeManifest(facts),
    judgeState(facts, readableManifest),
    ...(readableState === null ? [] : [judgeJournal(facts, readableState), judgeRun(readableState, nowMs)]),
    ...(readableManifest === null
      ? []
      : [
          judgeFiles(facts, readableState),
          judgeLag(readableManifest, nowMs, lagMsMax),
          ...judgeCompleteness(readableManifest),
        ]),
    judgeQuarantine(facts, readableManifest),
  ];
}

function judgeNonArchive({ root, kind, isOutputNamed }: ArchiveFacts): Finding {
  const { ok, problem } = createFindings('archive', 'archive');
  if (kind === 'other files')
    return problem(
      exitCodes.usage,
      `${root} contains other files and is not an archive`,
      'Use an empty or new folder.',
    );
  return isOutputNamed
    ? ok(`none yet at ${root}: the first run creates it`)
    : problem(
        exitCodes.usage,
        `none at the default path ${root}`,
        'Set its folder with --output or ODDSLAKE_OUTPUT, or create an archive with oddslake init.',
      );
}

function judgeManifest({ root, manifest, upstream, state, currentFormat }: ArchiveFacts): Finding {
  const { ok, problem } = createFindings('archive', 'archive');
  if (isFault(manifest)) return problem(manifest.exitCode, manifest.fault, 'To repair it: oddslake verify --repair');
  const owner = manifest?.upstream ?? (isFault(state) ? undefined : state?.upstream);
  // Before the first publish the upstream may still be changed.
  if (manifest !== null && upstream !== null && owner !== upstream)
    return problem(
      exitCodes.usage,
      `${root} is an archive of the upstream ${owner}, not of ${upstream}`,
      'Use another output folder, or set source.name if both are the same service.',
    );
  if (manifest === null) return ok(`${root}, upstream ${owner ?? 'not set yet'}, nothing published yet`);
  const { format, generation, ticks, bytes } = manifest;
  if (format < currentFormat)
    return problem(
      exitCodes.usage,
      `${root} has format ${format}; this version of oddslake writes format ${currentFormat}`,
      'When no older version of oddslake uses it any more, run: oddslake upgrade',
    );
  return ok(
    `${root}, upstream ${owner}, generation ${generation}: ${formatCount(ticks, 'tick')}, ${formatBytes(bytes)}`,
  );
}

function judgeState({ state, currentSchema }: ArchiveFacts, manifest: ManifestFacts | null): Finding {
  const { ok, warning, problem } = createFindings('archive', 'state');
  if (state === null)
    return warning(
      'missing: the next command rebuilds it from the published files',
      'No action is needed. Ticks that were journaled and not published are fetched again.',
    );
  if (isFault(state)) return problem(state.exitCode, state.fault, 'See docs/RELIABILITY.md.');
  const { schema, hasOpenIntent, generation, manifestSha256 } = state;
  if (schema > currentSchema)
    return problem(
      exitCodes.usage,
      `has schema ${schema}; this version of oddslake supports up to ${currentSchema}`,
      'Use the newer version of oddslake that wrote it.',
    );
  // Until the publish is finished, manifest.json is of the previous generation.
  if (hasOpenIntent) return ok(`generation ${generation}, publish in progress`);
  if (manifestSha256 !== null && manifest?.sha256 !== manifestSha256)
    return problem(
      exitCodes.damaged,
      manifest === null
        ? 'manifest.json is missing or damaged, although the state has a publish'
        : 'manifest.json differs from the one of the last publish',
      'To restore it: oddslake verify --repair. If the whole archive was restored from a backup, move .oddslake away instead.',
    );
  return schema < currentSchema
    ? ok(`schema ${schema}: the next command upgrades it to ${currentSchema}`)
    : ok('matches the published files');
}

function judgeJournal({ isBeingWritten }: ArchiveFacts, { hasOpenIntent, journaledTicks }: StateFacts): Finding {
  const { ok, warning } = createFindings('archive', 'journal');
  if (isBeingWritten) return ok(`${formatCount(journaledTicks, 'tick')}; a run is publishing`);
  if (hasOpenIntent)
    return warning(
      'a publish was interrupted after its commit point',
      'Nothing is lost. To finish it: oddslake publish',
    );
  return journaledTicks === 0
    ? ok('empty')
    : warning(
        `${formatCount(journaledTicks, 'tick')} not yet published`,
        'The next run publishes them. To publish them now: oddslake publish',
      );
}

const exitCodeMeanings: Readonly<Record<number, string>> = {
  1: 'an unexpected error or a full disk',
  2: 'invalid arguments or settings',
  3: 'the API key was rejected',
  4: 'incomplete',
  5: 'another run was publishing',
  6: 'the archive was damaged',
  7: 'the upstream could not be reached',
  130: 'stopped by SIGINT',
  143: 'stopped by SIGTERM',
};

function judgeRun({ lastRun }: StateFacts, nowMs: number): Finding {
  const { ok, warning } = createFindings('archive', 'last run');
  if (lastRun === null) return ok('none yet');
  const { job, startedAt, finishedAt, exitCode, isOver } = lastRun;
  const started = `${job}, ${formatDuration(Math.max(0, nowMs - startedAt))} ago`;
  if (finishedAt === null)
    return isOver
      ? warning(`${started}, was interrupted`, 'Accepted ticks are kept; the next run resumes from there.')
      : ok(`${started}, is running`);
  if (exitCode === exitCodes.done) return ok(`${started}, succeeded after ${formatDuration(finishedAt - startedAt)}`);
  const meaning = exitCodeMeanings[exitCode ?? -1];
  return warning(
    `${started}, ended with exit code ${exitCode}${meaning === undefined ? '' : `: ${meaning}`}`,
    exitCode === exitCodes.incomplete
      ? 'The next run fetches the missing windows. To list them: oddslake gaps'
      : 'See the end of its log, fix the cause, and run it again.',
  );
}

function judgeFiles({ files }: ArchiveFacts, state: StateFacts | null): Finding {
  const { ok, problem } = createFindings('archive', 'published');
  const { listed, hashed } = files;
  const wrong = [...new Set([...files.wrong, ...(state?.damaged ?? []).map(({ path }) => path)])];
  if (wrong.length === 0)
    return ok(
      `${formatCount(listed, 'file')} have the right size; ${formatNumber(hashed)} of them were hashed and match`,
    );
  return problem(
    exitCodes.damaged,
    `${wrong.slice(0, 3).join(', ')}${wrong.length > 3 ? ` and ${wrong.length - 3} more` : ''} damaged`,
    'To check every file: oddslake verify. To repair: oddslake verify --repair',
  );
}

function judgeLag({ reached, generation, completeness }: ManifestFacts, nowMs: number, lagMsMax: number): Finding {
  const { ok, warning } = createFindings('archive', 'covered');
  if (generation === 0) return ok('nothing yet');
  if (reached === null)
    return completeness.live === 0
      ? ok('no live symbols')
      : warning(
          `nothing yet for ${formatCount(completeness.live, 'live symbol')}`,
          'Run oddslake nightly, and check why requests fail.',
        );
  const lagMs = Math.max(0, nowMs - reached);
  const found = `all live symbols up to ${formatIsoUtc(reached)}, ${formatDuration(lagMs)} ago`;
  return lagMs <= lagMsMax
    ? ok(found)
    : warning(found, 'Run oddslake nightly, and check that a scheduler runs it every night.');
}

/** Reports the completeness. Damage is reported by `judgeFiles`. */
function judgeCompleteness({ generation, completeness }: ManifestFacts): Finding[] {
  const { ok, warning } = createFindings('archive', 'completeness');
  if (generation === 0) return [];
  const text = formatCompleteness(completeness);
  const { state, suspended } = completeness;
  const judged =
    state === 'incomplete' || state === 'damaged'
      ? warning(
          text,
          'The next run fetches the missing windows. To list them: oddslake gaps. To accept them: oddslake gaps accept. Summaries report truncated market lists.',
        )
      : ok(text);
  if (suspended === 0) return [judged];
  const known = createFindings('archive', 'suspended').warning(
    `${formatCount(suspended, 'active symbol')}, which the service reports as unknown`,
    'To list them: oddslake gaps. To request them now: oddslake symbols retry',
  );
  return [judged, known];
}

function judgeQuarantine({ damagedFiles, quarantine }: ArchiveFacts, manifest: ManifestFacts | null): Finding {
  const { ok, warning } = createFindings('archive', 'quarantined');
  const lost = manifest?.lostWindows ?? 0;
  const found =
    quarantine.files === 0 ? 'nothing' : `${formatBytes(quarantine.bytes)} of unusable input in .oddslake/quarantine`;
  if (lost > 0)
    return warning(
      `${formatCount(lost, 'window')} with lost ticks`,
      'To list them: oddslake gaps. To restore them from another oddslake: oddslake verify --repair --from-url URL',
    );
  if (damagedFiles > 0)
    return warning(
      `${formatCount(damagedFiles, 'damaged file')} of a repair in .oddslake/damaged`,
      'Their intact rows are published. Remove the files when you no longer need them.',
    );
  return ok(found);
}

/** The inspected archive, and the facts to judge. */
export interface ArchiveProbe {
  readonly inspection: ArchiveInspection;
  readonly manifest: Manifest | null;
  readonly facts: ArchiveFacts;
}

/** Maximum inspections while publishes change the archive between reading the manifest and its files. */
const inspectionAttemptsMax = 3;

export function probeArchive({ settings, disk, random, clock }: Context): ArchiveProbe {
  const { archive, source, upstream } = settings;
  const root = archive.output;
  let inspection = inspectArchive(root, disk);
  let files = checkFiles(root, inspection);
  for (let attempts = 1; attempts < inspectionAttemptsMax && files.wrong.length > 0; attempts++) {
    const before = inspection;
    inspection = inspectArchive(root, disk);
    if (getManifestSha256(inspection) === getManifestSha256(before)) break;
    files = checkFiles(root, inspection);
  }
  const manifest = getManifest(inspection);
  const origin = upstream.baseUrl === null ? null : new URL(upstream.baseUrl).origin;
  const facts: ArchiveFacts = {
    root,
    kind: inspection.kind,
    isOutputNamed: archive.outputNamed,
    upstream: source.name ?? origin,
    manifest: toManifestFacts(inspection, files.wrong, clock.nowMs()),
    state: toStateFacts(inspection),
    currentFormat: formatVersion,
    currentSchema: schemaVersion,
    isBeingWritten: inspection.isBeingWritten,
    files,
    damagedFiles: measureFolder(join(root, damagedFilesFolder)).files,
    quarantine: measureFolder(join(root, quarantineFolder)),
  };
  return { inspection, manifest, facts };

  /** During a publish, its files may not be in place yet, so only the manifest is read. */
  function checkFiles(at: string, found: ArchiveInspection): FileSample {
    const listed = getManifest(found);
    if (listed === null) return { listed: 0, hashed: 0, wrong: [] };
    const isPublishing = found.state !== null && !(found.state instanceof OddslakeError) && found.state.hasOpenIntent;
    return isPublishing
      ? { listed: listManifestFiles(listed).length, hashed: 0, wrong: [] }
      : checkFileSample(at, listed, disk, random);
  }
}

const getManifest = ({ manifest }: ArchiveInspection): Manifest | null =>
  manifest === null || manifest instanceof OddslakeError ? null : manifest.manifest;

const getManifestSha256 = ({ manifest }: ArchiveInspection): string | null =>
  manifest === null || manifest instanceof OddslakeError ? null : manifest.sha256;

const toReadFault = ({ message, exitCode }: OddslakeError): ReadFault => ({ fault: message, exitCode });

function toManifestFacts(
  { manifest: found, state }: ArchiveInspection,
  wrong: readonly string[],
  nowMs: number,
): ManifestFacts | ReadFault | null {
  if (found === null) return null;
  if (found instanceof OddslakeError) return toReadFault(found);
  const { manifest, sha256 } = found;
  const known = state === null || state instanceof OddslakeError ? [] : state.damaged;
  const isNew = wrong
    .filter((path) => !known.some((one) => one.path === path))
    .map((path) => ({ path, kind: 'checksum mismatch' as const }));
  const { format_version: format, generation, upstream, reached, lost = [] } = manifest;
  return {
    format,
    generation,
    upstream,
    sha256,
    lostWindows: lost.length,
    completeness: updatePublishedCompleteness(
      manifest,
      computeKnownDamage([...known, ...isNew], manifest.parts),
      nowMs,
    ),
    // A manifest may have been edited by hand.
    reached: typeof reached === 'number' ? reached : null,
    ticks: sumFileSizes(manifest.datasets.ticks.files).rows,
    bytes: sumFileSizes(listManifestFiles(manifest)).bytes,
  };
}

function toStateFacts({ state }: ArchiveInspection): StateFacts | ReadFault | null {
  if (state === null) return null;
  if (state instanceof OddslakeError) return toReadFault(state);
  const {
    schema,
    generation,
    upstream,
    manifestSha256,
    hasOpenIntent: openIntent,
    journaledTicks,
    damaged,
    lastRun,
  } = state;
  return { schema, generation, upstream, manifestSha256, hasOpenIntent: openIntent, journaledTicks, damaged, lastRun };
}

/** Number and bytes of the files below a folder; 0 if it is missing or unreadable. */
function measureFolder(folder: string): { files: number; bytes: number } {
  try {
    return readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0)
      .reduce((sum, bytes) => ({ files: sum.files + 1, bytes: sum.bytes + bytes }), { files: 0, bytes: 0 });
  } catch {
    return { files: 0, bytes: 0 };
  }
}
