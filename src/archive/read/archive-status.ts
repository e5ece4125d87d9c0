import { DamageError } from '../../base/errors.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import { subtract, union, type Window } from '../../base/window.ts';
import {
  type CompletenessCounts,
  updatePublishedCompleteness,
  updatePublishedDays,
} from '../../contract/completeness-counts.ts';
import { listOpenDays, type OpenDay } from '../../contract/day-reasons.ts';
import { type NamedFew, toNamedFew } from '../../contract/finding.ts';
import { type Archive, readCheckedManifest } from '../archive.ts';
import { readDiskSpace } from '../disk/file-system.ts';
import { computeDailyGrowth } from '../format/growth.ts';
import { listManifestFiles, type Manifest, sumFileSizes } from '../format/manifest.ts';
import { isUnselected } from '../format/selection.ts';
import { readCollectedProgress } from '../journal/collected-progress.ts';
import type { Database } from '../journal/database.ts';
import { readNights } from '../journal/empty-responses.ts';
import { readAcceptedWindows, readAllOwedWindows, readCoverageWithoutLost } from '../journal/gap-records.ts';
import { readOpenIntent } from '../journal/intent.ts';
import { countJournaledTicks } from '../journal/journal-rows.ts';
import {
  computeVerifiedThrough,
  type RecordedDamage,
  readHashTimes,
  readRecordedDamage,
} from '../journal/published-files.ts';
import { type PastRun, readCurrentRuns } from '../journal/runs.ts';
import { readSymbol } from '../journal/symbol-store.ts';
import { computeKnownDamage } from '../known-state.ts';
import { isCurrentElsewhere } from '../publish/adopt-generation.ts';

/** The current status of an archive, as far as it is cheap to read. Times in epoch ms. */
export interface ArchiveStatus {
  readonly generation: number;
  /** Every live symbol is covered by proven windows up to here; null without live symbols or publishes. */
  readonly watermark: number | null;
  /** The same as `watermark`, but including inferred windows. Lag is measured from here. */
  readonly reached: number | null;
  readonly ticksPublished: number;
  readonly ticksJournaled: number;
  /** Whether a publish has passed its commit point and has not ended. */
  readonly isPublishOpen: boolean;
  /** Whether a bucket has the current generation. */
  readonly isPushed: boolean;
  /** Files recorded as damaged. */
  readonly damaged: readonly FoundDamage[];
  /** Every published byte has been hashed since this time; null if some never were. */
  readonly verifiedThrough: number | null;
  /** Completeness as published, updated with damage found and days ended since. */
  readonly completeness: CompletenessCounts;
  /** The past days that are neither complete nor empty, the newest first. */
  readonly openDays: readonly OpenDay[];
  /** Symbols with windows whose requests failed and that are neither covered since nor accepted; null if there are none. */
  readonly failing: FailingSymbols | null;
  /** Since when each source has nights, and why its days may stay provisional. */
  readonly nights: readonly { readonly source: string | null; readonly since: number; readonly cause: string | null }[];
  /** The last ended nightly and the runs after it, oldest first. */
  readonly runs: readonly PastRun[];
  /** Free bytes of its disk, null if unknown, and its growth in bytes per day, 0 if unknown. */
  readonly disk: { readonly freeBytes: number; readonly bytesPerDay: number } | null;
}

type FoundDamage = Omit<RecordedDamage, 'runId'>;

interface FailingSymbols extends Window {
  readonly symbols: NamedFew;
  /** When the first of these requests failed. */
  readonly since: number;
  /** Why most of the windows failed, one clause, and the number of other reasons. */
  readonly reason: string;
  readonly otherReasons: number;
  /** Whether the service says of each symbol that it does not exist. */
  readonly areUnknown: boolean;
}

/**
 * Reads the manifest and the state database, bypassing caches.
 * @throws an error of any type if one of them cannot be read
 */
export function readArchiveStatus(archive: Archive, nowMs: number): ArchiveStatus {
  if (!archive.state.isFileCurrent())
    throw new DamageError(`${archive.layout.privateFolder} was removed or replaced since it was opened.`);
  return readStatusOf(archive.state.db, readCheckedManifest(archive), nowMs, archive.layout.root);
}

/** Does the same for a state database and a manifest that are already read. */
export function readStatusOf(
  db: Database,
  manifest: Manifest,
  nowMs: number,
  root: string,
  damaged: readonly FoundDamage[] = readRecordedDamage(db),
): ArchiveStatus {
  const found = computeKnownDamage(damaged, manifest);
  return {
    generation: manifest.generation,
    ...readCollectedProgress(db, manifest),
    damaged,
    verifiedThrough: computeVerifiedThrough(listManifestFiles(manifest), readHashTimes(db)),
    completeness: updatePublishedCompleteness(manifest, found, nowMs),
    openDays: listOpenDays(Object.entries(updatePublishedDays(manifest, found)), nowMs),
    failing: readFailing(db, nowMs),
    ticksPublished: sumFileSizes(manifest.datasets.ticks.files).rows,
    ticksJournaled: countJournaledTicks(db),
    isPublishOpen: readOpenIntent(db) !== undefined,
    isPushed: isCurrentElsewhere(db),
    nights: readNights(db),
    runs: readCurrentRuns(db, nowMs + clockAheadMsMax),
    disk: readDiskFacts(root, manifest, nowMs),
  };
}

function readDiskFacts(root: string, manifest: Manifest, nowMs: number): ArchiveStatus['disk'] {
  const space = readDiskSpace(root);
  const growth = computeDailyGrowth(listManifestFiles(manifest), nowMs);
  return space === null ? null : { freeBytes: space.freeBytes, bytesPerDay: growth?.bytesPerDay ?? 0 };
}

/** Only windows that were owed are read: there are few, while all coverage may be large. */
function readFailing(db: Database, nowMs: number): FailingSymbols | null {
  const accepted = Map.groupBy(readAcceptedWindows(db), ({ symbol }) => symbol);
  const failed = [...readAllOwedWindows(db)].flatMap(([symbol, windows]) => {
    const own = windows.filter(({ kind, from }) => kind === 'failed' && from < nowMs);
    if (own.length === 0) return [];
    const facts = readSymbol(db, symbol);
    if (facts === undefined || facts.suspendedAt !== null || isUnselected(facts)) return [];
    const settled = [
      ...readCoverageWithoutLost(db, symbol),
      ...(accepted.get(symbol) ?? []),
      ...(facts.unselected ?? []),
    ];
    // A backfill asks for a day before the opening, of which nothing is expected.
    const before = { from: Number.NEGATIVE_INFINITY, to: facts.opensAt ?? Number.NEGATIVE_INFINITY };
    const isSettled = subtract(union(own), union([...settled, before])).length === 0;
    return isSettled ? [] : own.map((window) => ({ ...window, isUnknown: facts.unknownSince !== null }));
  });
  if (failed.length === 0) return null;
  const names = [...new Set(failed.map(({ symbol }) => symbol))];
  const reasons = [...Map.groupBy(failed, ({ reason }) => reason)].toSorted(([, a], [, b]) => b.length - a.length);
  return {
    symbols: toNamedFew(names),
    from: failed.reduce((min, { from }) => Math.min(min, from), Number.POSITIVE_INFINITY),
    to: failed.reduce((max, { to }) => Math.max(max, Math.min(to, nowMs)), Number.NEGATIVE_INFINITY),
    since: failed.reduce((min, { since }) => Math.min(min, since), Number.POSITIVE_INFINITY),
    reason: reasons[0]![0],
    otherReasons: reasons.length - 1,
    areUnknown: failed.every(({ isUnknown }) => isUnknown),
  };
}

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
