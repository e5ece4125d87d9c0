import { LRUCache } from 'lru-cache';
import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import { emptyTicks, type TickColumns } from '../../base/ticks.ts';
import { parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay, subtract, union, type Window } from '../../base/window.ts';
import { splitAtLostWindows } from '../format/coverage.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';
import { mergePart } from '../format/merge.ts';
import { emptyPart, findFirstAtOrAfter, type PartColumns } from '../format/tick-columns.ts';
import { readCoverageWithoutLost, readLostTicks } from '../journal/gap-records.ts';
import { readJournalEnd } from '../journal/journal.ts';
import { openDayPrecedence } from '../journal/precedence.ts';
import { findPublishedWindow, listJournaledDays, readSymbolDayTicks } from '../journal/symbol-ticks.ts';
import { type Archive, requirePublishedManifest } from '../open-archive.ts';
import { decodeSymbolTicks, indexTickFile, readSymbolTicks, type TickFileIndex } from '../parquet/ticks-file.ts';
import type { ManifestWatcher } from './manifest-watcher.ts';
import type { VerifiedFiles } from './verified-files.ts';

export interface TickRangeQuery {
  readonly symbol: string;
  /** Epoch milliseconds; null: the latest ticks before `to`. */
  readonly from: number | null;
  /** Excluded, epoch milliseconds. */
  readonly to: number;
  /** At least 1. */
  readonly limit: number;
}

/** Ticks `from` to `to` of columns that stay as they are; `key` tells them, and the symbol's day, from all others. */
export interface TickSlice extends TickColumns {
  readonly key: string;
  readonly from: number;
  readonly to: number;
}

/** The window that was answered, epoch milliseconds, with all ticks in it, ascending. */
export interface TickRangeResult extends Window {
  readonly slices: readonly TickSlice[];
  readonly count: number;
  /** What of the window nobody has covered; the last one spans all the rest where there are more than `gapsMax`. */
  readonly gaps: readonly TickGap[];
}

export interface TickGap extends Window {
  /** `lost`: its ticks were published once and were lost. Absent where nobody ever covered it. */
  readonly reason?: 'lost';
}

/** Days of one answer: what it costs has a bound, however few ticks a day has. */
export const daysMax = 366;

/** Gaps of one answer. */
export const gapsMax = 1000;

/** How often a read begins again because a publish came between. */
const attemptsMax = 20;

/**
 * Reads the ticks of single symbols: what is published joined with what is journaled, as a publish at that moment would
 * leave it, whatever another process publishes meanwhile. Null for an unknown symbol.
 * @throws DamageError where a file that is needed differs from the manifest
 */
export type ReadTicks = (asked: TickRangeQuery) => Promise<TickRangeResult | null>;

/** @param bytesMax what is kept in memory of decoded ticks; at least 0 */
export function openTickReader(
  archive: Archive,
  current: ManifestWatcher,
  files: VerifiedFiles,
  bytesMax: number,
): ReadTicks {
  const { state } = archive;
  const stateOf = openSymbolSnapshots(archive, current);
  const parts = openSymbolTickCache(files, bytesMax / 2);
  const merged = new LRUCache<string, TickColumns>({
    maxSize: Math.max(1, Math.floor(bytesMax / 2)),
    sizeCalculation: ({ t }) => 16 * t.length + 1,
  });

  function dayOf(
    symbol: string,
    { generation, end }: SymbolSnapshot,
    { day, file, journaled }: SymbolDay,
  ): KeyedColumns {
    if (journaled === undefined) return { key: `${file!.sha256} ${symbol}`, ...published(symbol, generation, file) };
    // Of one generation, the same records give the same ticks.
    const key = `${generation} ${journaled} ${day} ${symbol}`;
    const held = merged.get(key);
    if (held !== undefined) return { key, ...held };
    const old = published(symbol, generation, file);
    const columns = state.db.snapshot(() => {
      if (state.generation() !== generation) throw new SupersededError();
      const chunks = readSymbolDayTicks(state.db, symbol, day, end);
      return mergePart(toPartColumns(symbol, old), chunks, openDayPrecedence(state.db, day)).columns;
    });
    const ticks = { t: columns.t, p: columns.p };
    merged.set(key, ticks);
    return { key, ...ticks };
  }

  function published(symbol: string, generation: number, file: SymbolDay['file']): TickColumns {
    if (file === undefined) return emptyTicks;
    try {
      return parts.readTicks(file, symbol);
    } catch (error) {
      // A file that differs was replaced, or is damaged: the generation tells which, being written before any file is.
      if (error instanceof DamageError && state.generation() !== generation) throw new SupersededError();
      throw error;
    }
  }

  async function walk(asked: TickRangeQuery, known: SymbolSnapshot): Promise<TickRangeResult> {
    const { symbol, to, limit } = asked;
    const latest = asked.from === null;
    const from = asked.from ?? startOf(symbol, known, to);
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
      // Others get their turn between days, most of which are read from disk where there are many.
      if (i % 4 === 3) await new Promise((resolve) => setImmediate(resolve));
      const columns = dayOf(symbol, known, day);
      const slice = sliceColumns(columns, window);
      if (slice.from === slice.to) continue;
      const over = count + slice.to - slice.from - limit;
      if (over > 0) {
        // One more than asked for is there: the window ends with the last that is given.
        const kept = latest ? { ...slice, from: slice.from + over } : { ...slice, to: slice.to - over };
        const edge = kept.from < kept.to ? kept : slices.at(-1)!;
        window = latest ? { ...window, from: edge.t[edge.from]! } : { ...window, to: edge.t[edge.to - 1]! + 1 };
        if (kept.from < kept.to) slices.push(kept);
        count = limit;
        break;
      }
      slices.push(slice);
      count += slice.to - slice.from;
    }
    if (latest) slices.reverse();
    return { ...window, slices, count, gaps: findGaps(window, known) };
  }

  /** The first moment of which anything is known, or `to` where it is not before that. */
  function startOf(symbol: string, known: SymbolSnapshot, to: number): number {
    const first = known.days.find(({ journaled }) => journaled !== undefined);
    const journaled = first === undefined ? undefined : dayOf(symbol, known, first).t[0];
    const starts = [known.covered[0]?.from, known.firstPublished ?? undefined, journaled];
    return Math.min(to, ...starts.filter((start) => start !== undefined));
  }

  return async (asked) => {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      try {
        const known = stateOf(asked.symbol);
        return known === null ? null : await walk(asked, known);
      } catch (error) {
        if (!(error instanceof SupersededError)) throw error;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    requirePublishedManifest(archive);
    throw new OddslakeError(
      exitCodes.busy,
      `The archive was published anew ${attemptsMax} times while ${asked.symbol} was read. Try again later.`,
    );
  };
}

interface KeyedColumns extends TickColumns {
  readonly key: string;
}

const toPartColumns = (symbol: string, { t, p }: TickColumns): PartColumns =>
  t.length === 0 ? emptyPart : { symbols: [symbol], offsets: Float64Array.of(0, t.length), t, p };

const sliceColumns = (columns: KeyedColumns, { from, to }: Window): TickSlice => ({
  ...columns,
  from: findFirstAtOrAfter(columns.t, from),
  to: findFirstAtOrAfter(columns.t, to),
});

/** At most `gapsMax`: what is too much joins the last one, so that nothing uncovered seems covered. */
function findGaps(window: Window, { covered, lost }: SymbolSnapshot): TickGap[] {
  const gaps = splitAtLostWindows(subtract([window], covered), lost).map(({ from, to, loss }): TickGap => {
    return { from, to, ...(loss !== null && { reason: 'lost' }) };
  });
  if (gaps.length <= gapsMax) return gaps;
  return [...gaps.slice(0, gapsMax - 1), { from: gaps[gapsMax - 1]!.from, to: gaps.at(-1)!.to }];
}

/** What one state of the archive says of a symbol's ticks. */
export interface SymbolSnapshot {
  readonly generation: number;
  /** The last journal record that counts. */
  readonly end: number;
  /** The UTC days that may hold ticks of it, in order. */
  readonly days: readonly SymbolDay[];
  /** Published or journaled, sorted and disjoint. */
  readonly covered: readonly Window[];
  /** Windows whose ticks were published once and were lost, in order; none of them is covered. */
  readonly lost: readonly Window[];
  /** First published tick; null where there is none. */
  readonly firstPublished: number | null;
}

export interface SymbolDay {
  readonly day: number;
  /** The published part that may hold ticks of it. */
  readonly file: PublishedFile | undefined;
  /** The last record that brought some that are not published; undefined where none did. */
  readonly journaled: number | undefined;
}

/** The manifest is of another generation than the state, or a publish came between: begin again. */
export class SupersededError extends Error {}

/** Symbols whose state is kept. */
const symbolsMax = 4096;
/** Days and windows of all of them together. */
const weightMax = 1_000_000;

/** Reads what the state says of a symbol, again only where something was written; null for an unknown symbol. */
export function openSymbolSnapshots(
  archive: Archive,
  current: ManifestWatcher,
): (symbol: string) => SymbolSnapshot | null {
  const kept = new LRUCache<string, SymbolSnapshot>({
    max: symbolsMax,
    maxSize: weightMax,
    sizeCalculation: ({ days, covered, lost }) => days.length + covered.length + lost.length + 1,
  });
  const filesOf = createPartFileIndex();
  let version: number | undefined;

  function read(symbol: string): SymbolSnapshot | null {
    const { db } = archive.state;
    const span = findPublishedWindow(db, symbol);
    if (span === undefined) return null;
    const manifest = current.getManifest();
    const generation = archive.state.generation();
    if (manifest.generation !== generation) throw new SupersededError();
    const covered = readCoverageWithoutLost(db, symbol);
    const end = readJournalEnd(db);
    const journaled = new Map(listJournaledDays(db, symbol, end).map(({ day, last }) => [day, last]));
    // Where the symbols dataset was lost with the state, coverage still tells which days to look at.
    const known = union([...covered, ...(span === null ? [] : [span])]);
    const files = filesOf(manifest, computePartNumber(symbol, manifest.parts));
    const days = [...new Set([...listDays(files, known), ...journaled.keys()])].sort((a, b) => a - b);
    return {
      generation,
      end,
      covered,
      lost: readLostTicks(db, symbol),
      firstPublished: span?.from ?? null,
      days: days.map((day) => ({ day, file: files.get(day), journaled: journaled.get(day) })),
    };
  }

  return (symbol) => {
    const held = kept.get(symbol);
    if (held !== undefined && current.getVersion() === version) return held;
    return archive.state.db.snapshot(() => {
      const now = current.getVersion();
      if (now !== version) kept.clear();
      version = now;
      const found = read(symbol);
      if (found !== null) kept.set(symbol, found);
      return found;
    });
  };
}

/** The ticks files of a part by their day, in order; worked out once a manifest. */
function createPartFileIndex(): (manifest: Manifest, part: number) => ReadonlyMap<number, PublishedFile> {
  let held: { readonly manifest: Manifest; readonly byPart: Map<string, Map<number, PublishedFile>> } | undefined;
  return (manifest, part) => {
    if (held?.manifest !== manifest) {
      const byPart = new Map<string, Map<number, PublishedFile>>();
      // A manifest's files are sorted by path, and so by day.
      for (const file of manifest.datasets.ticks.files) {
        const name = file.path.slice(file.path.lastIndexOf('/') + 1);
        const ofPart = byPart.get(name) ?? new Map<number, PublishedFile>();
        byPart.set(name, ofPart.set(parseDayStart(file.date!), file));
      }
      held = { manifest, byPart };
    }
    return held.byPart.get(`part-${String(part).padStart(2, '0')}.parquet`) ?? new Map();
  };
}

/** The days of files from the first to the last of which anything is known. */
function listDays(files: ReadonlyMap<number, PublishedFile>, known: readonly Window[]): number[] {
  if (known.length === 0) return [];
  const [first, last] = [floorToDay(known[0]!.from), floorToDay(known.at(-1)!.to - 1)];
  return [...files.keys()].filter((day) => first <= day && day <= last);
}

/** Published ticks of single symbols, the latest used of them kept decoded in memory. */
export interface SymbolTickCache {
  /**
   * The ticks of a symbol in a file of the dataset ticks; none where it holds none.
   * @throws DamageError as `VerifiedFiles.bytes`, and where the file cannot be read though it is as published
   */
  readTicks(file: PublishedFile, symbol: string): TickColumns;
}

/** What a symbol's columns weigh beside their numbers. */
const entryBytes = 200;

/** Bytes of file indexes that are kept, against those of columns. */
const indexShare = 1 / 4;

/** @param bytesMax what is kept of columns and file indexes; at least 0 */
export function openSymbolTickCache(files: VerifiedFiles, bytesMax: number): SymbolTickCache {
  // What a file is, is its hash: a replaced one is another, and falls out by itself.
  const columns = new LRUCache<string, TickColumns>({
    maxSize: Math.max(1, Math.floor(bytesMax * (1 - indexShare))),
    sizeCalculation: ({ t }) => 16 * t.length + entryBytes,
  });
  // False: it is stored in another way than our writer's, and is decoded whole.
  const indexes = new LRUCache<string, TickFileIndex | false>({
    maxSize: Math.max(1, Math.floor(bytesMax * indexShare)),
    sizeCalculation: (index) => (index === false ? entryBytes : index.memoryBytes + entryBytes),
  });

  function indexOf(file: PublishedFile, bytes: Uint8Array): TickFileIndex | false {
    const held = indexes.get(file.sha256);
    if (held !== undefined) return held;
    const index = tryRead(() => indexTickFile(bytes)) ?? false;
    indexes.set(file.sha256, index);
    return index;
  }

  function read(file: PublishedFile, symbol: string): TickColumns {
    const index = indexes.get(file.sha256);
    // Its index tells without its bytes.
    if (index !== undefined && index !== false && !index.symbolIndexes.has(symbol)) return emptyTicks;
    const bytes = files.readBytes(file);
    const known = indexOf(file, bytes);
    if (known !== false && !known.symbolIndexes.has(symbol)) return emptyTicks;
    const fast = known === false ? undefined : tryRead(() => readSymbolTicks(bytes, known, symbol));
    if (fast !== undefined) return fast;
    try {
      return decodeSymbolTicks(bytes, symbol) ?? emptyTicks;
    } catch (error) {
      throw new DamageError(`${file.path} cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }

  return {
    readTicks(file, symbol) {
      const key = `${file.sha256} ${symbol}`;
      const held = columns.get(key);
      if (held !== undefined) return held;
      const found = read(file, symbol);
      columns.set(key, found);
      return found;
    },
  };
}

/** Undefined where the fast way cannot read a file; the plain one then decides whether it is sound. */
function tryRead<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
