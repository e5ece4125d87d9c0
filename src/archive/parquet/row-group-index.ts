import { sha256 } from '../disk/file-system.ts';
import { type DatasetDefinition, type DatasetName, datasets } from '../format/datasets.ts';
import { findSymbolIndex, type SymbolOffsets } from '../format/tick-columns.ts';
import { decodeColumns } from './column-reader.ts';
import { findFirstPage, magic, readFooter } from './metadata.ts';

/** Returns the sort key of row `row`, counted from 0. */
export type KeyReader = (row: number) => SortKey;

/** Records the row groups of a file that our writer created. @throws Error if it is not such a file */
export function createFileRecord(path: string, bytes: Uint8Array, hash: string, keyAt: KeyReader): FileRecord {
  const groups: RowGroup[] = [];
  let row = 0;
  let end = magic.length;
  for (const group of readRowGroupRanges(bytes)) {
    // Row groups must be adjacent, so that every byte belongs to one of them and a flipped bit can be located.
    if (group.start !== end) throw new Error(`the row groups of ${path} are not adjacent`);
    end = group.end;
    const last = row + group.rows - 1;
    groups.push({ ...group, sha256: sha256(bytes.subarray(group.start, end)), first: keyAt(row), last: keyAt(last) });
    row = last + 1;
  }
  return { path, sha256: hash, footer: bytes.slice(end), groups };
}

/** Reads the sort keys from the file itself. */
export function readFileKeys(dataset: DatasetName, bytes: Uint8Array): KeyReader {
  const { columns, order }: DatasetDefinition = datasets[dataset];
  const keys = decodeColumns(
    order.map((name) => columns.find((column) => column.name === name)!),
    bytes,
  );
  return (row) => keys.map((column) => column[row] as SortKey[number]);
}

/** Returns the sort keys of rows given as arrays in the dataset's column order. */
export function createRowKeyReader(dataset: DatasetName, rows: readonly (readonly unknown[])[]): KeyReader {
  const { columns, order }: DatasetDefinition = datasets[dataset];
  const columnIndexes = order.map((name) => columns.findIndex((column) => column.name === name));
  return (row) => columnIndexes.map((columnIndex) => (rows[row]![columnIndex] ?? null) as SortKey[number]);
}

/** Returns the sort keys of columns grouped by symbol. `rest` gives the values after the symbol. */
export const createSymbolKeyReader =
  ({ symbols, offsets }: SymbolOffsets, rest: KeyReader): KeyReader =>
  (row) => [symbols[findSymbolIndex(offsets, row)]!, ...rest(row)];

type RowGroupRange = Pick<RowGroup, 'start' | 'end' | 'rows'>;

/** Reads the byte ranges of the row groups from the offsets of their column chunks, in file order. */
const readRowGroupRanges = (bytes: Uint8Array): RowGroupRange[] =>
  readFooter(bytes).row_groups.map(({ columns, num_rows }) => {
    const chunks = columns.map(({ meta_data }) => {
      const start = findFirstPage(meta_data);
      return { start, end: start + meta_data.total_compressed_size };
    });
    return {
      start: chunks.reduce((min, chunk) => Math.min(min, chunk.start), Number.POSITIVE_INFINITY),
      end: chunks.reduce((max, chunk) => Math.max(max, chunk.end), 0),
      rows: num_rows,
    };
  });

/** The values of a row's sort key: of the columns by which the dataset is ordered. Times are epoch milliseconds. */
export type SortKey = readonly (string | number | null)[];

/** One row group of a Parquet file. */
export interface RowGroup {
  /** Byte range in the file: `start` inclusive, `end` exclusive. */
  readonly start: number;
  readonly end: number;
  /** SHA-256 of these bytes. */
  readonly sha256: string;
  readonly rows: number;
  /** Sort keys of the first and the last row. */
  readonly first: SortKey;
  readonly last: SortKey;
}

/** The row groups of one published file. */
export interface FileRecord {
  /** Relative to the archive's root. */
  readonly path: string;
  /** SHA-256 of the whole file. The record applies to no other file. */
  readonly sha256: string;
  /** The bytes after the last row group, to the end of the file. */
  readonly footer: Uint8Array;
  readonly groups: readonly RowGroup[];
}
