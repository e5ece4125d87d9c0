import type { LostWindow } from '../../core/data-loss.ts';
import type { Key } from '../../state/file-metadata.ts';
import type { PublishedFile } from '../manifest.ts';
import type { DatasetName } from '../parquet/schema.ts';
import type { GoneRows } from './repair-report.ts';
import type { LostRange, Salvaged } from './salvage-row-groups.ts';

/** A published file of which not every row group is intact. */
export interface Broken {
  readonly dataset: DatasetName;
  readonly file: PublishedFile;
  /** What can be had of it: read anew at each call, so that nobody holds more than one. */
  salvaged(): Salvaged;
}

/** What mending damaged files found to be lost. */
export interface Losses {
  readonly windows: LostWindow[];
  readonly gone: GoneRows[];
  /** Rows that a damaged file lost, by its path. */
  readonly rowsLost: Map<string, number>;
}

/** From the first to the last key of what is lost of a file; null where nothing tells. */
export function hullOf(lost: readonly LostRange[]): { first: Key | null; last: Key | null } {
  const [first, last] = [lost[0]?.keys, lost.at(-1)?.keys];
  return { first: first?.first ?? null, last: last?.last ?? null };
}
