import { DamageError } from '../../base/errors.ts';
import { type CompletenessCounts, updatePublishedCompleteness } from '../../contract/completeness-counts.ts';
import { listManifestFiles, type Manifest, sumFileTotals } from '../format/manifest.ts';
import { computeVerifiedThrough } from '../format/verified-through.ts';
import { countJournaledTicks } from '../journal/journal.ts';
import { readHashTimes, readRecordedDamage } from '../journal/published-files.ts';
import { readFoundDamage } from '../known-state.ts';
import { type Archive, readCheckedManifest } from '../open-archive.ts';

/** How the archive stands. */
export interface ArchiveStatus {
  readonly generation: number;
  /** Up to where every live symbol is covered by proven windows, epoch ms; null where no symbol is live or nothing is published. */
  readonly watermark: number | null;
  /** The same with inferred windows: lag is measured by it. */
  readonly reached: number | null;
  readonly ticksPublished: number;
  readonly ticksJournaled: number;
  /** Files that are known not to be as published. */
  readonly damaged: number;
  /** Since when every published byte has been hashed, epoch ms; null where some never were. */
  readonly verifiedThrough: number | null;
  /** How whole it is: as published, with what was found and what has ended since. */
  readonly verdict: CompletenessCounts;
}

/**
 * Reads manifest and state themselves, and nothing that was kept of them.
 * @throws an error of whatever kind where one of them cannot be read
 */
export function readArchiveStatus(archive: Archive, nowMs: number): ArchiveStatus {
  if (!archive.state.isFileCurrent())
    throw new DamageError(`${archive.layout.privateFolder} was removed or replaced since it was opened.`);
  const manifest = readCheckedManifest(archive);
  const { generation, watermark, reached, datasets } = manifest;
  const { damaged_count: damaged, verified_through: verifiedThrough } = readDamageStatus(archive, manifest);
  return {
    generation,
    watermark,
    reached,
    damaged,
    verifiedThrough,
    verdict: readVerdict(archive, manifest, nowMs),
    ticksPublished: sumFileTotals(datasets.ticks.files).rows,
    ticksJournaled: countJournaledTicks(archive.state.db),
  };
}

const readVerdict = ({ state }: Archive, manifest: Manifest, nowMs: number): CompletenessCounts =>
  updatePublishedCompleteness(manifest, readFoundDamage(state.db, manifest.parts), nowMs);

/** How whole the archive is, by what is published and the damage that is known now. */
export const readPublishedVerdict = (archive: Archive, nowMs: number): CompletenessCounts =>
  readVerdict(archive, archive.readManifest(), nowMs);

const listedMax = 20;

/** What is remembered of damage, and since when every published byte has been hashed; times are epoch ms. */
export function readDamageStatus({ state }: Archive, manifest: Manifest) {
  const damage = readRecordedDamage(state.db);
  const hashedAt = readHashTimes(state.db);
  return {
    /** Null where some were never hashed, as far as is known, or nothing is published. */
    verified_through: computeVerifiedThrough(
      listManifestFiles(manifest).map((file) => ({ bytes: file.bytes, hashedAt: hashedAt(file) })),
    ),
    damaged: damage.slice(0, listedMax).map(({ path, kind, foundAt }) => ({ path, kind, found_at: foundAt })),
    damaged_count: damage.length,
  };
}
