import { computePartNumber } from '../../base/symbol-name.ts';
import type { SeriesDataset } from '../format/datasets.ts';
import type { Precedence } from '../format/precedence.ts';
import type { SeriesChunk } from '../format/series.ts';
import type { JournalBin } from '../journal/journal.ts';
import { appendSeries } from '../journal/journal-series.ts';
import { addSeriesCounts } from '../journal/series-counts.ts';
import type { State } from '../journal/state.ts';
import { ensureSymbol } from '../journal/symbols.ts';
import { openSpillReader, type SpilledRows, type SpillReader } from './spill-file.ts';

/** Rows of one symbol and UTC day from one imported file, sorted by time and spilled to disk. */
export interface SpilledSeriesChunk extends Precedence {
  readonly symbol: string;
  readonly runId: string;
  readonly spilled: SpilledRows;
}

/** Rows of a series that an import has read for the next publish, as `ImportBuffer` has ticks. */
export interface SeriesIntake {
  /** Number of entries in memory, each of a few hundred bytes. */
  readonly entries: number;
  /** When each symbol was first seen, epoch ms. */
  readonly seen: ReadonlyMap<string, number>;
  /** @param day UTC midnight of the rows; `observedAt`: epoch ms */
  add(dataset: SeriesDataset, day: number, rows: Pick<SpilledSeriesChunk, 'symbol' | 'observedAt' | 'spilled'>): void;
  /** The (day, part) pairs with rows. */
  listBins(): readonly JournalBin[];
  readChunks(bin: JournalBin): ReadonlyMap<SeriesDataset, readonly SpilledSeriesChunk[]>;
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
  readonly chunks: Map<SeriesDataset, SpilledSeriesChunk[]>;
}

/** @param rank precedence of the rows, see archive/format/merge.ts */
export function openSeriesIntake(runId: string, rank: Precedence['rank'], parts: number): SeriesIntake {
  const byKey = new Map<string, IntakeBin>();
  const seen = new Map<string, number>();
  let entries = 0;
  const toKey = ({ day, part }: JournalBin): string => `${day} ${part}`;

  function journal(state: State, { chunks }: IntakeBin, spills: SpillReader): void {
    for (const [dataset, list] of chunks)
      for (const { symbol, observedAt, spilled } of list) {
        const rows = spills.readRows(spilled);
        const record = { runId, dataset, symbol, observedAt, origin: 'import', rank, rows } as const;
        appendSeries(state, [{ ...record, rejected: [], covered: [] }]);
      }
  }

  function withSpills(work: (spills: SpillReader) => void): void {
    const spills = openSpillReader();
    try {
      work(spills);
    } finally {
      spills.close();
    }
  }

  return {
    get entries() {
      return entries;
    },
    seen,
    add(dataset, day, { symbol, observedAt, spilled }) {
      if (!seen.has(symbol)) seen.set(symbol, observedAt);
      const bin = { day, part: computePartNumber(symbol, parts) };
      const entry = byKey.get(toKey(bin)) ?? { bin, chunks: new Map() };
      byKey.set(toKey(bin), entry);
      const list = entry.chunks.get(dataset) ?? [];
      entry.chunks.set(dataset, list);
      list.push({ symbol, runId, rank, observedAt, spilled });
      entries++;
    },
    listBins: () => [...byKey.values()].map(({ bin }) => bin),
    readChunks: (bin) => byKey.get(toKey(bin))?.chunks ?? new Map(),
    commitTo(state, mergedBins) {
      for (const [symbol, at] of seen) ensureSymbol(state.db, symbol, at);
      const merged = new Set(mergedBins.map(toKey));
      withSpills((spills) => {
        for (const [key, entry] of byKey) {
          if (!merged.has(key)) journal(state, entry, spills);
          else
            for (const [dataset, list] of entry.chunks) {
              const fetched = list.reduce((sum, { spilled }) => sum + spilled.rowCount, 0);
              addSeriesCounts(state.db, runId, dataset, { fetched });
            }
        }
      });
    },
    journalTo(state) {
      withSpills((spills) => {
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
