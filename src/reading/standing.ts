import { type Archive, ownManifest } from '../archive/archive.ts';
import { totalsOf } from '../archive/manifest.ts';
import { DamageError } from '../core/errors.ts';
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
}

/**
 * Reads manifest and state themselves, and nothing that was kept of them.
 * @throws an error of whatever kind where one of them cannot be read
 */
export function standingOf(archive: Archive): Standing {
  if (!archive.state.isOwn())
    throw new DamageError(`${archive.layout.private} was removed or replaced since it was opened.`);
  const manifest = ownManifest(archive);
  const { generation, watermark, reached, datasets } = manifest;
  const { damaged_count: damaged, verified_through: verifiedThrough } = readDamage(archive, manifest);
  return {
    ...{ generation, watermark, reached, damaged, verifiedThrough },
    ticksPublished: totalsOf(datasets.ticks.files).rows,
    ticksJournaled: journaledTicks(archive.state.db),
  };
}
