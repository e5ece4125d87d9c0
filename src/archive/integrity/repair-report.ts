import type { LostWindow } from '../format/coverage.ts';
import type { DatasetName } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import type { SortKey } from '../parquet/row-group-index.ts';
import type { VerifyFinding } from './verify.ts';

/**
 * What became of a file that was not as published: `put back` to the byte; `kept in part`, the rows that are provably
 * intact; `made anew` from what it follows from; `removed`, nothing of it being left; `set aside`, as no manifest names it.
 */
export type RepairOutcome = 'restored' | 'salvaged' | 'rebuilt' | 'removed' | 'quarantined';

export interface RepairedFile extends VerifyFinding {
  readonly outcome: RepairOutcome;
  /** Where the bytes that were found are now, relative to the root; null where there were none. */
  readonly moved_to: string | null;
  /** Rows that it was published with, and those that are gone from it; null where it holds none. */
  readonly rows: number | null;
  readonly rows_lost: number | null;
}

/** Rows that no request can bring back, as far as anything tells which they were. */
export interface UnrecoverableRows {
  readonly dataset: DatasetName;
  readonly path: string;
  readonly rows: number;
  /** Keys that they lay between, both included; null where nothing tells. */
  readonly first: SortKey | null;
  readonly last: SortKey | null;
}

export interface RepairReport {
  /** The generation that the archive is at now. */
  readonly generation: number;
  /** Files and bytes that were looked at. */
  readonly files: number;
  readonly bytes: number;
  readonly repaired: readonly RepairedFile[];
  /** Windows of ticks that are to be asked for again: their coverage was taken back. */
  readonly lost: readonly LostWindow[];
  /** What is lost for good. */
  readonly unrecoverable: readonly UnrecoverableRows[];
  /** Files that were written anew, as they are published now. */
  readonly written: readonly PublishedFile[];
  /** A sentence on a state that is damaged, or knows another coverage than is published: no repair mends it. */
  readonly state: string | null;
}
