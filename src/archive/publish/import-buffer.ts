import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { pushTo } from '../../base/push-to.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import type { TickColumns } from '../../base/ticks.ts';
import { dayMs, floorToDay, splitByDay, type Window } from '../../base/window.ts';
import type { CoveredWindow, Evidence } from '../format/coverage.ts';
import type { Precedence } from '../format/precedence.ts';
import type { TickChunk } from '../format/tick-columns.ts';
import type { DatedWindow } from '../format/withdrawals.ts';
import type { Database } from '../journal/database.ts';
import {
  appendTicks,
  type JournalBin,
  readBinCoverage,
  readBinTicks,
  readWithdrawals,
  sortBins,
  toBinKey,
} from '../journal/journal.ts';
import { assertRowCount, type JournalIndex, listTickBins } from '../journal/journal-check.ts';
import { addFetchedTicks } from '../journal/runs.ts';
import type { State } from '../journal/state.ts';
import { ensureSymbol } from '../journal/symbol-store.ts';
import { openSeriesIntake, type SeriesIntake } from './series-intake.ts';
import { type SpilledTicks, sliceSpilled, withSpillReader } from './spill-file.ts';

/**
 * Valid ticks of one symbol from one imported file, sorted by time and spilled to disk, and the windows the file
 * covers.
 */
export interface ImportedSymbolTicks {
  readonly symbol: string;
  /** Epoch ms. */
  readonly observedAt: number;
  readonly ticks: SpilledTicks;
  /** Index of the first tick of each UTC day: pairs of the day's midnight and the index. */
  readonly days: readonly (readonly [day: number, from: number])[];
  readonly covered: readonly ImportedCoverage[];
}

/** A window that a file covers, and the evidence for it. */
export interface ImportedCoverage {
  readonly window: Window;
  readonly evidence: Evidence;
}

/**
 * The ticks that an import has read for the next publish. That publish accepts them; an import that is interrupted
 * before then must read the files again.
 */
export interface ImportBuffer extends TickSource {
  /** Number of ticks added. */
  readonly ticks: number;
  /** Number of entries in memory, each of a few hundred bytes. */
  readonly entries: number;
  /** When each symbol was first seen, epoch ms. */
  readonly seen: ReadonlyMap<string, number>;
  /** The rows of series. `commitTo` does not include them. */
  readonly series: SeriesIntake;
  add(read: ImportedSymbolTicks): void;
  /**
   * Records in the state what the publish merged, and journals the rest (nothing is merged into a damaged part file).
   * Runs in the publish's transaction.
   */
  commitTo(state: State, mergedBins: readonly JournalBin[]): void;
  /** Journals everything, in several transactions, if no publish can merge it. */
  journalTo(state: State): void;
}

interface ImportBin {
  readonly bin: JournalBin;
  readonly chunks: SpilledChunk[];
  readonly covered: Map<string, CoveredWindow[]>;
}

/** @param rank precedence of the ticks, see archive/format/merge.ts */
export function openImportBuffer(runId: string, rank: Precedence['rank'], parts: number): ImportBuffer {
  const byKey = new Map<string, ImportBin>();
  const partBySymbol = new Map<string, number>();
  const seen = new Map<string, number>();
  const series = openSeriesIntake(runId, rank, parts);
  let ticks = 0;
  let entries = 0;

  const partOfSymbol = (symbol: string): number => {
    let part = partBySymbol.get(symbol);
    if (part === undefined) {
      part = computePartNumber(symbol, parts);
      partBySymbol.set(symbol, part);
    }
    return part;
  };
  const entryAt = (symbol: string, day: number): ImportBin => {
    const bin = { day, part: partOfSymbol(symbol) };
    let entry = byKey.get(toBinKey(bin));
    if (entry === undefined) {
      entry = { bin, chunks: [], covered: new Map() };
      byKey.set(toBinKey(bin), entry);
    }
    entries++;
    return entry;
  };

  function journal(state: State, { chunks, covered }: ImportBin): void {
    const common = { runId, origin: 'import', rank, rejected: [] } as const;
    const toEmptyWindow = (at: number): Window => ({ from: at, to: at });
    withSpillReader((spills) => {
      for (const { symbol, observedAt, spilled } of chunks) {
        const record = { ...common, symbol, observedAt, requestedWindow: toEmptyWindow(observedAt), covered: [] };
        appendTicks(state, [{ ...record, ticks: spills.read([spilled])[0]! }]);
      }
    });
    const empty = { t: new Float64Array(0), p: new Float64Array(0) };
    for (const [symbol, coveredWindows] of covered) {
      const observedAt = coveredWindows[0]!.fetchedAt;
      appendTicks(state, [
        { ...common, symbol, observedAt, requestedWindow: coveredWindows[0]!, ticks: empty, covered: coveredWindows },
      ]);
    }
  }

  return {
    get ticks() {
      return ticks;
    },
    get entries() {
      return entries + series.entries;
    },
    seen,
    series,
    add({ symbol, observedAt, ticks: spilled, days, covered }) {
      if (spilled.tickCount + covered.length === 0) return;
      seen.set(symbol, Math.min(seen.get(symbol) ?? observedAt, observedAt));
      ticks += spilled.tickCount;
      days.forEach(([day, from], i) => {
        const part = sliceSpilled(spilled, from, days[i + 1]?.[1] ?? spilled.tickCount);
        entryAt(symbol, day).chunks.push({ symbol, runId, observedAt, rank, spilled: part });
      });
      for (const { window, evidence } of covered) {
        for (const { from, to } of splitByDay(window)) {
          const entry = entryAt(symbol, floorToDay(from));
          const coveredWindow: CoveredWindow = { from, to, fetchedAt: observedAt, origin: 'import', evidence };
          pushTo(entry.covered, symbol, coveredWindow);
        }
      }
    },
    listBins: () => [...byKey.values()].map(({ bin }) => bin),
    readChunks: (bin) => byKey.get(toBinKey(bin))?.chunks ?? [],
    readCoverage: (bin) => byKey.get(toBinKey(bin))?.covered ?? new Map(),
    readWithdrawn: () => new Map(),
    commitTo(state, mergedBins) {
      for (const [symbol, at] of seen) ensureSymbol(state.db, symbol, at);
      const keys = new Set(mergedBins.map(toBinKey));
      let count = 0;
      for (const [key, entry] of byKey) {
        if (keys.has(key)) count += entry.chunks.reduce((sum, { spilled }) => sum + spilled.tickCount, 0);
        else journal(state, entry);
      }
      addFetchedTicks(state.db, runId, count);
    },
    journalTo(state) {
      for (const entry of byKey.values()) state.db.transaction(() => journal(state, entry));
      series.journalTo(state);
    },
  };
}

/** The UTC days of sorted ticks, with the index of each day's first tick. */
export function splitTicksByDay({ t }: TickColumns): [day: number, from: number][] {
  const out: [number, number][] = [];
  for (let from = 0; from < t.length; ) {
    const day = floorToDay(t[from]!);
    out.push([day, from]);
    from += findFirstAtOrAfter(t.subarray(from), day + dayMs);
  }
  return out;
}

/** Ticks of one symbol from one file, sorted by time and spilled to disk. */
export interface SpilledChunk extends Precedence {
  readonly symbol: string;
  readonly runId: string;
  readonly spilled: SpilledTicks;
}

/** The input of a publish: the journal, or the buffer of an import. */
export interface TickSource {
  /** The (day, part) pairs with ticks or coverage, sorted. */
  listBins(): readonly JournalBin[];
  readChunks(bin: JournalBin): readonly (TickChunk | SpilledChunk)[];
  readCoverage(bin: JournalBin): ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Windows whose published coverage is withdrawn, by symbol, before this source's coverage is applied. */
  readWithdrawn(bin: JournalBin): ReadonlyMap<string, readonly DatedWindow[]>;
}

/**
 * Reads the journal up to the end of its index. Its methods throw JournalDamageError if rows are damaged or missing.
 */
export const createJournalSource = (db: Database, index: JournalIndex): TickSource => ({
  listBins: () => listTickBins(index),
  readChunks(bin) {
    const chunks = readBinTicks(db, bin, index.end);
    assertRowCount(index, 'journal_ticks', bin, chunks.length);
    return chunks;
  },
  readCoverage(bin) {
    const { covered, rows } = readBinCoverage(db, bin, index.end);
    assertRowCount(index, 'journal_coverage', bin, rows);
    return covered;
  },
  readWithdrawn(bin) {
    const withdrawals = readWithdrawals(db, bin, index.end);
    assertRowCount(
      index,
      'journal_withdrawn',
      bin,
      [...withdrawals.values()].reduce((sum, { length }) => sum + length, 0),
    );
    return withdrawals;
  },
});

/** Combines several sources. */
export const joinSources = (sources: readonly TickSource[]): TickSource => ({
  listBins: () => sortBins(sources.flatMap((source) => source.listBins())),
  readChunks: (bin) => sources.flatMap((source) => source.readChunks(bin)),
  readCoverage: (bin) => concatBySymbol(sources.map((source) => source.readCoverage(bin))),
  readWithdrawn: (bin) => concatBySymbol(sources.map((source) => source.readWithdrawn(bin))),
});

function concatBySymbol<T>(maps: readonly ReadonlyMap<string, readonly T[]>[]): Map<string, readonly T[]> {
  const out = new Map<string, readonly T[]>();
  for (const map of maps) for (const [symbol, list] of map) out.set(symbol, [...(out.get(symbol) ?? []), ...list]);
  return out;
}
