import { joinLists, pushTo } from '../../base/push-to.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import { floorToDay, splitByDay } from '../../base/window.ts';
import type { CoveredWindow } from '../format/coverage.ts';
import type { Precedence } from '../format/precedence.ts';
import { createEmptySeries, type SeriesChunk, type SeriesRows } from '../format/series.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import { emptyPart, type TickChunk } from '../format/tick-columns.ts';
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
import { appendSeries } from '../journal/journal-series.ts';
import { addFetchedTicks } from '../journal/runs.ts';
import { addSeriesCounts } from '../journal/series-counts.ts';
import type { State } from '../journal/state.ts';
import { ensureSymbol } from '../journal/symbol-store.ts';
import {
  listSpilledDays,
  openSpillReader,
  type SpilledChunk,
  type SpilledDays,
  type SpilledRows,
  type SpillReader,
} from './spill-file.ts';

/**
 * What an import has read for the next publish. That publish accepts it; an import that is interrupted before then must read
 * the files again. Ticks and series are apart, because a publish may merge one of them and refuse the other.
 */
export interface ImportBuffer {
  readonly ticks: Intake<'ticks'>;
  readonly series: Intake<SeriesDataset>;
  readonly rank: Precedence['rank'];
}

/** Rows and coverage of some datasets for the next publish. */
interface Intake<D extends 'ticks' | SeriesDataset> {
  /** Number of entries in memory, each of a few hundred bytes. */
  readonly entries: number;
  readonly rows: number;
  /** When each symbol was first seen, epoch ms. */
  readonly seen: ReadonlyMap<string, number>;
  /** Adds rows of one file. `observedAt`: epoch ms. */
  add(dataset: D, rows: { readonly symbol: string; readonly observedAt: number; readonly spilled: SpilledDays }): void;
  /**
   * Adds a window that a file covers, or that the user declared. It must not be journaled before its rows: after an
   * interrupted import another publish would publish it without them.
   */
  addCoverage(dataset: D, symbol: string, window: CoveredWindow): void;
  /** The (day, part) pairs with rows or coverage. */
  listBins(): readonly JournalBin[];
  readBin(bin: JournalBin): readonly IntakeEntry<D>[];
  /**
   * Records in the state what the publish merged, and journals the rest (nothing is merged into a damaged part file).
   * Runs in the publish's transaction.
   */
  commitTo(state: State, mergedBins: readonly JournalBin[]): void;
  /** Journals everything, in several transactions, if no publish can merge it. */
  journalTo(state: State): void;
}

/** Rows and coverage of one dataset, UTC day and part. */
interface IntakeEntry<D> {
  readonly dataset: D;
  readonly chunks: readonly SpilledChunk[];
  /** By symbol. */
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
}

interface OpenEntry<D> extends IntakeEntry<D> {
  readonly chunks: SpilledChunk[];
  readonly covered: Map<string, CoveredWindow[]>;
}

/** @param rank precedence of the rows, see archive/format/merge.ts */
export const openImportBuffer = (runId: string, rank: Precedence['rank'], parts: number): ImportBuffer => ({
  ticks: openIntake(runId, rank, parts),
  series: openIntake(runId, rank, parts),
  rank,
});

function openIntake<D extends 'ticks' | SeriesDataset>(
  runId: string,
  rank: Precedence['rank'],
  parts: number,
): Intake<D> {
  const byKey = new Map<string, { readonly bin: JournalBin; readonly byDataset: Map<D, OpenEntry<D>> }>();
  const partBySymbol = new Map<string, number>();
  const seen = new Map<string, number>();
  let entries = 0;
  let rows = 0;

  function openEntry(dataset: D, day: number, symbol: string, seenAt: number): OpenEntry<D> {
    seen.set(symbol, Math.min(seen.get(symbol) ?? seenAt, seenAt));
    entries++;
    const part = partBySymbol.get(symbol) ?? computePartNumber(symbol, parts);
    partBySymbol.set(symbol, part);
    const bin = { day, part };
    const { byDataset } = byKey.get(toBinKey(bin)) ?? { byDataset: new Map<D, OpenEntry<D>>() };
    byKey.set(toBinKey(bin), { bin, byDataset });
    const entry = byDataset.get(dataset) ?? { dataset, chunks: [], covered: new Map() };
    byDataset.set(dataset, entry);
    return entry;
  }

  /** Runs in a transaction, so that no coverage is journaled without its rows. */
  function journal(state: State, { dataset, chunks, covered }: IntakeEntry<D>, spills: SpillReader): void {
    const append = (
      symbol: string,
      observedAt: number,
      spilled: SpilledRows | null,
      windows: readonly CoveredWindow[],
    ): void => {
      const [read] = spilled === null ? [] : spills.read([spilled]);
      const record = { runId, symbol, observedAt, origin: 'import', rank, rejected: [], covered: windows } as const;
      if (dataset !== 'ticks') appendSeries(state, [{ ...record, dataset, rows: read ?? createEmptySeries(dataset) }]);
      else {
        const requestedWindow = windows[0] ?? { from: observedAt, to: observedAt };
        appendTicks(state, [{ ...record, requestedWindow, ticks: read === undefined ? emptyPart : toTicks(read) }]);
      }
    };
    for (const { symbol, observedAt, spilled } of chunks) append(symbol, observedAt, spilled, []);
    for (const [symbol, windows] of covered) append(symbol, windows[0]!.fetchedAt, null, windows);
  }

  function countFetched(state: State, { dataset, chunks }: IntakeEntry<D>): void {
    const fetched = chunks.reduce((sum, { spilled }) => sum + spilled.rowCount, 0);
    if (dataset === 'ticks') addFetchedTicks(state.db, runId, fetched);
    else addSeriesCounts(state.db, runId, dataset, { fetched });
  }

  return {
    get entries() {
      return entries;
    },
    get rows() {
      return rows;
    },
    seen,
    add(dataset, { symbol, observedAt, spilled: all }) {
      for (const { day, spilled } of listSpilledDays(all)) {
        rows += spilled.rowCount;
        openEntry(dataset, day, symbol, observedAt).chunks.push({ symbol, runId, rank, observedAt, spilled });
      }
    },
    addCoverage(dataset, symbol, window) {
      for (const piece of splitByDay(window)) {
        const { covered } = openEntry(dataset, floorToDay(piece.from), symbol, window.fetchedAt);
        pushTo(covered, symbol, { ...window, ...piece });
      }
    },
    listBins: () => [...byKey.values()].map(({ bin }) => bin),
    readBin: (bin) => [...(byKey.get(toBinKey(bin))?.byDataset.values() ?? [])],
    commitTo(state, mergedBins) {
      for (const [symbol, at] of seen) ensureSymbol(state.db, symbol, at);
      const merged = new Set(mergedBins.map(toBinKey));
      using spills = openSpillReader();
      for (const [key, { byDataset }] of byKey)
        for (const entry of byDataset.values())
          if (merged.has(key)) countFetched(state, entry);
          else journal(state, entry, spills);
    },
    journalTo(state) {
      using spills = openSpillReader();
      for (const { byDataset } of byKey.values())
        state.db.transaction(() => {
          for (const entry of byDataset.values()) journal(state, entry, spills);
        });
    },
  };
}

const toTicks = ({ t, values }: SeriesRows) => ({ t, p: values[0]! });

/** The rows and coverage to merge into one part of one series. */
export interface SeriesInput {
  readonly dataset: SeriesDataset;
  readonly chunks: readonly (SeriesChunk | SpilledChunk)[];
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
}

/** Rows of series to merge, besides those of the journal. */
export interface SeriesSource {
  listBins(): readonly JournalBin[];
  readBin(bin: JournalBin): readonly SeriesInput[];
}

/** Ticks to merge: those of the journal, of an import, or of another archive. */
export interface TickSource {
  /** The (day, part) pairs with ticks or coverage, sorted. */
  listBins(): readonly JournalBin[];
  readChunks(bin: JournalBin): readonly (TickChunk | SpilledChunk)[];
  readCoverage(bin: JournalBin): ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Windows whose published coverage is withdrawn, by symbol, before this source's coverage is applied. */
  readWithdrawn(bin: JournalBin): ReadonlyMap<string, readonly DatedWindow[]>;
}

export const createIntakeSource = ({ listBins, readBin }: Intake<'ticks'>): TickSource => ({
  listBins,
  readChunks: (bin) => readBin(bin)[0]?.chunks ?? [],
  readCoverage: (bin) => readBin(bin)[0]?.covered ?? new Map(),
  readWithdrawn: () => new Map(),
});

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
  readCoverage: (bin) => joinLists(sources.map((source) => source.readCoverage(bin))),
  readWithdrawn: (bin) => joinLists(sources.map((source) => source.readWithdrawn(bin))),
});
