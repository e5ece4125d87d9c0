import type { PartColumns } from '../../core/merge.ts';
import { formatDay } from '../../core/time.ts';
import type { FileRecord } from '../../state/file-metadata.ts';
import { sha256 } from '../disk/file-system.ts';
import { createFileRecord, type KeyReader } from '../parquet/row-group-index.ts';
import type { DatasetName } from '../parquet/schema.ts';

/** A file as it will be published, what the manifest says of it, and what it is made of. */
export interface EncodedFile {
  readonly dataset: DatasetName;
  readonly bytes: Uint8Array;
  readonly statistics: FileStatistics;
  /** With its path and the sha256 of its bytes. */
  readonly record: FileRecord;
}

export interface FileStatistics {
  readonly date: string | null;
  readonly rows: number;
  readonly t_min: number | null;
  readonly t_max: number | null;
  readonly symbols: number;
}

/** The facts of a part with at least one row, from its columns; `day` is its UTC midnight in epoch ms. */
export function computeFileStatistics(
  day: number,
  { symbols, offsets, t }: Pick<PartColumns, 'symbols' | 'offsets' | 't'>,
): FileStatistics {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  // Times rise within a symbol.
  for (let s = 0; s < symbols.length; s++) {
    if (offsets[s] === offsets[s + 1]) continue;
    min = Math.min(min, t[offsets[s]!]!);
    max = Math.max(max, t[offsets[s + 1]! - 1]!);
  }
  return { date: formatDay(day), rows: t.length, t_min: min, t_max: max, symbols: symbols.length };
}

/** `keyAt`: the sort keys of the file's rows. */
export const createEncodedFile = (
  dataset: DatasetName,
  path: string,
  bytes: Uint8Array,
  facts: FileStatistics,
  keyAt: KeyReader,
): EncodedFile => ({ dataset, bytes, statistics: facts, record: createFileRecord(path, bytes, sha256(bytes), keyAt) });
