import { DamageError } from '../../base/errors.ts';
import { toDayPath } from '../format/layout.ts';
import { findManifestFile } from '../format/manifest.ts';
import { mergePart } from '../format/merge.ts';
import { emptyPart, type RunTally } from '../format/tick-columns.ts';
import { countRunTicksByBin, readBinTicks, readJournalEnd } from '../journal/journal.ts';
import { isJournalDamage } from '../journal/journal-check.ts';
import { openDayPrecedence } from '../journal/precedence.ts';
import { type Archive, readPublishedFile } from '../open-archive.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';

/** Publishes that may come between before the counting is given up. */
const countAttemptsMax = 5;

/**
 * What will become of the ticks that a run has journaled and nobody has published, once they are: a key that is published
 * or was journaled before is a duplicate or a conflict. Those of a damaged part, and of a damaged journal, count as accepted:
 * nothing tells.
 */
export function countJournaledTicks(archive: Archive, runId: string): RunTally {
  for (let attempt = 1; ; attempt++) {
    const generation = archive.state.generation();
    const tally = countJournaledTicksOnce(archive, runId);
    // A publish in between may have taken in what was read before, or published what was compared with.
    if (archive.state.generation() === generation || attempt === countAttemptsMax) return tally;
  }
}

function countJournaledTicksOnce(archive: Archive, runId: string): RunTally {
  const { db } = archive.state;
  const end = readJournalEnd(db);
  const manifest = archive.readManifest();
  const total = { accepted: 0, duplicates: 0, conflicts: 0 };
  for (const { day, part, ticks } of countRunTicksByBin(db, runId)) {
    try {
      const chunks = readBinTicks(db, { day, part }, end);
      const own = new Set(chunks.flatMap((chunk) => (chunk.runId === runId ? [chunk.symbol] : [])));
      const file = findManifestFile(manifest, 'ticks', toDayPath('ticks', day, part));
      const old = file === undefined ? emptyPart : decodeTicks(readPublishedFile(archive, file));
      const relevant = chunks.filter(({ symbol }) => own.has(symbol));
      const { tallies } = mergePart(old, relevant, openDayPrecedence(db, day));
      const { accepted, duplicates, conflicts } = tallies.get(runId)!;
      total.accepted += accepted;
      total.duplicates += duplicates;
      total.conflicts += conflicts;
    } catch (error) {
      if (!(error instanceof DamageError) && !isJournalDamage(error)) throw error;
      total.accepted += ticks;
    }
  }
  return total;
}
