import { LRUCache } from 'lru-cache';
import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import { isInRange } from '../../base/symbol-range.ts';
import { emptyTicks, type TickColumns } from '../../base/ticks.ts';
import { parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay, subtract, union, type Window } from '../../base/window.ts';
import { type Archive, requirePublishedManifest } from '../archive.ts';
import { splitAtLostWindows } from '../format/coverage.ts';
import { getFileRange } from '../format/day-parts.ts';
import { listFilesWithRows, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { mergePart } from '../format/merge.ts';
import { toSymbolPart } from '../format/tick-changes.ts';
import { readCoverageWithoutLost, readLostTicks } from '../journal/gap-records.ts';
import { type CommitState, isLastCommit, readCommitState } from '../journal/intent.ts';
import { listJournaledDays, readJournalEnd, readSymbolDayTicks } from '../journal/journal.ts';
import { openDayPrecedence } from '../journal/precedence-store.ts';
import { findPublishedWindow } from '../journal/symbol-store.ts';
import type { ManifestWatcher } from './manifest-watcher.ts';
import { openSymbolRowReader } from './symbol-row-reader.ts';
import type { VerifiedFiles } from './verified-files.ts';

interface TickRangeQuery {
  readonly symbol: string;
  /** Epoch milliseconds; null reads the latest ticks before `to`. */
  readonly from: number | null;
  /** Excluded, epoch milliseconds. */
  readonly to: number;
  /** At least 1. */
  readonly limit: number;
}

/** Rows `from` to `to` (excluded) of immutable columns; `key` identifies the columns and the symbol's day. */
export interface TickSlice extends TickColumns {
  readonly key: string;
  readonly from: number;
  readonly to: number;
}

/** The window that the result covers, epoch milliseconds, with all its ticks, ascending. */
export interface TickRangeResult extends Window {
  readonly slices: readonly TickSlice[];
  readonly count: number;
  /** Uncovered parts of the window. With more than `gapsMax`, the last one spans the rest. */
  readonly gaps: readonly TickGap[];
}

interface TickGap extends Window {
  /** `lost` if its ticks were published and then lost; absent if it was never covered. */
  readonly reason?: 'lost';
}

/** Maximum days per result. Limits the cost if days have few ticks. */
export const daysMax = 366;

/** Maximum gaps per result. */
export const gapsMax = 1000;

/** Maximum number of attempts of a read that publishes interrupt. */
const attemptsMax = 20;

/**
 * Reads the ticks of a symbol: published ticks merged with journaled ones, as the next publish would merge them. Other
 * processes may publish meanwhile. Null for an unknown symbol.
 * @throws DamageError if a file that is needed differs from the manifest
 * @throws OddslakeError (busy) if publishes interrupt the read too often
 */
export type ReadTicks = (query: TickRangeQuery) => Promise<TickRangeResult | null>;

const allRows = { from: 0, to: Number.POSITIVE_INFINITY, rowsMax: Number.POSITIVE_INFINITY };

/** @param bytesMax memory for decoded ticks, in bytes; at least 0 */
export function openTickReader(
  archive: Archive,
  watcher: ManifestWatcher,
  files: VerifiedFiles,
  bytesMax: number,
): ReadTicks {
  const { state } = archive;
  const getSnapshot = openSymbolSnapshots(archive, watcher);
  const published = openSymbolRowReader(bytesMax / 2);
  const merged = new LRUCache<string, TickColumns>({
    maxSize: Math.max(1, Math.floor(bytesMax / 2)),
    sizeCalculation: ({ t }) => 16 * t.length + 1,
  });
  watcher.onNewGeneration(({ generation, hashes }) => {
    published.dropReplaced(hashes);
    for (const key of [...merged.keys()]) if (!key.startsWith(`${generation} `)) merged.delete(key);
  });

  function readDay(symbol: string, { commit, end }: SymbolSnapshot, { day, file, journaled }: SymbolDay): KeyedColumns {
    if (journaled === undefined) return { key: `${file!.sha256} ${symbol}`, ...readPublished(symbol, commit, file) };
    // Within one commit, the same records give the same ticks.
    const key = `${commit.generation} ${commit.commitId} ${journaled} ${day} ${symbol}`;
    const cached = merged.get(key);
    if (cached !== undefined) return { key, ...cached };
    const publishedTicks = readPublished(symbol, commit, file);
    const columns = state.db.snapshot(() => {
      if (!isLastCommit(state.db, commit)) throw new ReadSupersededError();
      const chunks = readSymbolDayTicks(state.db, symbol, day, end);
      return mergePart(toSymbolPart(symbol, publishedTicks), chunks, openDayPrecedence(state.db, day)).columns;
    });
    const ticks = { t: columns.t, p: columns.p };
    merged.set(key, ticks);
    return { key, ...ticks };
  }

  function readPublished(symbol: string, commit: CommitState, file: SymbolDay['file']): TickColumns {
    if (file === undefined) return emptyTicks;
    try {
      const query = { dataset: 'ticks', file, key: symbol, ...allRows } as const;
      const { count, columns } = published.readRowsAtOnce(query, () => files.readBytes(file));
      return count === 0 ? emptyTicks : { t: columns.t as Float64Array, p: columns.p as Float64Array };
    } catch (error) {
      // A file that differs was replaced or is damaged. If it was replaced, there is another commit too: it comes first.
      if (error instanceof DamageError && !isLastCommit(state.db, commit)) throw new ReadSupersededError();
      throw error;
    }
  }

  async function readRange(query: TickRangeQuery, known: SymbolSnapshot): Promise<TickRangeResult> {
    const { symbol, to, limit } = query;
    const latest = query.from === null;
    const from = query.from ?? findStart(symbol, known, to);
    const days = known.days.filter(({ day }) => day + dayMs > from && day < to);
    if (latest) days.reverse();
    const slices: TickSlice[] = [];
    let count = 0;
    let window: Window = { from, to: Math.max(from, to) };
    for (const [i, day] of days.entries()) {
      if (i === daysMax) {
        window = latest ? { ...window, from: day.day + dayMs } : { ...window, to: day.day };
        break;
      }
      // Yield to other work: a read of many days takes most of them from disk.
      if (i % 4 === 3) await new Promise((resolve) => setImmediate(resolve));
      const columns = readDay(symbol, known, day);
      const slice = sliceColumns(columns, window);
      if (slice.from === slice.to) continue;
      const excess = count + slice.to - slice.from - limit;
      if (excess > 0) {
        // There are more than `limit` ticks: the window ends with the last one returned.
        const trimmed = latest ? { ...slice, from: slice.from + excess } : { ...slice, to: slice.to - excess };
        const edge = trimmed.from < trimmed.to ? trimmed : slices.at(-1)!;
        window = latest ? { ...window, from: edge.t[edge.from]! } : { ...window, to: edge.t[edge.to - 1]! + 1 };
        if (trimmed.from < trimmed.to) slices.push(trimmed);
        count = limit;
        break;
      }
      slices.push(slice);
      count += slice.to - slice.from;
    }
    if (latest) slices.reverse();
    return { ...window, slices, count, gaps: findGaps(window, known) };
  }

  /** Finds the first moment with data of a symbol, at most `to`. */
  function findStart(symbol: string, known: SymbolSnapshot, to: number): number {
    const first = known.days.find(({ journaled }) => journaled !== undefined);
    const journaled = first === undefined ? undefined : readDay(symbol, known, first).t[0];
    const starts = [known.covered[0]?.from, known.firstPublished ?? undefined, journaled];
    return Math.min(to, ...starts.filter((start) => start !== undefined));
  }

  return (query) =>
    retrySuperseded(archive, query.symbol, async () => {
      const known = getSnapshot(query.symbol);
      return known === null ? null : await readRange(query, known);
    });
}

/** Reads again if a publish intervenes. @throws OddslakeError (busy) if that happens too often */
async function retrySuperseded<T>(archive: Archive, symbol: string, read: () => Promise<T>): Promise<T> {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ReadSupersededError)) throw error;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  requirePublishedManifest(archive);
  throw new OddslakeError(
    exitCodes.busy,
    `The archive was published ${attemptsMax} times while ${symbol} was being read. Try again later.`,
  );
}

interface KeyedColumns extends TickColumns {
  readonly key: string;
}

/** The times of a result, ascending and distinct. */
export const concatTimes = (slices: TickRangeResult['slices']): Float64Array =>
  Float64Array.from(slices.flatMap(({ t, from, to }) => [...t.subarray(from, to)]));

const sliceColumns = (columns: KeyedColumns, { from, to }: Window): TickSlice => ({
  ...columns,
  from: findFirstAtOrAfter(columns.t, from),
  to: findFirstAtOrAfter(columns.t, to),
});

/** Finds at most `gapsMax` gaps. Further gaps are joined to the last one, so that no gap looks covered. */
function findGaps(window: Window, { covered, lost }: SymbolSnapshot): TickGap[] {
  const gaps = splitAtLostWindows(subtract([window], covered), lost).map(({ from, to, loss }): TickGap => {
    return { from, to, ...(loss !== null && { reason: 'lost' }) };
  });
  if (gaps.length <= gapsMax) return gaps;
  return [...gaps.slice(0, gapsMax - 1), { from: gaps[gapsMax - 1]!.from, to: gaps.at(-1)!.to }];
}

/** A symbol's data in one consistent state of the archive. */
interface SymbolSnapshot {
  readonly commit: CommitState;
  /** Last journal record to read. */
  readonly end: number;
  /** UTC days that may have ticks, sorted. */
  readonly days: readonly SymbolDay[];
  /** Published or journaled, sorted and disjoint. */
  readonly covered: readonly Window[];
  /** Windows whose published ticks were lost, sorted. None of them counts as covered. */
  readonly lost: readonly Window[];
  /** Time of the first published tick; null if there is none. */
  readonly firstPublished: number | null;
}

interface SymbolDay {
  readonly day: number;
  /** The published part file that may have ticks of the symbol. */
  readonly file: PublishedFile | undefined;
  /** Last journal record with ticks of the day; undefined if there is none. */
  readonly journaled: number | undefined;
}

/** A publish intervened, so the read has to start again. */
class ReadSupersededError extends Error {}

/** Maximum cached symbols. */
const symbolsMax = 4096;
/** Maximum days and windows of all cached symbols. */
const weightMax = 1_000_000;

/** Reads a symbol's snapshot, cached until the next write to the state database; null for an unknown symbol. */
function openSymbolSnapshots(archive: Archive, watcher: ManifestWatcher): (symbol: string) => SymbolSnapshot | null {
  const snapshots = new LRUCache<string, SymbolSnapshot>({
    max: symbolsMax,
    maxSize: weightMax,
    sizeCalculation: ({ days, covered, lost }) => days.length + covered.length + lost.length + 1,
  });
  let version: number | undefined;

  function read(symbol: string): SymbolSnapshot | null {
    const { db } = archive.state;
    const publishedSpan = findPublishedWindow(db, symbol);
    if (publishedSpan === undefined) return null;
    const manifest = watcher.getManifest();
    const commit = readCommitState(db);
    if (manifest.generation !== commit.generation) throw new ReadSupersededError();
    const covered = readCoverageWithoutLost(db, symbol);
    const end = readJournalEnd(db);
    const journaled = new Map(listJournaledDays(db, symbol, end).map(({ day, last }) => [day, last]));
    // If the symbols dataset was lost with the state, coverage still shows which days to read.
    const known = union([...covered, ...(publishedSpan === null ? [] : [publishedSpan])]);
    const files = findSymbolFiles(manifest, symbol);
    const days = [...new Set([...listDays(files, known), ...journaled.keys()])].sort((a, b) => a - b);
    return {
      commit,
      end,
      covered,
      lost: readLostTicks(db, symbol),
      firstPublished: publishedSpan?.from ?? null,
      days: days.map((day) => ({ day, file: files.get(day), journaled: journaled.get(day) })),
    };
  }

  return (symbol) => {
    const cached = snapshots.get(symbol);
    if (cached !== undefined && watcher.getVersion() === version) return cached;
    return archive.state.db.snapshot(() => {
      const now = watcher.getVersion();
      if (now !== version) snapshots.clear();
      version = now;
      const snapshot = read(symbol);
      if (snapshot !== null) snapshots.set(symbol, snapshot);
      return snapshot;
    });
  };
}

/** The ticks files that may have ticks of a symbol, by day, sorted: a manifest's files are sorted by path, and so by day. */
const findSymbolFiles = (manifest: Manifest, symbol: string): ReadonlyMap<number, PublishedFile> =>
  new Map(
    listFilesWithRows(manifest, 'ticks')
      .filter((file) => isInRange(getFileRange(file)!, symbol))
      .map((file) => [parseDayStart(file.date!), file]),
  );

/** The days of the files between the first and the last known moment. */
function listDays(files: ReadonlyMap<number, PublishedFile>, known: readonly Window[]): number[] {
  if (known.length === 0) return [];
  const [first, last] = [floorToDay(known[0]!.from), floorToDay(known.at(-1)!.to - 1)];
  return [...files.keys()].filter((day) => first <= day && day <= last);
}
