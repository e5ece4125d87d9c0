import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type ArchiveInspection, checkFileSample, type FileSample, inspectArchive } from '../../archive/inspect.ts';
import { computeKnownDamage } from '../../archive/known-state.ts';
import { createLayout } from '../../archive/layout.ts';
import { formatVersion, listManifestFiles, type Manifest, sumFileTotals } from '../../archive/manifest.ts';
import { OddslakeError } from '../../core/errors.ts';
import { updatePublishedCompleteness } from '../../core/verdict.ts';
import { schemaVersion } from '../../state/schema.ts';
import type { Context } from '../context.ts';
import type { ArchiveFacts, ManifestFacts, ReadFault, StateFacts } from './archive.ts';

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
