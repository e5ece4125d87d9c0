import { DamageError } from '../../base/errors.ts';
import { formatDay } from '../../base/time.ts';
import { floorToDay } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import type { LostWindow } from '../format/coverage.ts';
import { findDayPart, getPartCount } from '../format/day-parts.ts';
import { toDayPath } from '../format/layout.ts';
import { findFileWithRows, type PublishedFile } from '../format/manifest.ts';
import { mergePart } from '../format/merge.ts';
import {
  addTallies,
  countTicksInWindow,
  emptyPart,
  indexTickTimes,
  noTicks,
  type PartColumns,
  type RunTally,
} from '../format/tick-columns.ts';
import { countRunTicksByBin, readBinTicks, readJournalEnd } from '../journal/journal.ts';
import { isJournalDamage } from '../journal/journal-rows.ts';
import { openDayPrecedence } from '../journal/precedence-store.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { decodePublished, readPublishedFile } from '../read-published-file.ts';

/**
 * Counts the published ticks in each lost window; the counts are in the order of `lost`. Reads one part file at a time.
 * @throws DamageError if a part file is damaged
 */
export function countPublishedTicks(archive: Archive, lost: readonly LostWindow[]): number[] {
  const manifest = archive.readManifest();
  const counts = new Map<LostWindow, number>();
  const toPath = ({ symbol, from }: LostWindow): string =>
    toDayPath('ticks', floorToDay(from), findDayPart(manifest, symbol, floorToDay(from)));
  for (const [path, windows] of Map.groupBy(lost, toPath)) {
    const file = findFileWithRows(manifest, 'ticks', path);
    if (file === undefined) continue;
    const getTimes = indexTickTimes(readPublishedTicks(archive, file));
    for (const window of windows) counts.set(window, countTicksInWindow(getTimes(window.symbol), window));
  }
  return lost.map((window) => counts.get(window) ?? 0);
}

/** Reads a part file; empty if there is none. @throws DamageError if it is damaged */
export const readPublishedTicks = (archive: Archive, file: PublishedFile | undefined): PartColumns =>
  file === undefined ? emptyPart : decodePublished(file.path, () => decodeTicks(readPublishedFile(archive, file)));

/** Maximum number of attempts if publishes intervene. After that, the last count is returned. */
const countAttemptsMax = 5;

/**
 * Tallies the unpublished journal ticks of a run as a publish would count them: a key that is published or
 * was journaled before is a duplicate or a conflict. If the part file or the journal is damaged, ticks cannot be
 * compared and count as accepted.
 */
export function tallyJournaledTicks(archive: Archive, runId: string): RunTally {
  for (let attempt = 1; ; attempt++) {
    const generation = archive.state.generation();
    const tally = tallyJournaledTicksOnce(archive, runId);
    // A publish in between may have consumed the journal rows or replaced the part files that were compared.
    if (archive.state.generation() === generation || attempt === countAttemptsMax) return tally;
  }
}

function tallyJournaledTicksOnce(archive: Archive, runId: string): RunTally {
  const { db } = archive.state;
  const end = readJournalEnd(db);
  const manifest = archive.readManifest();
  let total: RunTally = { ...noTicks };
  for (const { day, part, ticks } of countRunTicksByBin(db, runId)) {
    try {
      const chunks = readBinTicks(db, { day, part }, end);
      const ownSymbols = new Set(chunks.flatMap((chunk) => (chunk.runId === runId ? [chunk.symbol] : [])));
      const path = toDayPath('ticks', day, part % getPartCount(manifest, formatDay(day)));
      const file = findFileWithRows(manifest, 'ticks', path);
      const old = readPublishedTicks(archive, file);
      const relevant = chunks.filter(({ symbol }) => ownSymbols.has(symbol));
      const { tallies } = mergePart(old, relevant, openDayPrecedence(db, day));
      total = addTallies(total, tallies.get(runId)!);
    } catch (error) {
      if (!(error instanceof DamageError) && !isJournalDamage(error)) throw error;
      total = { ...total, accepted: total.accepted + ticks };
    }
  }
  return total;
}
