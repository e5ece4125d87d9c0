import type { LostWindow } from '../format/coverage.ts';
import type { DatasetName } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import type { SortKey } from '../parquet/row-group-index.ts';
import type { VerifyFinding } from './verify.ts';

/**
 * How a damaged file was repaired. `restored`: to the byte. `salvaged`: with the provably intact rows only. `rebuilt`:
 * from other data. `removed`: no row is left. `quarantined`: no manifest lists it.
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

/** Lost rows that no request can restore. */
export interface UnrecoverableRows {
  readonly dataset: DatasetName;
  readonly path: string;
  readonly rows: number;
  /** First and last key of the range that had the rows; null if unknown. */
  readonly first: SortKey | null;
  readonly last: SortKey | null;
}

export interface RepairReport {
  /** The current generation. */
  readonly generation: number;
  /** Number of files checked, and their bytes. */
  readonly files: number;
  readonly bytes: number;
  readonly repaired: readonly RepairedFile[];
  /** Windows of ticks that are to be asked for again: their coverage was taken back. */
  readonly lost: readonly LostWindow[];
  /** What is lost for good. */
  readonly unrecoverable: readonly UnrecoverableRows[];
  /** The rewritten files, as now published. */
  readonly written: readonly PublishedFile[];
  /** A message if the state database is damaged or differs from the published coverage; a repair does not fix this. */
  readonly state: string | null;
}
