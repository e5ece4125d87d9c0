import type { Data, Table } from 'apache-arrow';
import type { WriterProperties } from 'parquet-wasm';
import type { Column, ColumnType } from '../format/datasets.ts';
import {
  type CellValue,
  createRecordBatch,
  loadArrow,
  loadParquetWasm,
  toArrowSchema,
  toArrowType,
} from './arrow-data.ts';
import { decodeFlatRows, isFlatColumn } from './row-reader.ts';
import { encodeFlatRows, rowGroupRows } from './writer.ts';

/** Column encodings other than the default (dictionary with PLAIN fallback, zstd). */
export interface ColumnEncodings {
  /** Columns stored with delta encoding instead of a dictionary. */
  readonly deltaColumns: readonly string[];
}

/**
 * Encodes batches of Arrow columns as one Parquet file with zstd and statistics. Deterministic: the same input gives
 * the same bytes.
 */
export function encodeBatches(
  columns: readonly Column[],
  batches: readonly (readonly Data[])[],
  storage: ColumnEncodings = { deltaColumns: [] },
  groupRows = rowGroupRows,
): Uint8Array {
  const { Table, tableToIPC } = loadArrow();
  const { Table: WasmTable, writeParquet } = loadParquetWasm();
  const schema = toArrowSchema(columns);
  const table = new Table(
    schema,
    batches.map((children) => createRecordBatch(schema, children)),
  );
  return writeParquet(WasmTable.fromIPCStream(tableToIPC(table, 'stream')), createWriterProperties(storage, groupRows));
}

/** Writer properties, the same for files written at once or streamed. */
export function createWriterProperties(storage: ColumnEncodings, groupRows = rowGroupRows): WriterProperties {
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
): Uint8Array =>
  columns.some(({ type }) => type === 'strings')
    ? encodeRowsWithArrow(columns, rows, groupRows)
    : encodeFlatRows(columns, rows, groupRows);

/**
 * The same with Arrow and parquet-wasm. Used for list columns, and as the reference that the native writer is tested
 * against.
 */
export function encodeRowsWithArrow(
  columns: readonly Column[],
  rows: readonly (readonly CellValue[])[],
  groupRows = rowGroupRows,
): Uint8Array {
  if (rows.length === 0) return encodeBatches(columns, [], undefined, groupRows);
  const children = columns.map((c, i) => {
    const values = rows.map((row) => row[i] ?? null);
    const converted = c.type === 'int64' ? values.map((v) => (v === null ? null : BigInt(v as number))) : values;
    return loadArrow().vectorFromArray(converted as never[], toArrowType(c.type)).data[0]!;
  });
  return encodeBatches(columns, [children as Data[]], undefined, groupRows);
}

/** Indexes of row groups, from 0, ascending. Other row groups are not read. */
export type RowGroupIndexes = readonly number[];

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
 * Decodes these columns of a small file. Times and counts are numbers, lists are arrays. Columns that our own reader does not
 * support are decoded with Arrow.
 * @throws Error if they are not stored as our writers store them
 */
export const decodeRows = (columns: readonly Column[], bytes: Uint8Array, groups?: RowGroupIndexes): CellValue[][] =>
  columns.every(isFlatColumn) ? decodeFlatRows(columns, bytes, groups) : decodeRowsWithArrow(columns, bytes, groups);

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
  if (type === 'strings') return [...(value as Iterable<string>)];
  return value as CellValue;
}
