import type { Random } from '../../base/ports.ts';
import { qualifySymbol } from '../../base/source-name.ts';
import type { Archive } from '../archive.ts';
import { type DatasetName, datasets } from '../format/datasets.ts';
import { createFileFilter } from '../publish/prune-files.ts';
import {
  compressChunks,
  type ExportCompression,
  type ExportFormat,
  encodeColumnar,
  requireFileIntact,
  writeFileAtomically,
} from '../read/export-file.ts';
import { openPinned } from './pinned-query.ts';
import type { Query } from './query.ts';
import {
  buildRangesSql,
  buildRowsSql,
  type DatasetSlice,
  type KeyRange,
  readSliceChunks,
  type SqlCondition,
} from './slice-query.ts';
import { quoteIdentifier, quoteLiteral } from './views.ts';

interface ExportSpec {
  /** Absolute path; an existing file is replaced. */
  readonly file: string;
  readonly format: ExportFormat;
  /** Of the whole file; default none. */
  readonly compression?: ExportCompression;
  /** Whether CSV is written for spreadsheets, as `csv_safe` of WriteFormat; default false. */
  readonly isCsvSafe?: boolean;
  readonly dataset: DatasetName;
  /** Empty for all symbols. */
  readonly symbols: readonly string[];
  /** Only symbols of these sources; absent or empty for all. */
  readonly sources?: readonly string[];
  /** Epoch milliseconds, half-open; null if open. */
  readonly from: number | null;
  readonly to: number | null;
}

/** The result, as `export --json` prints it. */
export interface ExportResult {
  readonly file: string;
  readonly dataset: DatasetName;
  readonly format: ExportFormat;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly generation: number;
  readonly from: number | null;
  readonly to: number | null;
}

interface ExportRunContext {
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Called repeatedly with the rows written and the total rows. */
  progress(rowsWritten: number, total: number): void;
}

/** Memory limit of DuckDB. A range that needs more is sorted on disk. */
const memoryBytesMax = 1024 ** 3;

/** The condition for rows whose symbol is of one of the sources. */
const selectSources = (dataset: DatasetName, sources: readonly string[]): SqlCondition => ({
  sql: sources
    .map((source) => `starts_with(${quoteIdentifier(dataset)}.symbol, ${quoteLiteral(qualifySymbol(source, ''))})`)
    .join(' OR '),
  values: [],
});

/** Writes a slice of the current generation to a file, in the sort order of the dataset. */
export async function writeExport(
  archive: Archive,
  spec: ExportSpec,
  context: ExportRunContext,
): Promise<ExportResult> {
  const { random, signal } = context;
  const { dataset, symbols, sources = [], from, to, format, isCsvSafe = false, compression = 'none', file } = spec;
  const { columns, order, time } = datasets[dataset];
  const isWanted = createFileFilter(dataset, symbols, { from, to });
  const pinnedQuery = await openPinned(archive, { names: [dataset], wanted: isWanted, memoryBytesMax }, random);
  try {
    const { manifest } = pinnedQuery.pinned;
    for (const one of manifest.datasets[dataset].files.filter(isWanted)) {
      signal.throwIfAborted();
      requireFileIntact(archive.disk, pinnedQuery.pinned, one);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const slice: DatasetSlice = {
      dataset,
      columns,
      keys: order,
      symbols,
      ...(sources.length > 0 && { condition: selectSources(dataset, sources) }),
      timeColumns: time,
      from,
      to,
    };
    const ranges = await readKeyRanges(pinnedQuery.query, slice, null, signal);
    const id = Math.floor(random() * 36 ** 8).toString(36);
    const { rows } = ranges;
    let rowsWritten = 0;
    const inFormat = { dataset, slice, format: toSliceFormat(format, isCsvSafe) };
    const pieces = streamSlice(pinnedQuery.query, inFormat, ranges, signal, (count) => {
      rowsWritten += count;
      context.progress(rowsWritten, rows);
    });
    const written = await writeFileAtomically(archive.disk, file, id, compressChunks(pieces, compression));
    return { file, dataset, format, rows, ...written, generation: manifest.generation, from, to };
  } finally {
    await pinnedQuery.close();
  }
}

/** `arrow` is the Arrow file format (Feather version 2), `arrow_stream` its stream format; `csv_safe` as in WriteFormat. */
export type SliceFormat = ExportFormat | 'arrow_stream' | 'csv_safe';

export const toSliceFormat = (format: SliceFormat, isCsvSafe: boolean): SliceFormat =>
  format === 'csv' && isCsvSafe ? 'csv_safe' : format;

/** Ranges of a slice's first key, in order. A null range is the whole slice. */
interface KeyRanges {
  readonly ranges: readonly (KeyRange | null)[];
  /** Total rows. */
  readonly rows: number;
}

/** Rows sorted at once. A slice is sorted range by range, so that memory does not grow with it. */
const sortedRowsMax = 1_000_000;

/** Splits a slice into key ranges. @param rowsMax limits the slice to its first rows; null for no limit */
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
    const rowsWanted = Math.min(Number(n), (rowsMax ?? Number.POSITIVE_INFINITY) - rows);
    if (rowsWanted === 0) break;
    const cut = rowsWanted < Number(n) ? { rowsMax: rowsWanted } : {};
    ranges.push({ first: String(first), last: String(last), ...cut });
    rows += rowsWanted;
  }
  // A result without rows still has a header or schema.
  return { ranges: ranges.length === 0 ? [null] : ranges, rows };
}

/**
 * Streams the rows of the ranges, in order, as one file of `dataset`.
 * @param onRows called with the number of rows of each chunk
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
  onRows: (rows: number) => void = () => {},
): AsyncGenerator<Uint8Array> {
  let rowsReported = 0;
  async function* chunks() {
    for await (const chunk of readSliceChunks(query, slice, ranges, signal)) {
      yield chunk;
      onRows(chunk[0]!.length);
    }
  }
  async function* texts(format: 'csv' | 'csv_safe' | 'ndjson') {
    const statements = ranges.map((range) => buildRowsSql(slice, range, false));
    for await (const text of query.readTexts(statements, format, signal, slice.condition?.values)) {
      if (text !== '') yield Buffer.from(text, 'utf8');
      // A text has no row count; DuckDB's chunks have about 2,048 rows.
      const count = Math.min(2048, rows - rowsReported);
      rowsReported += count;
      onRows(count);
    }
  }
  if (format === 'csv' || format === 'csv_safe' || format === 'ndjson') return texts(format);
  // A slice may lack columns of the dataset; the others are in the order of the dataset.
  const names = new Set(slice.columns.map(({ name }) => name));
  const columns = datasets[dataset].columns.filter(({ name }) => names.has(name));
  return encodeColumnar(dataset, columns, chunks(), format);
}
