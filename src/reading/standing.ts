import { type Archive, ownManifest } from '../archive/archive.ts';
import { totalsOf } from '../archive/manifest.ts';
import { DamageError } from '../core/errors.ts';
import { journaledTicks } from '../state/journal.ts';

/** How the archive stands. */
export interface Standing {
  readonly generation: number;
  /** Up to where every live symbol is covered without a hole, epoch ms; null where no symbol is live or nothing is published. */
  readonly watermark: number | null;
  /** The same but for windows that are lost, which nobody may ever have again. */
  readonly reached: number | null;
  readonly ticksPublished: number;
  readonly ticksJournaled: number;
}

/**
 * Reads manifest and state themselves, and nothing that was kept of them.
 * @throws an error of whatever kind where one of them cannot be read
 */
export function standingOf(archive: Archive): Standing {
  if (!archive.state.isOwn())
    throw new DamageError(`${archive.layout.private} was removed or replaced since it was opened.`);
  const { generation, watermark, reached = watermark, datasets } = ownManifest(archive);
  const ticksPublished = totalsOf(datasets.ticks.files).rows;
  return { generation, watermark, reached, ticksPublished, ticksJournaled: journaledTicks(archive.state.db) };
}
