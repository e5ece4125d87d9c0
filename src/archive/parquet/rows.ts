import type { Data, Table } from 'apache-arrow';
import type { WriterProperties } from 'parquet-wasm';
import { arrowType, batchOf, schemaOf, type Value } from './arrow-data.ts';
import { arrow, parquetWasm } from './lazy-arrow.ts';
import { decodeFlatRows } from './row-reader.ts';
import { encodeFlatRows } from './row-writer.ts';
import type { Column, ColumnType } from './schema.ts';

/** Rows of a row group: small enough that one symbol's read touches little, at a few per cent more bytes. */
export const rowGroupRows = 122_880;

/** How a file's columns are stored beyond the defaults (dictionary with a plain fallback, zstd). */
export interface Storage {
  /** Columns stored as differences instead of a dictionary. */
  readonly delta: readonly string[];
}

/** Encodes batches of Arrow columns as one Parquet file, zstd, with statistics. The same input gives the same bytes. */
export function encodeBatches(
  columns: readonly Column[],
  batches: readonly (readonly Data[])[],
  storage: Storage = { delta: [] },
  groupRows = rowGroupRows,
): Uint8Array {
  const { Table, tableToIPC } = arrow();
  const { Table: WasmTable, writeParquet } = parquetWasm();
  const schema = schemaOf(columns);
  const table = new Table(
    schema,
    batches.map((children) => batchOf(schema, children)),
  );
  return writeParquet(WasmTable.fromIPCStream(tableToIPC(table, 'stream')), writerProperties(storage, groupRows));
}

/** The same for every file, whether written at once or piece by piece. */
export function writerProperties(storage: Storage, groupRows = rowGroupRows): WriterProperties {
  const { Compression, Encoding, WriterPropertiesBuilder } = parquetWasm();
  let properties = new WriterPropertiesBuilder()
    .setCompression(Compression.ZSTD)
    .setMaxRowGroupSize(groupRows)
    .setCreatedBy('oddslake');
  for (const name of storage.delta) {
    properties = properties
      .setColumnDictionaryEnabled(name, false)
      .setColumnEncoding(name, Encoding.DELTA_BINARY_PACKED);
  }
  return properties.build();
}

export type { Value };

/** Encodes rows given as arrays of values in the order of the columns; times and counts are numbers. */
export const encodeRows = (
  columns: readonly Column[],
  rows: readonly (readonly Value[])[],
  groupRows = rowGroupRows,
): Uint8Array =>
  columns.some(({ type }) => type === 'strings')
    ? encodeRowsPlain(columns, rows, groupRows)
    : encodeFlatRows(columns, rows, groupRows);

/** The same through Arrow and parquet-wasm: the way of columns of lists, and what the other is proved against. */
export function encodeRowsPlain(
  columns: readonly Column[],
  rows: readonly (readonly Value[])[],
  groupRows = rowGroupRows,
): Uint8Array {
  const children = columns.map((c, i) => {
    const values = rows.map((row) => row[i] ?? null);
    const wide = c.type === 'int64' ? values.map((v) => (v === null ? null : BigInt(v as number))) : values;
    return arrow().vectorFromArray(wide as never[], arrowType(c.type)).data[0]!;
  });
  return encodeBatches(columns, [children as Data[]], undefined, groupRows);
}

/** Row groups of a file by their numbers, from 0, in order; none of the others is looked at. */
export type Groups = readonly number[];

/** Decodes a Parquet file, or some of its row groups, into Arrow; throws where it cannot be read. */
export function decode(bytes: Uint8Array, groups?: Groups): Table {
  const some = groups === undefined ? {} : { rowGroups: [...groups] };
  return arrow().tableFromIPC(
    parquetWasm()
      .readParquet(bytes, { batchSize: rowGroupRows, ...some })
      .intoIPCStream(),
  );
}

/**
 * Decodes a file of few rows; times and counts come as numbers, lists as arrays. What is stored otherwise than our writers
 * store rows without nulls goes the plain way, which says what is wrong with it.
 */
export function decodeRows(columns: readonly Column[], bytes: Uint8Array, groups?: Groups): Value[][] {
  try {
    return decodeFlatRows(columns, bytes, groups);
  } catch {
    return decodeRowsPlain(columns, bytes, groups);
  }
}

/** The same through Arrow and parquet-wasm. */
export function decodeRowsPlain(columns: readonly Column[], bytes: Uint8Array, groups?: Groups): Value[][] {
  const table = decode(bytes, groups);
  const vectors = columns.map((c) => table.getChild(c.name));
  const missing = columns.filter((c, i) => vectors[i] === null && !c.nullable && c.absent === undefined);
  if (missing.length > 0) throw new Error(`column ${missing.map((c) => c.name).join(', ')} is missing`);
  const rows: Value[][] = [];
  for (let r = 0; r < table.numRows; r++) {
    rows.push(
      vectors.map((vector, c) =>
        vector === null ? (columns[c]!.absent ?? null) : plain(columns[c]!.type, vector.get(r) ?? null),
      ),
    );
  }
  return rows;
}

function plain(type: ColumnType, value: unknown): Value {
  if (value === null) return null;
  if (type === 'int64') return Number(value);
  if (type === 'strings') return [...(value as Iterable<string>)];
  return value as Value;
}
