import { DamageError } from '../../base/errors.ts';
import { floorToDay } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import type { LostWindow } from '../format/coverage.ts';
import { findSymbolFile } from '../format/day-parts.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';
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
import {
  type JournaledSymbolDay,
  listJournaledSymbolDays,
  readJournalEnd,
  readSymbolDayTicks,
} from '../journal/journal.ts';
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
  const findFile = ({ symbol, from }: LostWindow) => findSymbolFile(manifest, 'ticks', symbol, floorToDay(from));
  for (const [file, windows] of Map.groupBy(lost, findFile)) {
    if (file === undefined) continue;
    const getTimes = indexTickTimes(readPublishedTicks(archive, file));
    for (const window of windows) counts.set(window, countTicksInWindow(getTimes(window.symbol), window));
  }
  return lost.map((window) => counts.get(window) ?? 0);
}

/** Reads a part file; empty if there is none. @throws DamageError if it is damaged */
export const readPublishedTicks = (archive: Archive, file: PublishedFile | undefined): PartColumns =>
  file === undefined ? emptyPart : decodePublished(file.path, () => decodeTicks(readPublishedFile(archive, file)));

/** The journaled symbols of a day, and the published file with their ticks; undefined if there is none. */
interface JournaledFile {
  readonly day: number;
  readonly file: PublishedFile | undefined;
  readonly symbols: readonly JournaledSymbolDay[];
}

/** Groups journaled symbols by the published file that has their ticks. */
export const groupByFile = (manifest: Manifest, journaled: readonly JournaledSymbolDay[]): JournaledFile[] =>
  [...Map.groupBy(journaled, ({ day }) => day)].flatMap(([day, ofDay]) =>
    [...Map.groupBy(ofDay, ({ symbol }) => findSymbolFile(manifest, 'ticks', symbol, day))].map(([file, symbols]) => ({
      day,
      file,
      symbols,
    })),
  );

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
  for (const { day, file, symbols } of groupByFile(manifest, listJournaledSymbolDays(db, runId))) {
    try {
      const old = readPublishedTicks(archive, file);
      const chunks = symbols.flatMap(({ symbol }) => readSymbolDayTicks(db, symbol, day, end));
      const { tallies } = mergePart(old, chunks, openDayPrecedence(db, day));
      total = addTallies(total, tallies.get(runId)!);
    } catch (error) {
      if (!(error instanceof DamageError) && !isJournalDamage(error)) throw error;
      total = { ...total, accepted: symbols.reduce((sum, { ticks }) => sum + ticks, total.accepted) };
    }
  }
  return total;
}
