import { findJournalDamage } from '../../state/journal-check.ts';
import { toStateFilePath } from '../../state/state.ts';
import { type CoverageExtent, computeCoverageExtents, findDatabaseFault } from '../../state/validate.ts';
import type { PublishedFile } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { readPublishedFile } from '../open-archive.ts';
import { addCoverageExtents, type CoverageExtents } from './coverage-extents.ts';

/**
 * Whether the state is sound and knows the coverage that is published: SQLite looks at its file, and of every symbol what
 * both say is added up. Resolves to a sentence that says what is wrong and what to do; null where nothing is.
 * @param coverage the published files of coverage, all of them intact; null where they are not, so that nothing is compared
 * @throws DamageError where one of them is not so any more
 */
export async function verifyState(
  archive: Archive,
  coverage: readonly PublishedFile[] | null,
  signal?: AbortSignal,
): Promise<string | null> {
  const { state, layout } = archive;
  const path = toStateFilePath(layout.privateFolder);
  const fault = findDatabaseFault(state.db);
  if (fault !== null) return `The state database ${path} is damaged: ${fault}. ${formatRebuildAdvice(path)}`;
  const { rows } = state.db.snapshot(() => findJournalDamage(state.db));
  if (rows.length > 0) {
    return `The journal in ${path} is damaged: ${rows.length} of its rows differ from their checksums. Run oddslake publish: it quarantines them, and the next run asks for what they held again. Check the disk.`;
  }
  if (coverage === null) return null;
  const published: CoverageExtents = new Map();
  for (const file of coverage) {
    signal?.throwIfAborted();
    addCoverageExtents(published, readPublishedFile(archive, file));
    // Signals and the progress bar get their turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const known = computeCoverageExtents(state.db);
  for (const symbol of new Set([...published.keys(), ...known.keys()])) {
    if (isSameExtent(published.get(symbol), known.get(symbol))) continue;
    return `The state database ${path} does not know the coverage of ${symbol} as it is published. ${formatRebuildAdvice(path)}`;
  }
  return null;
}

/** Windows of a state may begin amid a millisecond, where those of a file cannot. */
function isSameExtent(a: CoverageExtent | undefined, b: CoverageExtent | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const slack = a.windows + b.windows;
  return Math.abs(a.ms - b.ms) <= slack && Math.abs(a.from - b.from) <= 1 && Math.abs(a.to - b.to) <= 1;
}

const formatRebuildAdvice = (path: string): string =>
  `Publish what is journaled, if that can still be done (oddslake publish); then, while nothing runs on the archive, move ${path} away, and with it the files of that name that end in -wal and -shm: the next run makes a new one of what is published. What is journaled only, and which prices were contested, is gone with it.`;
