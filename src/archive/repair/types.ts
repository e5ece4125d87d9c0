import type { LostWindow } from '../../core/data-loss.ts';
import type { SortKey } from '../../state/file-metadata.ts';
import type { PublishedFile } from '../manifest.ts';
import type { DatasetName } from '../parquet/schema.ts';
import type { UnrecoverableRows } from './repair-report.ts';
import type { LostRange, SalvagedFile } from './salvage-row-groups.ts';

/** A published file of which not every row group is intact. */
export interface DamagedFile {
  readonly dataset: DatasetName;
  readonly file: PublishedFile;
  /** What can be had of it: read anew at each call, so that nobody holds more than one. */
  salvage(): SalvagedFile;
}

/** What mending damaged files found to be lost. */
export interface RepairLosses {
  readonly windows: LostWindow[];
  readonly unrecoverable: UnrecoverableRows[];
  /** Rows that a damaged file lost, by its path. */
  readonly rowsLost: Map<string, number>;
}

/** From the first to the last key of what is lost of a file; null where nothing tells. */
export function computeKeyRange(lost: readonly LostRange[]): { first: SortKey | null; last: SortKey | null } {
  const [first, last] = [lost[0]?.keys, lost.at(-1)?.keys];
  return { first: first?.first ?? null, last: last?.last ?? null };
}
