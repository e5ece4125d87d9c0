import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type ArchiveLook, lookAtArchive, type Sampled, sampleFiles } from '../../archive/inspect.ts';
import { damageOf } from '../../archive/known-state.ts';
import { layoutOf } from '../../archive/layout.ts';
import { allFiles, formatVersion, type Manifest, totalsOf } from '../../archive/manifest.ts';
import { OddslakeError } from '../../core/errors.ts';
import { verdictOfPublished } from '../../core/verdict.ts';
import { schemaVersion } from '../../state/schema.ts';
import type { Context } from '../context.ts';
import type { ArchiveFacts, Fault, ManifestFacts, StateFacts } from './archive.ts';

/** What was looked at, and what of it is to be judged. */
export interface ProbedArchive {
  readonly look: ArchiveLook;
  readonly manifest: Manifest | null;
  readonly facts: ArchiveFacts;
}

/** Publishes that may come between the manifest and its files before they are given up on. */
const looksMax = 3;

export function probeArchive({ settings, disk, random, clock }: Context): ProbedArchive {
  const { archive, source, upstream } = settings;
  const root = archive.output;
  let look = lookAtArchive(root, disk);
  let files = filesOf(root, look);
  for (let looks = 1; looks < looksMax && files.wrong.length > 0; looks++) {
    const before = look;
    look = lookAtArchive(root, disk);
    if (sha256Of(look) === sha256Of(before)) break;
    files = filesOf(root, look);
  }
  const manifest = manifestOf(look);
  const hidden = layoutOf(root).private;
  const origin = upstream.baseUrl === null ? null : new URL(upstream.baseUrl).origin;
  const facts: ArchiveFacts = {
    root,
    kind: look.kind,
    named: archive.outputNamed,
    upstream: source.name ?? origin,
    manifest: manifestFacts(look, files.wrong, clock.nowMs()),
    state: stateFacts(look),
    formatNow: formatVersion,
    schemaNow: schemaVersion,
    isBeingWritten: look.isBeingWritten,
    files,
    damagedFiles: contents(join(hidden, 'damaged')).files,
    quarantine: contents(join(hidden, 'quarantine')),
  };
  return { look, manifest, facts };

  /** As long as a publish is carried out, its files are at either place. */
  function filesOf(at: string, found: ArchiveLook): Sampled {
    const listed = manifestOf(found);
    if (listed === null) return { listed: 0, hashed: 0, wrong: [] };
    const moving = found.state !== null && !(found.state instanceof OddslakeError) && found.state.hasOpenIntent;
    return moving ? { listed: allFiles(listed).length, hashed: 0, wrong: [] } : sampleFiles(at, listed, disk, random);
  }
}

const manifestOf = ({ manifest }: ArchiveLook): Manifest | null =>
  manifest === null || manifest instanceof OddslakeError ? null : manifest.manifest;

const sha256Of = ({ manifest }: ArchiveLook): string | null =>
  manifest === null || manifest instanceof OddslakeError ? null : manifest.sha256;

const faultOf = ({ message, exitCode }: OddslakeError): Fault => ({ fault: message, exitCode });

function manifestFacts(
  { manifest: found, state }: ArchiveLook,
  wrong: readonly string[],
  nowMs: number,
): ManifestFacts | Fault | null {
  if (found === null) return null;
  if (found instanceof OddslakeError) return faultOf(found);
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
    verdict: verdictOfPublished(manifest, damageOf([...known, ...isNew], manifest.parts), nowMs),
    // One that somebody edited may say anything.
    reached: typeof reached === 'number' ? reached : null,
    ticks: totalsOf(manifest.datasets.ticks.files).rows,
    bytes: totalsOf(allFiles(manifest)).bytes,
  };
}

function stateFacts({ state }: ArchiveLook): StateFacts | Fault | null {
  if (state === null) return null;
  if (state instanceof OddslakeError) return faultOf(state);
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
  return { schema, generation, upstream, manifestSha256, openIntent, journaledTicks, damaged, lastRun };
}

/** Files below a folder and their bytes; none where it is not there, or may not be read. */
function contents(folder: string): { files: number; bytes: number } {
  try {
    return readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0)
      .reduce((sum, bytes) => ({ files: sum.files + 1, bytes: sum.bytes + bytes }), { files: 0, bytes: 0 });
  } catch {
    return { files: 0, bytes: 0 };
  }
}
