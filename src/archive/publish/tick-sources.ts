import type { Covered } from '../../core/coverage.ts';
import type { Chunk, Standing } from '../../core/merge.ts';
import type { Window } from '../../core/window.ts';
import type { Database } from '../../state/database.ts';
import { type Bin, readBin, readBinCoverage, readWithdrawals } from '../../state/journal.ts';
import { type JournalIndex, requireRows, tickBins } from '../../state/journal-check.ts';
import type { Spilled } from './spill-file.ts';

/** Ticks of one symbol from one answer, put aside; sorted by time. */
export interface SpilledChunk extends Standing {
  readonly symbol: string;
  readonly runId: string;
  readonly spilled: Spilled;
}

/** Where a publish takes ticks from: what is journaled, and what an import has read. */
export interface TickSource {
  /** The (day, part) pairs that it has ticks or coverage of, in order. */
  bins(): readonly Bin[];
  chunks(bin: Bin): readonly (Chunk | SpilledChunk)[];
  coverage(bin: Bin): ReadonlyMap<string, readonly Covered[]>;
  /** Windows whose published coverage is taken back, by symbol; its own coverage is laid over that. */
  withdrawn(bin: Bin): ReadonlyMap<string, readonly Window[]>;
}

/** Records of the journal up to the end of its index. What it gives is as it was accepted, or a JournalDamageError. */
export const journalSource = (db: Database, index: JournalIndex): TickSource => ({
  bins: () => tickBins(index),
  chunks(bin) {
    const chunks = readBin(db, bin, index.end);
    requireRows(index, 'journal_ticks', bin, chunks.length);
    return chunks;
  },
  coverage(bin) {
    const { covered, rows } = readBinCoverage(db, bin, index.end);
    requireRows(index, 'journal_cover', bin, rows);
    return covered;
  },
  withdrawn(bin) {
    const withdrawals = readWithdrawals(db, bin, index.end);
    requireRows(
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
  bins() {
    const bins = sources.flatMap((source) => source.bins());
    const byKey = new Map(bins.map((bin) => [`${bin.day} ${bin.part}`, bin]));
    return [...byKey.values()].sort((a, b) => a.day - b.day || a.part - b.part);
  },
  chunks: (bin) => sources.flatMap((source) => source.chunks(bin)),
  coverage: (bin) => concatenate(sources.map((source) => source.coverage(bin))),
  withdrawn: (bin) => concatenate(sources.map((source) => source.withdrawn(bin))),
});

function concatenate<T>(maps: readonly ReadonlyMap<string, readonly T[]>[]): Map<string, readonly T[]> {
  const out = new Map<string, readonly T[]>();
  for (const map of maps) for (const [symbol, list] of map) out.set(symbol, [...(out.get(symbol) ?? []), ...list]);
  return out;
}
