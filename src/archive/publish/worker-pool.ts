import type { KnownPrecedence } from '../../core/precedence.ts';
import type { SymbolsPrecedence } from '../../state/precedence.ts';
import { type MergeTask, mergePartition } from './merge-partition.ts';
import type { MergeResult } from './partition-result.ts';

/** What is known of the standing of a part's published ticks: to be asked where it is known, or as values. */
export interface PartitionPrecedence {
  readonly lookup: KnownPrecedence;
  readAll(): SymbolsPrecedence;
}

/** Those who do the work on parts. They give the same whoever they are. */
export interface MergeWorkers {
  /** Tasks that may be under way at once. */
  readonly concurrency: number;
  merge(task: MergeTask, standings: PartitionPrecedence): Promise<MergeResult>;
}

/** The thread that asks: one part after the other. */
export const inlineWorker: MergeWorkers = {
  concurrency: 1,
  merge: async (task, { lookup }) => mergePartition(task, lookup),
};
