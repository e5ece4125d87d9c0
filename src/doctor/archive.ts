import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createLayout } from '../archive/format/layout.ts';
import { formatVersion, listManifestFiles, type Manifest, sumFileTotals } from '../archive/format/manifest.ts';
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
  /** What the folder is; `named`: somebody named the output, so that a run may start an archive there. */
  readonly kind: 'archive' | 'none' | 'other files';
  readonly isOutputNamed: boolean;
  /** The upstream that the settings name; null where they name none. */
  readonly upstream: string | null;
  /** What manifest.json says; null before the first publish. */
  readonly manifest: ManifestFacts | ReadFault | null;
  /** Null where it is lost. */
  readonly state: StateFacts | ReadFault | null;
  readonly currentFormat: number;
  readonly currentSchema: number;
  /** Whether another process has the write lock at this moment. */
  readonly isBeingWritten: boolean;
  /** Published files that are not as the manifest has them, of those looked at. */
  readonly files: { readonly listed: number; readonly hashed: number; readonly wrong: readonly string[] };
  /** Files in the folders that hold what was set aside. */
  readonly damagedFiles: number;
  readonly quarantine: { readonly files: number; readonly bytes: number };
}

/** What could not be read, with the sentence and the exit code that a run would end with. */
export interface ReadFault {
  readonly fault: string;
  readonly exitCode: ExitCode;
}

export interface ManifestFacts {
  readonly format: number;
  readonly generation: number;
  readonly upstream: string;
  readonly ticks: number;
  readonly bytes: number;
  /** How far all is covered but for what is lost, epoch ms; null where no symbol lives. */
  readonly reached: number | null;
  readonly lostWindows: number;
  /** How whole the archive is, with the damage that is known or was just found. */
  readonly verdict: CompletenessCounts;
  readonly sha256: string;
}

export interface StateFacts {
  readonly schema: number;
  readonly generation: number;
  readonly upstream: string;
  /** sha256 of the manifest that the last publish wrote; null before the first. */
  readonly manifestSha256: string | null;
  /** A publish past its commit point that is not ended. */
  readonly hasOpenIntent: boolean;
  readonly journaledTicks: number;
  /** Files that an earlier run found not as published. */
  readonly damaged: readonly { readonly path: string }[];
  readonly lastRun: LastRunFacts | null;
}

export interface LastRunFacts {
  readonly job: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly exitCode: number | null;
  /** Whether its process is gone. */
  readonly isOver: boolean;
}

const isFault = (facts: object | null): facts is ReadFault => facts !== null && 'fault' in facts;

export function judgeArchive(facts: ArchiveFacts, nowMs: number, lagMsMax: number): Finding[] {
  if (facts.kind !== 'archive') return [judgeNonArchive(facts)];
  const { manifest, state } = facts;
  const told = isFault(manifest) ? null : manifest;
  const known = isFault(state) ? null : state;
  return [
    judgeManifest(facts),
    judgeState(facts, told),
    ...(known === null ? [] : [judgeJournal(facts, known), judgeRun(known, nowMs)]),
    ...(told === null ? [] : [judgeFiles(facts, known), judgeLag(told, nowMs, lagMsMax), ...judgeCompleteness(told)]),
    judgeQuarantine(facts, told),
  ];
}

function judgeNonArchive({ root, kind, isOutputNamed }: ArchiveFacts): Finding {
  const { ok, problem } = createFindings('archive', 'archive');
  if (kind === 'other files')
    return problem(exitCodes.usage, `${root} holds other files and is no archive`, 'Name an empty or new folder.');
  return isOutputNamed
    ? ok(`none yet at ${root}: the first run starts it`)
    : problem(
        exitCodes.usage,
        `there is none at ${root}, the place where it is by default`,
        'Name its folder with --output or ODDSLAKE_OUTPUT, or start one with oddslake init.',
      );
}

function judgeManifest({ root, manifest, upstream, state, currentFormat }: ArchiveFacts): Finding {
  const { ok, problem } = createFindings('archive', 'archive');
  if (isFault(manifest)) return problem(manifest.exitCode, manifest.fault, 'To mend it: oddslake verify --repair');
  const owner = manifest?.upstream ?? (isFault(state) ? undefined : state?.upstream);
  // Before the first publish another address simply takes its place.
  if (manifest !== null && upstream !== null && owner !== upstream)
    return problem(
      exitCodes.usage,
      `${root} belongs to the upstream ${owner}, not to ${upstream}`,
      'Use another output folder, or set source.name if both are the same service.',
    );
  if (manifest === null) return ok(`${root}, of ${owner ?? 'nobody yet'}, nothing published yet`);
  const { format, generation, ticks, bytes } = manifest;
  if (format < currentFormat)
    return problem(
      exitCodes.usage,
      `${root} has format ${format}, and this oddslake writes format ${currentFormat}`,
      'Once no older oddslake runs against it any more: oddslake upgrade',
    );
  return ok(`${root}, of ${owner}, generation ${generation}: ${formatCount(ticks, 'tick')}, ${formatBytes(bytes)}`);
}

function judgeState({ state, currentSchema }: ArchiveFacts, manifest: ManifestFacts | null): Finding {
  const { ok, warning, problem } = createFindings('archive', 'state');
  if (state === null)
    return warning(
      'lost: the next command fills it again from what is published',
      'Nothing has to be done; what was journaled and not published is asked for again.',
    );
  if (isFault(state)) return problem(state.exitCode, state.fault, 'docs/RELIABILITY.md says what is kept.');
  const { schema, hasOpenIntent, generation, manifestSha256 } = state;
  if (schema > currentSchema)
    return problem(
      exitCodes.usage,
      `of schema ${schema}, and this oddslake knows ${currentSchema}`,
      'A newer oddslake was here: use that one.',
    );
  // What manifest.json says is of the generation before, as long as a publish is being carried out.
  if (hasOpenIntent) return ok(`of generation ${generation}, whose publish is being carried out`);
  if (manifestSha256 !== null && manifest?.sha256 !== manifestSha256)
    return problem(
      exitCodes.damaged,
      manifest === null
        ? 'manifest.json is missing or damaged, though the state knows of a publish'
        : 'manifest.json is not the one that the last publish wrote',
      'Put that one back with oddslake verify --repair; where the whole tree was restored from a backup, move .oddslake away instead.',
    );
  return schema < currentSchema
    ? ok(`of schema ${schema}: the next command brings it up to ${currentSchema}`)
    : ok('knows what is published');
}

function judgeJournal({ isBeingWritten }: ArchiveFacts, { hasOpenIntent, journaledTicks }: StateFacts): Finding {
  const { ok, warning } = createFindings('archive', 'journal');
  if (isBeingWritten) return ok(`${formatCount(journaledTicks, 'tick')}; a run is publishing at this moment`);
  if (hasOpenIntent)
    return warning('a publish was broken off after its commit point', 'Nothing is lost: oddslake publish ends it.');
  return journaledTicks === 0
    ? ok('empty')
    : warning(
        `${formatCount(journaledTicks, 'tick')} not yet published`,
        'The next run publishes them, or oddslake publish.',
      );
}

const exitCodeMeanings: Readonly<Record<number, string>> = {
  1: 'an unexpected failure, or a full disk',
  2: 'bad usage or settings',
  3: 'the key was refused',
  4: 'incomplete',
  5: 'another run was writing',
  6: 'the archive was damaged',
  7: 'the upstream could not be reached',
  130: 'stopped by SIGINT',
  143: 'stopped by SIGTERM',
};

function judgeRun({ lastRun }: StateFacts, nowMs: number): Finding {
  const { ok, warning } = createFindings('archive', 'last run');
  if (lastRun === null) return ok('none yet');
  const { job, startedAt, finishedAt, exitCode, isOver } = lastRun;
  const begun = `${job}, ${formatDuration(Math.max(0, nowMs - startedAt))} ago`;
  if (finishedAt === null)
    return isOver
      ? warning(`${begun}, was broken off`, 'What it had accepted is kept: the next run goes on from there.')
      : ok(`${begun}, is under way`);
  if (exitCode === exitCodes.done) return ok(`${begun}, ended well after ${formatDuration(finishedAt - startedAt)}`);
  const meaning = exitCodeMeanings[exitCode ?? -1];
  return warning(
    `${begun}, ended with ${exitCode}${meaning === undefined ? '' : `: ${meaning}`}`,
    exitCode === exitCodes.incomplete
      ? 'The next run asks again for what is missing; oddslake gaps lists it.'
      : 'Its last lines say why; run it again once that is mended.',
  );
}

function judgeFiles({ files }: ArchiveFacts, state: StateFacts | null): Finding {
  const { ok, problem } = createFindings('archive', 'published');
  const { listed, hashed } = files;
  const wrong = [...new Set([...files.wrong, ...(state?.damaged ?? []).map(({ path }) => path)])];
  if (wrong.length === 0)
    return ok(`${formatCount(listed, 'file')} of the right size, ${formatNumber(hashed)} of them read: as published`);
  return problem(
    exitCodes.damaged,
    `${wrong.slice(0, 3).join(', ')}${wrong.length > 3 ? ` and ${wrong.length - 3} more` : ''} not as published`,
    'oddslake verify looks at every file; oddslake verify --repair mends them.',
  );
}

function judgeLag({ reached, generation, verdict }: ManifestFacts, nowMs: number, lagMsMax: number): Finding {
  const { ok, warning } = createFindings('archive', 'covered');
  if (generation === 0) return ok('nothing yet');
  if (reached === null)
    return verdict.live === 0
      ? ok('no symbol lives')
      : warning(
          `nothing yet of ${formatCount(verdict.live, 'live symbol')}`,
          'Run oddslake nightly, and see why requests fail.',
        );
  const lagMs = Math.max(0, nowMs - reached);
  const found = `every live symbol up to ${formatIsoUtc(reached)}, ${formatDuration(lagMs)} ago`;
  return lagMs <= lagMsMax
    ? ok(found)
    : warning(found, 'Run oddslake nightly, and see that a scheduler does so every night.');
}

/** Tells what the judge of the archive says; what is damaged is told with the files. */
function judgeCompleteness({ generation, verdict }: ManifestFacts): Finding[] {
  const { ok, warning } = createFindings('archive', 'verdict');
  if (generation === 0) return [];
  const text = formatCompleteness(verdict);
  const { state, suspended } = verdict;
  const judged =
    state === 'incomplete' || state === 'damaged'
      ? warning(
          text,
          'oddslake gaps lists what is missing: the next run asks for it, and oddslake gaps accept lets it be. A list that was cut off is in the summaries.',
        )
      : ok(text);
  if (suspended === 0) return [judged];
  const known = createFindings('archive', 'suspended').warning(
    `${formatCount(suspended, 'active symbol')} that the service says it does not know`,
    'oddslake gaps names them; oddslake symbols retry asks for them at once.',
  );
  return [judged, known];
}

function judgeQuarantine({ damagedFiles, quarantine }: ArchiveFacts, manifest: ManifestFacts | null): Finding {
  const { ok, warning } = createFindings('archive', 'quarantined');
  const lost = manifest?.lostWindows ?? 0;
  const kept =
    quarantine.files === 0 ? 'nothing' : `${formatBytes(quarantine.bytes)} of unusable input in .oddslake/quarantine`;
  if (lost > 0)
    return warning(
      `${formatCount(lost, 'window')} of ticks were had once and are lost`,
      'oddslake gaps names them; oddslake verify --repair --from-url asks another oddslake for them.',
    );
  if (damagedFiles > 0)
    return warning(
      `${formatCount(damagedFiles, 'file')} that a repair found damaged in .oddslake/damaged`,
      'All that could be kept of them is published: remove them once you need them no more.',
    );
  return ok(kept);
}

/** What was looked at, and what of it is to be judged. */
export interface ArchiveProbe {
  readonly inspection: ArchiveInspection;
  readonly manifest: Manifest | null;
  readonly facts: ArchiveFacts;
}

/** Publishes that may come between the manifest and its files before they are given up on. */
const inspectionAttemptsMax = 3;

export function probeArchive({ settings, disk, random, clock }: Context): ArchiveProbe {
  const { archive, source, upstream } = settings;
  const root = archive.output;
  let look = inspectArchive(root, disk);
  let files = filesOf(root, look);
  for (let looks = 1; looks < inspectionAttemptsMax && files.wrong.length > 0; looks++) {
    const before = look;
    look = inspectArchive(root, disk);
    if (getManifestSha256(look) === getManifestSha256(before)) break;
    files = filesOf(root, look);
  }
  const manifest = getManifest(look);
  const hidden = createLayout(root).privateFolder;
  const origin = upstream.baseUrl === null ? null : new URL(upstream.baseUrl).origin;
  const facts: ArchiveFacts = {
    root,
    kind: look.kind,
    isOutputNamed: archive.outputNamed,
    upstream: source.name ?? origin,
    manifest: toManifestFacts(look, files.wrong, clock.nowMs()),
    state: toStateFacts(look),
    currentFormat: formatVersion,
    currentSchema: schemaVersion,
    isBeingWritten: look.isBeingWritten,
    files,
    damagedFiles: measureFolder(join(hidden, 'damaged')).files,
    quarantine: measureFolder(join(hidden, 'quarantine')),
  };
  return { inspection: look, manifest, facts };

  /** As long as a publish is carried out, its files are at either place. */
  function filesOf(at: string, found: ArchiveInspection): FileSample {
    const listed = getManifest(found);
    if (listed === null) return { listed: 0, hashed: 0, wrong: [] };
    const moving = found.state !== null && !(found.state instanceof OddslakeError) && found.state.hasOpenIntent;
    return moving
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
    verdict: updatePublishedCompleteness(manifest, computeKnownDamage([...known, ...isNew], manifest.parts), nowMs),
    // One that somebody edited may say anything.
    reached: typeof reached === 'number' ? reached : null,
    ticks: sumFileTotals(manifest.datasets.ticks.files).rows,
    bytes: sumFileTotals(listManifestFiles(manifest)).bytes,
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

/** Files below a folder and their bytes; none where it is not there, or may not be read. */
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
