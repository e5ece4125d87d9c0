import type { Column, ColumnType } from '../format/datasets.ts';
import { magic, readFooter } from './metadata.ts';
import { encodeFooter, type KeptRowGroups } from './writer.ts';

/**
 * Finds the row groups at the start of a file that hold none but its first `unchangedRows` rows. A file that begins with
 * the same rows begins with the bytes of these row groups: the writer encodes each by itself. Undefined if there are none, or
 * if the file was not written by our writer with these columns and this number of rows per row group.
 * @throws Error if the file has no valid footer
 */
export function findKeptRowGroups(
  file: Uint8Array,
  columns: readonly Column[],
  unchangedRows: number,
  groupRows: number,
): KeptRowGroups | undefined {
  const count = Math.floor(unchangedRows / groupRows);
  if (count === 0) return undefined;
  const { row_groups: all, num_rows: rows } = readFooter(file);
  const scalars = columns.map(({ name, type, nullable }) => ({
    name,
    type: type as Exclude<ColumnType, 'strings'>,
    nullable,
  }));
  // The footer of another writer, or of older columns, has other bytes.
  const footer = encodeFooter(scalars, rows, all);
  const footerEnd = file.length - 4 - magic.length;
  if (Buffer.compare(file.subarray(footerEnd - footer.length, footerEnd), footer) !== 0) return undefined;
  const groups = all.slice(0, count);
  if (groups.length < count || groups.some(({ num_rows }) => num_rows !== groupRows)) return undefined;
  // They are adjacent, from the start of the file to its footer.
  let end = magic.length;
  let keptEnd = end;
  for (const [i, { file_offset, total_compressed_size = 0 }] of all.entries()) {
    if (file_offset !== end) return undefined;
    end += total_compressed_size;
    if (i < count) keptEnd = end;
  }
  if (end !== footerEnd - footer.length) return undefined;
  return { bytes: file.subarray(0, keptEnd), groups, rows: count * groupRows };
}
