import type { CoveredWindow, LostWindow } from '../../core/coverage.ts';
import type { MergedPart } from '../../core/merge.ts';
import type { PrecedenceWindow } from '../../core/precedence.ts';
import type { Conflict, RunTally } from '../../core/tick-columns.ts';
import type { Window } from '../../core/window.ts';
import type { TickDelta } from '../../state/symbols.ts';
import type { PublishedCoverage } from '../generation/day-tables.ts';
import type { EncodedFile } from '../generation/encode-partition.ts';
import { addLateTicks, type LateTicks, noLateTicks } from './late-ticks.ts';

/** What became of a part. */
export interface MergeResult {
  readonly merged: Omit<MergedPart, 'columns'>;
  readonly deltas: readonly TickDelta[];
  /** What is covered from now on by what answers said. */
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Windows whose coverage is taken back, before what is covered is laid over it. */
  readonly withdrawn: ReadonlyMap<string, readonly Window[]>;
  /** Lost windows that are whole again, and those that were answered with fewer ticks than were once had. */
  readonly restored: readonly LostWindow[];
  readonly lacking: readonly LostWindow[];
  /** The coverage to publish of the symbols where it is another now. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** New ticks whose moment had been covered before. */
  readonly late: LateTicks;
  /** The ticks where they changed, and the candles. */
  readonly files: readonly EncodedFile[];
}

/** The same of some of its symbols, without the files. */
export type MergeSliceResult = Omit<MergeResult, 'files'>;

/** What has come of the lots so far. */
export type MergeResultBuilder = ReturnType<typeof createMergeResult>;

export const createMergeResult = () => ({
  merged: {
    isChanged: false,
    conflicts: [] as Conflict[],
    precedence: [] as PrecedenceWindow[],
    tallies: new Map<string, RunTally>(),
    added: new Map<string, number>(),
  },
  deltas: [] as TickDelta[],
  covered: new Map<string, readonly CoveredWindow[]>(),
  withdrawn: new Map<string, readonly Window[]>(),
  restored: [] as LostWindow[],
  lacking: [] as LostWindow[],
  coverage: new Map<string, readonly PublishedCoverage[]>(),
  late: noLateTicks,
});

/** Adds what came of a lot. */
export function addSliceResult(done: MergeResultBuilder, lot: MergeSliceResult): void {
  const into = done.merged;
  const { merged } = lot;
  into.isChanged ||= merged.isChanged;
  for (const conflict of merged.conflicts) into.conflicts.push(conflict);
  for (const stretch of merged.precedence) into.precedence.push(stretch);
  for (const [symbol, count] of merged.added) into.added.set(symbol, count);
  for (const [runId, { accepted, duplicates, conflicts }] of merged.tallies) {
    const tally = into.tallies.get(runId) ?? { accepted: 0, duplicates: 0, conflicts: 0 };
    tally.accepted += accepted;
    tally.duplicates += duplicates;
    tally.conflicts += conflicts;
    into.tallies.set(runId, tally);
  }
  for (const delta of lot.deltas) done.deltas.push(delta);
  for (const [symbol, covered] of lot.covered) done.covered.set(symbol, covered);
  for (const [symbol, windows] of lot.withdrawn) done.withdrawn.set(symbol, windows);
  done.late = addLateTicks(done.late, lot.late);
  done.restored.push(...lot.restored);
  done.lacking.push(...lot.lacking);
  for (const [symbol, stretches] of lot.coverage) done.coverage.set(symbol, stretches);
}
