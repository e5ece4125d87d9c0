import { foundDamage } from '../archive/known-state.ts';
import { type Manifest, totalsOf } from '../archive/manifest.ts';
import { type Archive, ownManifest } from '../archive/open-archive.ts';
import { DamageError } from '../core/errors.ts';
import { type Counts, verdictOfPublished } from '../core/verdict.ts';
import { journaledTicks } from '../state/journal.ts';
import { readDamage } from './damage.ts';

/** How the archive stands. */
export interface Standing {
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
  readonly verdict: Counts;
}

/**
 * Reads manifest and state themselves, and nothing that was kept of them.
 * @throws an error of whatever kind where one of them cannot be read
 */
export function standingOf(archive: Archive, nowMs: number): Standing {
  if (!archive.state.isOwn())
    throw new DamageError(`${archive.layout.private} was removed or replaced since it was opened.`);
  const manifest = ownManifest(archive);
  const { generation, watermark, reached, datasets } = manifest;
  const { damaged_count: damaged, verified_through: verifiedThrough } = readDamage(archive, manifest);
  return {
    generation,
    watermark,
    reached,
    damaged,
    verifiedThrough,
    verdict: verdictIn(archive, manifest, nowMs),
    ticksPublished: totalsOf(datasets.ticks.files).rows,
    ticksJournaled: journaledTicks(archive.state.db),
  };
}

const verdictIn = ({ state }: Archive, manifest: Manifest, nowMs: number): Counts =>
  verdictOfPublished(manifest, foundDamage(state.db, manifest.parts), nowMs);

/** How whole the archive is, by what is published and the damage that is known now. */
export const readPublishedVerdict = (archive: Archive, nowMs: number): Counts =>
  verdictIn(archive, archive.manifest(), nowMs);
