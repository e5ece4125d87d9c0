import { type ExportFormat, encodeColumnar } from '../archive/copies/export-file.ts';
import { type DatasetName, datasets } from '../archive/parquet/schema.ts';
import type { Query } from '../query/query.ts';
import {
  buildRangesSql,
  buildRowsSql,
  type DatasetSlice,
  type KeyRange,
  readSliceChunks,
} from '../query/slice-query.ts';

/** `arrow` is a file (Feather version 2), `arrow_stream` the stream of the same. */
export type SliceFormat = ExportFormat | 'arrow_stream';

/** Ranges of a slice's first key, in order, to be sorted one after another; null is all of it. */
export interface KeyRanges {
  readonly ranges: readonly (KeyRange | null)[];
  /** Rows of all of them. */
  readonly rows: number;
}

/** Rows that are sorted at once: with ranges of the first key one after another, memory does not grow with the slice. */
const sortedRowsMax = 1_000_000;

/** @param rowsMax rows of the slice that are wanted, its first ones; null: all of it */
export async function readKeyRanges(
  query: Query,
  slice: DatasetSlice,
  rowsMax: number | null,
  signal: AbortSignal,
): Promise<KeyRanges> {
  const ranges: KeyRange[] = [];
  let rows = 0;
  for (const { first, last, n } of await query.readRows(
    buildRangesSql(slice, sortedRowsMax),
    slice.condition?.values,
    signal,
  )) {
    const wanted = Math.min(Number(n), (rowsMax ?? Number.POSITIVE_INFINITY) - rows);
    if (wanted === 0) break;
    const cut = wanted < Number(n) ? { rowsMax: wanted } : {};
    ranges.push({ first: String(first), last: String(last), ...cut });
    rows += wanted;
  }
  // Of no rows there is still a head, and a schema.
  return { ranges: ranges.length === 0 ? [null] : ranges, rows };
}

/**
 * The rows of ranges one after another as one file of `dataset`, as it comes into being.
 * @param tell told of every some thousand rows
 */
export function streamSlice(
  query: Query,
  {
    dataset,
    slice,
    format,
  }: { readonly dataset: DatasetName; readonly slice: DatasetSlice; readonly format: SliceFormat },
  { ranges, rows }: KeyRanges,
  signal: AbortSignal,
  tell: (rows: number) => void = () => {},
): AsyncGenerator<Uint8Array> {
  let told = 0;
  async function* chunks() {
    for await (const chunk of readSliceChunks(query, slice, ranges, signal)) {
      yield chunk;
      tell(chunk[0]!.length);
    }
  }
  async function* texts(format: 'csv' | 'ndjson') {
    const statements = ranges.map((range) => buildRowsSql(slice, range, false));
    for await (const text of query.readTexts(statements, format, signal, slice.condition?.values)) {
      if (text !== '') yield Buffer.from(text, 'utf8');
      // DuckDB's chunks have about so many rows, and texts do not say.
      const count = Math.min(2048, rows - told);
      told += count;
      tell(count);
    }
  }
  return format === 'csv' || format === 'ndjson'
    ? texts(format)
    : encodeColumnar(dataset, datasets[dataset], chunks(), format);
}
