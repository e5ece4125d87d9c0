import type { Column, ColumnType } from '../format/datasets.ts';
import {
  concatTexts,
  copyTexts,
  dropNullTexts,
  isNullText,
  sliceTexts,
  type TextColumn,
} from '../format/text-columns.ts';
import { findSymbolIndex, type SymbolOffsets } from '../format/tick-columns.ts';
import type { CellValue } from './arrow-data.ts';
import {
  type ColumnChunk,
  encodeBooleanChunk,
  encodeNumberChunk,
  encodeStringChunk,
  encodeSymbolChunk,
  encodeTextChunk,
  noDefinitionLevels,
  type PageRange,
} from './column-chunk.ts';
import { encodeDefinitionBits, type PhysicalNumberType } from './encodings.ts';
import {
  type ColumnMetaData,
  codecs,
  type FileMetaData,
  fileMetaData,
  magic,
  type RowGroup,
  repetitions,
  type ScalarColumnType,
  storedTypes,
} from './metadata.ts';
import { encodeStruct } from './thrift.ts';

/*
 * Writes Parquet files (https://github.com/apache/parquet-format). This is several times as fast as Arrow and
 * parquet-wasm, against which it is tested. Lists are not supported.
 */

const pageRowsMax = 20_480;

/** A column of a file, with the encoder for its rows `from` to `to`. */
interface FileColumn extends Pick<Column, 'name' | 'nullable'> {
  readonly type: ScalarColumnType;
  readonly encodeChunk: (from: number, to: number) => ColumnChunk;
}

/**
 * Encodes a Parquet file of `rows` rows. Row groups are adjacent. Deterministic: the same chunks give the same bytes.
 */
function encodeColumns(columns: readonly FileColumn[], rows: number, groupRows: number): Uint8Array {
  const file = openParquetFileWriter();
  for (let from = 0; from < rows; from += groupRows) file.addRowGroup(columns, from, Math.min(rows, from + groupRows));
  return file.finish(columns);
}

/** The first row groups of a file, with which another one begins. */
export interface KeptRowGroups {
  /** The bytes of the file up to the end of these row groups. */
  readonly bytes: Uint8Array;
  readonly groups: readonly RowGroup[];
  readonly rows: number;
}

const noRowGroups: KeptRowGroups = { bytes: magic, groups: [], rows: 0 };

/** A Parquet file under construction. Holds only the encoded bytes of the added rows. */
function openParquetFileWriter(kept = noRowGroups) {
  const pieces: Uint8Array[] = [kept.bytes];
  const groups = [...kept.groups];
  let at = kept.bytes.length;
  let { rows } = kept;
  return {
    /** Adds rows `from` to `to` of the columns as the next row group. */
    addRowGroup(columns: readonly FileColumn[], from: number, to: number) {
      const start = at;
      const chunks = columns.map((column) => {
        const chunk = column.encodeChunk(from, to);
        for (const piece of chunk.pieces) pieces.push(piece);
        const metadata = toColumnMetaData(column, chunk, at, to - from);
        at += chunk.compressedBytes;
        return metadata;
      });
      groups.push({
        columns: chunks.map((metadata) => ({ file_offset: 0, meta_data: metadata })),
        total_byte_size: chunks.reduce((sum, { total_uncompressed_size: bytes }) => sum + bytes, 0),
        num_rows: to - from,
        file_offset: start,
        total_compressed_size: at - start,
        ordinal: groups.length,
      });
      rows += to - from;
    },
    /** Returns the file. The columns give names and types. */
    finish(columns: readonly Omit<FileColumn, 'encodeChunk'>[]): Uint8Array {
      const footer = encodeFooter(columns, rows, groups);
      // Not a Buffer, because slices of a Buffer are not copies.
      const file = new Uint8Array(at + footer.length + 4 + magic.length);
      let position = 0;
      for (const piece of pieces) {
        file.set(piece, position);
        position += piece.length;
      }
      file.set(footer, at);
      new DataView(file.buffer).setUint32(at + footer.length, footer.length, true);
      file.set(magic, at + footer.length + 4);
      return file;
    },
  };
}

/** The metadata of a chunk whose pages start at `at`. */
const toColumnMetaData = (
  { name, type }: FileColumn,
  chunk: ColumnChunk,
  at: number,
  rows: number,
): ColumnMetaData => ({
  type: storedTypes[type].type,
  encodings: chunk.encodings,
  path_in_schema: [name],
  codec: codecs.zstd,
  num_values: rows,
  total_uncompressed_size: chunk.uncompressedBytes,
  total_compressed_size: chunk.compressedBytes,
  data_page_offset: at + chunk.dictionaryPageBytes,
  dictionary_page_offset: chunk.dictionaryPageBytes === 0 ? undefined : at,
  statistics: chunk.statistics,
});

/** The footer of a file with these columns and row groups. */
export const encodeFooter = (
  columns: readonly Omit<FileColumn, 'encodeChunk'>[],
  rows: number,
  groups: readonly RowGroup[],
): Uint8Array => encodeStruct(fileMetaData, toFileMetaData(columns, rows, groups));

const toFileMetaData = (
  columns: readonly Omit<FileColumn, 'encodeChunk'>[],
  rows: number,
  groups: readonly RowGroup[],
): FileMetaData => ({
  version: 1,
  schema: [
    { name: 'schema', num_children: columns.length },
    ...columns.map(({ name, type, nullable }) => ({
      name,
      repetition_type: nullable ? repetitions.optional : repetitions.required,
      ...storedTypes[type],
    })),
  ],
  num_rows: rows,
  row_groups: groups,
  created_by: 'oddslake',
  // Without them readers ignore the bounds of strings.
  column_orders: columns.map(() => ({ TYPE_ORDER: {} })),
});

/**
 * Encodes a Parquet file of rows grouped by symbol, at least one row. The first of `columns` is the symbol; the others
 * are taken from `values` by name. In a nullable column NaN is stored as null.
 */
export function encodePartFile(
  symbolOffsets: SymbolOffsets,
  columns: readonly Column[],
  values: Readonly<Record<string, NumberArray>>,
  groupRows: number,
): Uint8Array {
  const file = openPartFileWriter(columns, groupRows);
  file.add({ symbolOffsets, values });
  return file.finish();
}

/**
 * Opens a part file, to which symbols are added in order. Full row groups are encoded and released. The same rows give the
 * same bytes, however they are added.
 * @param kept row groups of `groupRows` rows each that contain the first rows; these are added too, but not encoded
 */
export function openPartFileWriter(columns: readonly Column[], groupRows: number, kept: KeptRowGroups = noRowGroups) {
  const file = openParquetFileWriter(kept);
  let rowsToSkip = kept.rows;
  let buffered: BufferedRows | undefined;
  return {
    /** Adds the rows of the following symbols. */
    add(rows: BufferedRows) {
      const length = rows.symbolOffsets.offsets.at(-1)!;
      let from = Math.min(rowsToSkip, length);
      rowsToSkip -= from;
      if (buffered !== undefined) {
        // Fill only the current row group, since joining copies the rows.
        from = Math.min(length, groupRows - buffered.symbolOffsets.offsets.at(-1)!);
        buffered = concatRows(buffered, copyRowRange(rows, 0, from));
        if (buffered.symbolOffsets.offsets.at(-1)! < groupRows) return;
        file.addRowGroup(toFileColumns(buffered, columns), 0, groupRows);
        buffered = undefined;
      }
      const fileColumns = toFileColumns(rows, columns);
      // The last row group may be full or partial; the bytes are the same.
      for (; from + groupRows <= length; from += groupRows) file.addRowGroup(fileColumns, from, from + groupRows);
      // Copied, because the caller may reuse the columns.
      if (from < length) buffered = copyRowRange(rows, from, length);
    },
    finish(): Uint8Array {
      if (buffered !== undefined)
        file.addRowGroup(toFileColumns(buffered, columns), 0, buffered.symbolOffsets.offsets.at(-1)!);
      return file.finish(
        columns.map(({ name, type, nullable }) => ({ name, type: type as ScalarColumnType, nullable })),
      );
    },
  };
}

function toFileColumns(
  { symbolOffsets, values, texts }: BufferedRows,
  [symbol, ...rest]: readonly Column[],
): FileColumn[] {
  return [
    {
      name: symbol!.name,
      type: 'string',
      nullable: false,
      encodeChunk: (from, to) => encodeSymbolChunk(symbolOffsets, from, to, splitIntoPages(to - from)),
    },
    ...(rest as readonly (Column & { readonly type: ScalarColumnType })[]).map(({ name, type, nullable }) => ({
      name,
      type,
      nullable,
      encodeChunk: (from: number, to: number): ColumnChunk => {
        if (type === 'string') return encodeTextColumn(sliceTexts(texts![name]!, from, to), nullable);
        const slice = values[name]!.subarray(from, to);
        if (type === 'boolean') return encodeColumnChunk(type, nullable, toBooleans(slice));
        const numbers = slice instanceof Float64Array ? slice : Float64Array.from(slice);
        const physical = toPhysicalNumberType(type);
        if (nullable) return encodeNullableNumbers(numbers, physical);
        return encodeNumberChunk(numbers, physical, splitIntoPages(to - from));
      },
    })),
  ];
}

/** Encodes texts, of which nulls are stored as definition levels. */
function encodeTextColumn(column: TextColumn, nullable: boolean): ColumnChunk {
  const pages = splitValuesIntoPages(column.lengths.length, nullable, (row) => isNullText(column, row));
  return encodeTextChunk(dropNullTexts(column, pages.at(-1)?.to ?? 0), pages);
}

function toBooleans(values: NumberArray): (boolean | null)[] {
  const out = new Array<boolean | null>(values.length).fill(null);
  for (let i = 0; i < values.length; i++) if (!Number.isNaN(values[i])) out[i] = values[i] !== 0;
  return out;
}

/** Encodes numbers, of which NaN is stored as null. */
function encodeNullableNumbers(numbers: Float64Array, physical: PhysicalNumberType): ColumnChunk {
  const pages = splitValuesIntoPages(numbers.length, true, (row) => Number.isNaN(numbers[row]));
  const present = new Float64Array(pages.at(-1)?.to ?? 0);
  let to = 0;
  for (const number of numbers) if (!Number.isNaN(number)) present[to++] = number;
  return encodeNumberChunk(present, physical, pages);
}

/** Splits rows into pages of the values that are not null. @throws Error if there is a null in a column that is not nullable */
function splitValuesIntoPages(rows: number, nullable: boolean, isNull: (row: number) => boolean): PageRange[] {
  let to = 0;
  const pages = splitIntoPages(rows).map((page): PageRange => {
    const from = to;
    const bits = new Uint8Array(Math.ceil(page.rows / 8));
    for (let row = 0; row < page.rows; row++) {
      if (isNull(page.from + row)) continue;
      to++;
      bits[row >> 3]! |= 1 << (row & 7);
    }
    return { from, to, rows: page.rows, definitionLevels: nullable ? encodeDefinitionBits(bits) : noDefinitionLevels };
  });
  if (!nullable && to < rows) throw new Error('a column that is not nullable has a null');
  return pages;
}

/**
 * Splits rows into pages. Pages start at multiples of the readers' batch size, because DuckDB decodes value by value
 * from the middle of a page.
 */
function splitIntoPages(rows: number): PageRange[] {
  const pages: PageRange[] = [];
  for (let from = 0; from < rows; from += pageRowsMax) {
    const to = Math.min(rows, from + pageRowsMax);
    pages.push({ from, to, rows: to - from, definitionLevels: noDefinitionLevels });
  }
  return pages;
}

/** The numbers of a column; integers may be in an `Int32Array`. */
type NumberArray = Float64Array | Int32Array;

/** Rows waiting for their row group to fill: the symbols, and the other columns by name. */
interface BufferedRows {
  readonly symbolOffsets: SymbolOffsets;
  readonly values: Readonly<Record<string, NumberArray>>;
  readonly texts?: Readonly<Record<string, TextColumn>>;
}

/** Appends rows `b` to rows `a`. The symbols of `b` come after those of `a`. */
function concatRows(a: BufferedRows, b: BufferedRows): BufferedRows {
  const rows = a.symbolOffsets.offsets.at(-1)!;
  const offsets = new Float64Array(a.symbolOffsets.offsets.length + b.symbolOffsets.symbols.length);
  offsets.set(a.symbolOffsets.offsets);
  for (let i = 1; i < b.symbolOffsets.offsets.length; i++)
    offsets[a.symbolOffsets.symbols.length + i] = rows + b.symbolOffsets.offsets[i]!;
  return {
    symbolOffsets: { symbols: [...a.symbolOffsets.symbols, ...b.symbolOffsets.symbols], offsets },
    values: mapColumns(a.values, (numbers, name) => concatNumbers(numbers, b.values[name]!)),
    ...(a.texts === undefined
      ? {}
      : { texts: mapColumns(a.texts, (texts, name) => concatTexts([texts, b.texts![name]!])) }),
  };
}

function concatNumbers(a: NumberArray, b: NumberArray): NumberArray {
  const length = a.length + b.length;
  const joined = a instanceof Int32Array ? new Int32Array(length) : new Float64Array(length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

/** Copies rows `from` to `to`, at least one, so that the rest can be released. */
function copyRowRange(
  { symbolOffsets: { symbols, offsets }, values, texts }: BufferedRows,
  from: number,
  to: number,
): BufferedRows {
  const first = findSymbolIndex(offsets, from);
  const last = findSymbolIndex(offsets, to - 1);
  const partOffsets = offsets.slice(first, last + 2).map((offset) => Math.min(to, Math.max(from, offset)) - from);
  return {
    symbolOffsets: { symbols: symbols.slice(first, last + 1), offsets: partOffsets },
    values: mapColumns(values, (numbers) => numbers.slice(from, to)),
    ...(texts === undefined ? {} : { texts: mapColumns(texts, (column) => copyTexts(column, from, to)) }),
  };
}

const mapColumns = <Column>(
  columns: Readonly<Record<string, Column>>,
  convert: (column: Column, name: string) => Column,
): Record<string, Column> =>
  Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, convert(column, name)]));

/** Encodes a Parquet file from rows given as arrays in column order. List columns are not supported. */
export const encodeFlatRows = (
  columns: readonly Column[],
  rows: readonly (readonly CellValue[])[],
  groupRows: number,
): Uint8Array => encodeCells(columns, rows.length, (row, column) => rows[row]![column] ?? null, groupRows);

/**
 * Encodes a Parquet file from cells. List columns are not supported.
 * @param getCell returns the value of a row in a column; both are counted from 0
 */
export const encodeCells = (
  columns: readonly Column[],
  rows: number,
  getCell: (row: number, column: number) => CellValue,
  groupRows: number,
): Uint8Array =>
  encodeColumns(
    columns.map(({ name, type, nullable }, c) => ({
      name,
      type: type as ScalarColumnType,
      nullable,
      encodeChunk: (from: number, to: number): ColumnChunk => {
        const cells = new Array<CellValue>(to - from);
        for (let row = from; row < to; row++) cells[row - from] = getCell(row, c);
        return encodeColumnChunk(type as ScalarColumnType, nullable, cells);
      },
    })),
    rows,
    groupRows,
  );

function encodeColumnChunk(type: ScalarColumnType, nullable: boolean, cells: readonly CellValue[]): ColumnChunk {
  const pages = splitValuesIntoPages(cells.length, nullable, (row) => cells[row] === null);
  const values = cells.filter((cell) => cell !== null);
  if (type === 'string') return encodeStringChunk(values as string[], pages);
  if (type === 'boolean') return encodeBooleanChunk(values as boolean[], pages);
  return encodeNumberChunk(Float64Array.from(values as number[]), toPhysicalNumberType(type), pages);
}

const toPhysicalNumberType = (type: Exclude<ColumnType, 'string' | 'boolean' | 'strings'>): PhysicalNumberType =>
  type === 'timestamp' || type === 'timestamp_us' ? 'int64' : type;

/** Rows per row group: few enough that reading one symbol reads little else, at a cost of a few per cent in size. */
export const rowGroupRows = 122_880;
