import type { Covered } from '../../core/coverage.ts';
import type { Chunk, Standing } from '../../core/merge.ts';
import type { Database } from '../../state/database.ts';
import { type Bin, journalBins, readBin, readBinCoverage } from '../../state/journal.ts';
import type { Spilled } from './spill.ts';

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
}

/** Records of the journal up to `end`. */
export const journalSource = (db: Database, end: number): TickSource => ({
  bins: () => journalBins(db, end),
  chunks: (bin) => readBin(db, bin, end),
  coverage: (bin) => readBinCoverage(db, bin, end),
});

/** Several as one. */
export const joinSources = (sources: readonly TickSource[]): TickSource => ({
  bins() {
    const bins = sources.flatMap((source) => source.bins());
    const byKey = new Map(bins.map((bin) => [`${bin.day} ${bin.part}`, bin]));
    return [...byKey.values()].sort((a, b) => a.day - b.day || a.part - b.part);
  },
  chunks: (bin) => sources.flatMap((source) => source.chunks(bin)),
  coverage(bin) {
    const out = new Map<string, Covered[]>();
    for (const source of sources) {
      for (const [symbol, covered] of source.coverage(bin)) out.set(symbol, [...(out.get(symbol) ?? []), ...covered]);
    }
    return out;
  },
});
