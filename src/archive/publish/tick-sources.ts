import type { CoveredWindow } from '../../core/coverage.ts';
import type { Precedence, TickChunk } from '../../core/merge.ts';
import type { Window } from '../../core/window.ts';
import type { Database } from '../../state/database.ts';
import { type JournalBin, readBinCoverage, readBinTicks, readWithdrawals } from '../../state/journal.ts';
import { assertRowCount, type JournalIndex, listTickBins } from '../../state/journal-check.ts';
import type { SpilledTicks } from './spill-file.ts';

/** Ticks of one symbol from one answer, put aside; sorted by time. */
export interface SpilledChunk extends Precedence {
  readonly symbol: string;
  readonly runId: string;
  readonly spilled: SpilledTicks;
}

/** Where a publish takes ticks from: what is journaled, and what an import has read. */
export interface TickSource {
  /** The (day, part) pairs that it has ticks or coverage of, in order. */
  listBins(): readonly JournalBin[];
  readChunks(bin: JournalBin): readonly (TickChunk | SpilledChunk)[];
  readCoverage(bin: JournalBin): ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Windows whose published coverage is taken back, by symbol; its own coverage is laid over that. */
  readWithdrawn(bin: JournalBin): ReadonlyMap<string, readonly Window[]>;
}

/** Records of the journal up to the end of its index. What it gives is as it was accepted, or a JournalDamageError. */
export const createJournalSource = (db: Database, index: JournalIndex): TickSource => ({
  listBins: () => listTickBins(index),
  readChunks(bin) {
    const chunks = readBinTicks(db, bin, index.end);
    assertRowCount(index, 'journal_ticks', bin, chunks.length);
    return chunks;
  },
  readCoverage(bin) {
    const { covered, rows } = readBinCoverage(db, bin, index.end);
    assertRowCount(index, 'journal_cover', bin, rows);
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

/** Several as one. */
export const joinSources = (sources: readonly TickSource[]): TickSource => ({
  listBins() {
    const bins = sources.flatMap((source) => source.listBins());
    const byKey = new Map(bins.map((bin) => [`${bin.day} ${bin.part}`, bin]));
    return [...byKey.values()].sort((a, b) => a.day - b.day || a.part - b.part);
  },
  readChunks: (bin) => sources.flatMap((source) => source.readChunks(bin)),
  readCoverage: (bin) => concatBySymbol(sources.map((source) => source.readCoverage(bin))),
  readWithdrawn: (bin) => concatBySymbol(sources.map((source) => source.readWithdrawn(bin))),
});

function concatBySymbol<T>(maps: readonly ReadonlyMap<string, readonly T[]>[]): Map<string, readonly T[]> {
  const out = new Map<string, readonly T[]>();
  for (const map of maps) for (const [symbol, list] of map) out.set(symbol, [...(out.get(symbol) ?? []), ...list]);
  return out;
}
