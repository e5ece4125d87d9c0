/** A minimal archive in memory: ticks and coverage, with records applied in order. */
import type { CoveredWindow } from '../../../../src/archive/format/coverage.ts';
import type { TickRecord } from '../../../../src/archive/journal/journal.ts';
import { subtract, type Window } from '../../../../src/base/window.ts';
import type { KnownSymbol } from '../../../../src/collector/paging/prove-coverage.ts';

export interface MemoryArchive {
  readonly times: Map<string, Set<number>>;
  readonly coverage: Map<string, CoveredWindow[]>;
  append(record: TickRecord): Promise<void>;
  coverageOf(symbol: string): CoveredWindow[];
  lastTick(symbol: string): number | null;
  knownTicks(symbol: string): Omit<KnownSymbol, 'firstSeen' | 'opensAt' | 'provenTo'>;
  findTick(symbol: string, at: number): number | null;
}

export function openMemoryArchive(onRecord: (record: TickRecord) => void = () => {}): MemoryArchive {
  const times = new Map<string, Set<number>>();
  const coverage = new Map<string, CoveredWindow[]>();
  return {
    times,
    coverage,
    async append(record) {
      const { symbol, origin, withdrawn = [] } = record;
      const symbolTimes = times.get(symbol) ?? new Set<number>();
      times.set(symbol, symbolTimes);
      for (const t of record.ticks.t) symbolTimes.add(t);
      const remaining = (coverage.get(symbol) ?? []).flatMap((covered) => cutOut(covered, withdrawn));
      coverage.set(symbol, [...remaining, ...record.covered.map((covered) => ({ ...covered, origin }))]);
      onRecord(record);
      await Promise.resolve();
    },
    coverageOf: (symbol) => coverage.get(symbol) ?? [],
    knownTicks: (symbol) => {
      const all = [...(times.get(symbol) ?? [])];
      return {
        first: all.length === 0 ? null : Math.min(...all),
        last: all.length === 0 ? null : Math.max(...all),
        count: all.length,
        observedAt: null,
      };
    },
    findTick: (symbol, at) => {
      const before = [...(times.get(symbol) ?? [])].filter((t) => t <= at);
      return before.length === 0 ? null : Math.max(...before);
    },
    lastTick: (symbol) => {
      const symbolTimes = times.get(symbol);
      return symbolTimes === undefined || symbolTimes.size === 0 ? null : Math.max(...symbolTimes);
    },
  };
}

const cutOut = (covered: CoveredWindow, windows: readonly Window[]): CoveredWindow[] =>
  subtract([covered], windows).map((w) => ({ ...covered, ...w }));
