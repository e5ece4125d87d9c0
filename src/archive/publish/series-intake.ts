import { pushTo } from '../../base/push-to.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import { floorToDay, splitByDay } from '../../base/window.ts';
import type { CoveredWindow } from '../format/coverage.ts';
import type { Precedence } from '../format/precedence.ts';
import { createEmptySeries, type SeriesChunk } from '../format/series.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import { type JournalBin, toBinKey } from '../journal/journal.ts';
import { appendSeries } from '../journal/journal-series.ts';
import { addSeriesCounts } from '../journal/series-counts.ts';
import type { State } from '../journal/state.ts';
import { ensureSymbol } from '../journal/symbol-store.ts';
import { type SpilledRows, type SpillReader, withSpillReader } from './spill-file.ts';

/** Rows of one symbol and UTC day from one imported file, sorted by time and spilled to disk. */
export interface SpilledSeriesChunk extends Precedence {
  readonly symbol: string;
  readonly runId: string;
  readonly spilled: SpilledRows;
}

/** Rows and coverage of a series for the next publish, all of one UTC day and part. */
export interface SeriesIntakeBin {
  readonly dataset: SeriesDataset;
  readonly chunks: readonly (SeriesChunk | SpilledSeriesChunk)[];
  /** Declared coverage by symbol. */
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
}

/** Rows of a series that an import has read for the next publish, as `ImportBuffer` has ticks. */
export interface SeriesIntake {
  /** Number of entries in memory, each of a few hundred bytes. */
  readonly entries: number;
  readonly rows: number;
  /** When each symbol was first seen, epoch ms. */
  readonly seen: ReadonlyMap<string, number>;
  /** @param day UTC midnight of the rows; `observedAt`: epoch ms */
  add(dataset: SeriesDataset, day: number, rows: Pick<SpilledSeriesChunk, 'symbol' | 'observedAt' | 'spilled'>): void;
  /**
   * Adds a window that the user declared. It must not be journaled before its rows: after an interrupted import another
   * publish would publish it without them.
   */
  addCoverage(dataset: SeriesDataset, symbol: string, window: CoveredWindow): void;
  /** The (day, part) pairs with rows or coverage. */
  listBins(): readonly JournalBin[];
  readBin(bin: JournalBin): readonly SeriesIntakeBin[];
  /**
   * Records in the state what the publish merged, and journals the rest (nothing is merged into a damaged part file).
   * Runs in the publish's transaction.
   */
  commitTo(state: State, mergedBins: readonly JournalBin[]): void;
  /** Journals everything, in several transactions, if no publish can merge it. */
  journalTo(state: State): void;
}

interface IntakeBin {
  readonly bin: JournalBin;
  readonly byDataset: Map<SeriesDataset, IntakeEntry>;
}

interface IntakeEntry extends SeriesIntakeBin {
  readonly chunks: SpilledSeriesChunk[];
  readonly covered: Map<string, CoveredWindow[]>;
}

/** @param rank precedence of the rows, see archive/format/merge.ts */
export function openSeriesIntake(runId: string, rank: Precedence['rank'], parts: number): SeriesIntake {
  const byKey = new Map<string, IntakeBin>();
  const seen = new Map<string, number>();
  let entries = 0;
  let rows = 0;

  function openEntry(dataset: SeriesDataset, day: number, symbol: string, seenAt: number): IntakeEntry {
    if (!seen.has(symbol)) seen.set(symbol, seenAt);
    entries++;
    const bin = { day, part: computePartNumber(symbol, parts) };
    const { byDataset } = byKey.get(toBinKey(bin)) ?? { byDataset: new Map<SeriesDataset, IntakeEntry>() };
    byKey.set(toBinKey(bin), { bin, byDataset });
    const entry = byDataset.get(dataset) ?? { dataset, chunks: [], covered: new Map() };
    byDataset.set(dataset, entry);
    return entry;
  }

  /** Runs in a transaction, so that no coverage is journaled without its rows. */
  function journal(state: State, { byDataset }: IntakeBin, spills: SpillReader): void {
    for (const { dataset, chunks, covered } of byDataset.values()) {
      const common = { runId, dataset, origin: 'import', rank, rejected: [] } as const;
      for (const { symbol, observedAt, spilled } of chunks)
        appendSeries(state, [{ ...common, symbol, observedAt, rows: spills.readRows(spilled), covered: [] }]);
      const rows = createEmptySeries(dataset);
      for (const [symbol, windows] of covered)
        appendSeries(state, [{ ...common, symbol, observedAt: windows[0]!.fetchedAt, rows, covered: windows }]);
    }
  }

  return {
    get entries() {
      return entries;
    },
    get rows() {
      return rows;
    },
    seen,
    add(dataset, day, { symbol, observedAt, spilled }) {
      rows += spilled.rowCount;
      openEntry(dataset, day, symbol, observedAt).chunks.push({ symbol, runId, rank, observedAt, spilled });
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
      withSpillReader((spills) => {
        for (const [key, entry] of byKey) {
          if (!merged.has(key)) journal(state, entry, spills);
          else
            for (const { dataset, chunks } of entry.byDataset.values()) {
              const fetched = chunks.reduce((sum, { spilled }) => sum + spilled.rowCount, 0);
              addSeriesCounts(state.db, runId, dataset, { fetched });
            }
        }
      });
    },
    journalTo(state) {
      withSpillReader((spills) => {
        for (const entry of byKey.values()) state.db.transaction(() => journal(state, entry, spills));
      });
    },
  };
}

/** The number of rows of a chunk, in memory or spilled. */
export const countSeriesRows = (chunk: SeriesChunk | SpilledSeriesChunk): number =>
  'spilled' in chunk ? chunk.spilled.rowCount : chunk.t.length;

/** Loads the spilled chunks into memory. */
export const loadSpilledSeries = (
  chunks: readonly (SeriesChunk | SpilledSeriesChunk)[],
  spills: SpillReader,
): SeriesChunk[] =>
  chunks.map((chunk) => {
    if (!('spilled' in chunk)) return chunk;
    const { spilled, ...rest } = chunk;
    return { ...rest, ...spills.readRows(spilled) };
  });
