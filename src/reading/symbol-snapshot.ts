import { LRUCache } from 'lru-cache';
import type { Manifest, PublishedFile } from '../archive/manifest.ts';
import type { Archive } from '../archive/open-archive.ts';
import { computePartNumber } from '../core/partition.ts';
import { parseDayStart } from '../core/time.ts';
import { floorToDay, union, type Window } from '../core/window.ts';
import { readCoverageWithoutLost, readLostTicks } from '../state/data-loss.ts';
import { readJournalEnd } from '../state/journal.ts';
import { findPublishedWindow, listJournaledDays } from '../state/symbol-ticks.ts';
import type { ManifestWatcher } from './manifest-watcher.ts';

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
