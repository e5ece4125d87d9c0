import type { Data, Table } from 'apache-arrow';
import type { WriterProperties } from 'parquet-wasm';
import type { Column, ColumnType } from '../format/datasets.ts';
import {
  type CellValue,
  createRecordBatch,
  loadArrow,
  loadParquetWasm,
  toArrowData,
  toArrowSchema,
} from './arrow-data.ts';
import { decodeFlatRows } from './column-reader.ts';
import type { RowGroupIndexes } from './file-pages.ts';
import { encodeFlatRows, rowGroupRows } from './writer.ts';

/** Column encodings other than the default (dictionary with PLAIN fallback, zstd). */
export interface ColumnEncodings {
  /** Columns stored with delta encoding instead of a dictionary. */
  readonly deltaColumns: readonly string[];
}

/** Properties of parquet-wasm's writer, the same for files written at once or streamed. */
export function createWriterProperties(
  storage: ColumnEncodings = { deltaColumns: [] },
  groupRows = rowGroupRows,
): WriterProperties {
  const { Compression, Encoding, WriterPropertiesBuilder } = loadParquetWasm();
  let properties = new WriterPropertiesBuilder()
    .setCompression(Compression.ZSTD)
    .setMaxRowGroupSize(groupRows)
    .setCreatedBy('oddslake');
  for (const name of storage.deltaColumns) {
    properties = properties
      .setColumnDictionaryEnabled(name, false)
      .setColumnEncoding(name, Encoding.DELTA_BINARY_PACKED);
  }
  return properties.build();
}

export type { CellValue };

/** Encodes rows given as arrays in column order. Times and counts are numbers. */
export const encodeRows = (
  columns: readonly Column[],
  rows: readonly (readonly CellValue[])[],
  groupRows = rowGroupRows,
): Uint8Array => (columns.some(isList) ? encodeRowsWithArrow : encodeFlatRows)(columns, rows, groupRows);

const isList = ({ type }: Column): boolean => type === 'strings';

/**
 * The same with Arrow and parquet-wasm. Used for list columns, and as the reference that the native writer is tested
 * against.
 */
export function encodeRowsWithArrow(
  columns: readonly Column[],
  rows: readonly (readonly CellValue[])[],
  groupRows = rowGroupRows,
): Uint8Array {
  const { Table, tableToIPC } = loadArrow();
  const { Table: WasmTable, writeParquet } = loadParquetWasm();
  const schema = toArrowSchema(columns);
  const toData = ({ type }: Column, c: number): Data =>
    toArrowData(
      type,
      rows.map((row) => row[c] ?? null),
    );
  const batches = rows.length === 0 ? [] : [createRecordBatch(schema, columns.map(toData))];
  const stream = tableToIPC(new Table(schema, batches), 'stream');
  return writeParquet(WasmTable.fromIPCStream(stream), createWriterProperties(undefined, groupRows));
}

/** Decodes a Parquet file, or some of its row groups, into Arrow. @throws Error if it cannot be read */
export function decodeArrowTable(bytes: Uint8Array, groups?: RowGroupIndexes): Table {
  const options = groups === undefined ? {} : { rowGroups: [...groups] };
  return loadArrow().tableFromIPC(
    loadParquetWasm()
      .readParquet(bytes, { batchSize: rowGroupRows, ...options })
      .intoIPCStream(),
  );
}

/**
 * Decodes these columns of a small file. Times and counts are numbers, lists are arrays. Lists are decoded with Arrow, and
 * so are the other columns then.
 * @throws Error if they are not stored as our writers store them
 */
export const decodeRows = (columns: readonly Column[], bytes: Uint8Array, groups?: RowGroupIndexes): CellValue[][] =>
  (columns.some(isList) ? decodeRowsWithArrow : decodeFlatRows)(columns, bytes, groups);

/** The same with Arrow and parquet-wasm. */
export function decodeRowsWithArrow(
  columns: readonly Column[],
  bytes: Uint8Array,
  groups?: RowGroupIndexes,
): CellValue[][] {
  const table = decodeArrowTable(bytes, groups);
  const vectors = columns.map((c) => table.getChild(c.name));
  const missing = columns.filter((_, i) => vectors[i] === null);
  if (missing.length > 0) throw new Error(`column ${missing.map((c) => c.name).join(', ')} is missing`);
  const rows: CellValue[][] = [];
  for (let r = 0; r < table.numRows; r++) {
    rows.push(vectors.map((vector, c) => toCellValue(columns[c]!.type, vector!.get(r) ?? null)));
  }
  return rows;
}

function toCellValue(type: ColumnType, value: unknown): CellValue {
  if (value === null) return null;
  if (type === 'int64') return Number(value);
  // Arrow returns milliseconds.
  if (type === 'timestamp_us') return Math.round(1000 * (value as number));
  if (type === 'strings') return [...(value as Iterable<string>)];
  return value as CellValue;
}
