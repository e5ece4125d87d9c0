import type { ColumnType } from '../format/datasets.ts';
import {
  binary,
  bool,
  emptyStruct,
  i16,
  i32,
  i64,
  list,
  optional,
  readStruct,
  required,
  struct,
  text,
  type ValueOf,
} from './thrift.ts';

/*
 * The structs and constants of the Parquet format that our files use, under their names in
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
 */

/** A Parquet file begins and ends with these four bytes. */
export const magic: Uint8Array = Buffer.from('PAR1');

const physicalTypes = { boolean: 0, int32: 1, int64: 2, double: 5, text: 6 } as const;
const convertedTypes = { utf8: 0, timestampMillis: 9, timestampMicros: 10 } as const;
export const repetitions = { required: 0, optional: 1 } as const;
export const codecs = { zstd: 6 } as const;
export const pageTypes = { data: 0, dictionary: 2 } as const;
/** https://github.com/apache/parquet-format/blob/master/Encodings.md */
export const encodings = { plain: 0, plainDictionary: 2, rle: 3, deltaBinaryPacked: 5, rleDictionary: 8 } as const;

const timeUnit = struct({ MILLIS: optional(1, emptyStruct), MICROS: optional(2, emptyStruct) });

const timestampType = struct({ isAdjustedToUTC: required(1, bool), unit: required(2, timeUnit) });

const logicalType = struct({ STRING: optional(1, emptyStruct), TIMESTAMP: optional(8, timestampType) });

const schemaElement = struct({
  type: optional(1, i32),
  repetition_type: optional(3, i32),
  name: required(4, text),
  num_children: optional(5, i32),
  converted_type: optional(6, i32),
  logicalType: optional(10, logicalType),
});

const statistics = struct({
  null_count: optional(3, i64),
  max_value: optional(5, binary),
  min_value: optional(6, binary),
  is_max_value_exact: optional(7, bool),
  is_min_value_exact: optional(8, bool),
});

const columnMetaData = struct({
  type: required(1, i32),
  encodings: required(2, list(i32)),
  path_in_schema: required(3, list(text)),
  codec: required(4, i32),
  num_values: required(5, i64),
  total_uncompressed_size: required(6, i64),
  total_compressed_size: required(7, i64),
  data_page_offset: required(9, i64),
  dictionary_page_offset: optional(11, i64),
  statistics: optional(12, statistics),
});

const columnChunk = struct({
  file_offset: required(2, i64),
  /** Optional in the format. Files without it are not read. */
  meta_data: required(3, columnMetaData),
});

const rowGroup = struct({
  columns: required(1, list(columnChunk)),
  total_byte_size: required(2, i64),
  num_rows: required(3, i64),
  file_offset: optional(5, i64),
  total_compressed_size: optional(6, i64),
  ordinal: optional(7, i16),
});

const columnOrder = struct({ TYPE_ORDER: optional(1, emptyStruct) });

export const fileMetaData = struct({
  version: required(1, i32),
  schema: required(2, list(schemaElement)),
  num_rows: required(3, i64),
  row_groups: required(4, list(rowGroup)),
  created_by: optional(6, text),
  column_orders: optional(7, list(columnOrder)),
});

const dataPageHeader = struct({
  num_values: required(1, i32),
  encoding: required(2, i32),
  definition_level_encoding: required(3, i32),
  repetition_level_encoding: required(4, i32),
});

const dictionaryPageHeader = struct({
  num_values: required(1, i32),
  encoding: required(2, i32),
  is_sorted: optional(3, bool),
});

export const pageHeader = struct({
  type: required(1, i32),
  uncompressed_page_size: required(2, i32),
  compressed_page_size: required(3, i32),
  data_page_header: optional(5, dataPageHeader),
  dictionary_page_header: optional(7, dictionaryPageHeader),
});

export type SchemaElement = ValueOf<typeof schemaElement>;
export type Statistics = ValueOf<typeof statistics>;
export type ColumnMetaData = ValueOf<typeof columnMetaData>;
export type RowGroup = ValueOf<typeof rowGroup>;
export type PageHeader = ValueOf<typeof pageHeader>;
export type FileMetaData = ValueOf<typeof fileMetaData>;

export type ScalarColumnType = Exclude<ColumnType, 'strings'>;

const toStoredTime = (converted: number, unit: ValueOf<typeof timeUnit>) => ({
  type: physicalTypes.int64,
  converted_type: converted,
  logicalType: { TIMESTAMP: { isAdjustedToUTC: true, unit } },
});

/** The physical and logical types of the column types. */
export const storedTypes: Readonly<
  Record<ScalarColumnType, { readonly type: number } & Pick<SchemaElement, 'converted_type' | 'logicalType'>>
> = {
  string: { type: physicalTypes.text, converted_type: convertedTypes.utf8, logicalType: { STRING: {} } },
  timestamp: toStoredTime(convertedTypes.timestampMillis, { MILLIS: {} }),
  timestamp_us: toStoredTime(convertedTypes.timestampMicros, { MICROS: {} }),
  double: { type: physicalTypes.double },
  int32: { type: physicalTypes.int32 },
  int64: { type: physicalTypes.int64 },
  boolean: { type: physicalTypes.boolean },
};

/** Reads the footer. @throws Error if the file is not a Parquet file */
export function readFooter(file: Uint8Array): FileMetaData {
  if (!isMagic(file.subarray(0, magic.length)) || !isMagic(file.subarray(-magic.length)))
    throw new Error('a file does not begin and end with PAR1');
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = view.getUint32(file.length - 8, true);
  return readStruct(fileMetaData, file, file.length - 8 - length).value;
}

const isMagic = (bytes: Uint8Array): boolean => Buffer.compare(bytes, magic) === 0;

export const findFirstPage = ({ data_page_offset: data, dictionary_page_offset: dictionary }: ColumnMetaData): number =>
  Math.min(data, dictionary ?? data);
