import { DamageError } from '../../core/errors.ts';
import { mergePart, noPart, type Tally } from '../../core/merge.ts';
import { binsOfRun, journalEnd, readBin } from '../../state/journal.ts';
import { isJournalDamage } from '../../state/journal-checksum.ts';
import { dayStandings } from '../../state/precedence.ts';
import { dayPath } from '../layout.ts';
import { fileAt } from '../manifest.ts';
import { type Archive, readPublished } from '../open-archive.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';

/** Publishes that may come between before the counting is given up. */
const attemptsMax = 5;

/**
 * What will become of the ticks that a run has journaled and nobody has published, once they are: a key that is published
 * or was journaled before is a duplicate or a conflict. Those of a damaged part, and of a damaged journal, count as accepted:
 * nothing tells.
 */
export function countWaiting(archive: Archive, runId: string): Tally {
  for (let attempt = 1; ; attempt++) {
    const generation = archive.state.generation();
    const tally = countNow(archive, runId);
    // A publish in between may have taken in what was read before, or published what was compared with.
    if (archive.state.generation() === generation || attempt === attemptsMax) return tally;
  }
}

function countNow(archive: Archive, runId: string): Tally {
  const { db } = archive.state;
  const end = journalEnd(db);
  const manifest = archive.manifest();
  const total = { accepted: 0, duplicates: 0, conflicts: 0 };
  for (const { day, part, ticks } of binsOfRun(db, runId)) {
    try {
      const chunks = readBin(db, { day, part }, end);
      const own = new Set(chunks.flatMap((chunk) => (chunk.runId === runId ? [chunk.symbol] : [])));
      const file = fileAt(manifest, 'ticks', dayPath('ticks', day, part));
      const old = file === undefined ? noPart : decodeTicks(readPublished(archive, file));
      const relevant = chunks.filter(({ symbol }) => own.has(symbol));
      const { tallies } = mergePart(old, relevant, dayStandings(db, day));
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
