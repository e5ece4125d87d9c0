import { DamageError } from '../../base/errors.ts';
import {
  type CompletenessCounts,
  updatePublishedCompleteness,
  updatePublishedDays,
} from '../../contract/completeness-counts.ts';
import { listOpenDays, type OpenDay } from '../../contract/day-reasons.ts';
import { type Archive, readCheckedManifest } from '../archive.ts';
import { listManifestFiles, type Manifest, sumFileSizes } from '../format/manifest.ts';
import { type Progress, readCollectedProgress } from '../journal/collected-progress.ts';
import { countJournaledTicks } from '../journal/journal-rows.ts';
import { computeVerifiedThrough, readHashTimes, readRecordedDamage } from '../journal/published-files.ts';
import { readFoundDamage } from '../known-state.ts';

/** The current status of an archive. */
interface ArchiveStatus {
  readonly generation: number;
  /** Every live symbol is covered by proven windows up to here, epoch ms; null without live symbols or publishes. */
  readonly watermark: number | null;
  /** The same as `watermark`, but including inferred windows. Lag is measured from here. */
  readonly reached: number | null;
  readonly ticksPublished: number;
  readonly ticksJournaled: number;
  /** Number of files recorded as damaged. */
  readonly damaged: number;
  /** Every published byte has been hashed since this time, epoch ms; null if some never were. */
  readonly verifiedThrough: number | null;
  /** Completeness as published, updated with damage found and days ended since. */
  readonly completeness: CompletenessCounts;
}

/**
 * Reads the manifest and the state database, bypassing caches.
 * @throws an error of any type if one of them cannot be read
 */
export function readArchiveStatus(archive: Archive, nowMs: number): ArchiveStatus {
  if (!archive.state.isFileCurrent())
    throw new DamageError(`${archive.layout.privateFolder} was removed or replaced since it was opened.`);
  const manifest = readCheckedManifest(archive);
  const { generation, datasets } = manifest;
  const { watermark, reached } = readCollectedProgress(archive.state.db, manifest);
  const { damaged_count: damaged, verified_through: verifiedThrough } = readDamageStatus(archive, manifest);
  return {
    generation,
    watermark,
    reached,
    damaged,
    verifiedThrough,
    completeness: readUpdatedCompleteness(archive, manifest, nowMs),
    ticksPublished: sumFileSizes(datasets.ticks.files).rows,
    ticksJournaled: countJournaledTicks(archive.state.db),
  };
}

const readUpdatedCompleteness = ({ state }: Archive, manifest: Manifest, nowMs: number): CompletenessCounts =>
  updatePublishedCompleteness(manifest, readFoundDamage(state.db, manifest), nowMs);

/** Completeness as published, updated with the currently known damage and the days ended since. */
export const readPublishedCompleteness = (archive: Archive, nowMs: number): CompletenessCounts =>
  readUpdatedCompleteness(archive, archive.readManifest(), nowMs);

/** The past days that are published as neither complete nor empty, the newest first, with the currently known damage. */
export function readOpenDays({ state, readManifest }: Archive, nowMs: number): OpenDay[] {
  const manifest = readManifest();
  return listOpenDays(Object.entries(updatePublishedDays(manifest, readFoundDamage(state.db, manifest))), nowMs);
}

/** How far the live symbols are covered by what is published, and by what later jobs without new ticks have journaled. */
export const readProgress = ({ state, readManifest }: Archive): Progress =>
  readCollectedProgress(state.db, readManifest());

const listedMax = 20;

/** Recorded damage, and the time since which every published byte has been hashed. Times in epoch ms. */
export function readDamageStatus({ state }: Archive, manifest: Manifest) {
  const damage = readRecordedDamage(state.db);
  const hashedAt = readHashTimes(state.db);
  return {
    /** Null if some bytes have no recorded hash time, or nothing is published. */
    verified_through: computeVerifiedThrough(listManifestFiles(manifest), hashedAt),
    damaged: damage.slice(0, listedMax).map(({ path, kind, foundAt }) => ({ path, kind, found_at: foundAt })),
    damaged_count: damage.length,
  };
}
