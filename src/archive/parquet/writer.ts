import type { Column, ColumnType } from '../format/datasets.ts';
import type { CellValue } from './arrow-data.ts';
import {
  type ColumnChunk,
  encodeBooleanChunk,
  encodeNumberChunk,
  encodeStringChunk,
  encodeSymbolChunk,
  noDefinitionLevels,
  type PageRange,
} from './column-chunk.ts';
import { encodeDefinitionLevels, type PhysicalNumberType } from './encodings.ts';
import { findSymbolIndex, type SymbolOffsets } from './symbol-offsets.ts';
import {
  binary,
  bool,
  codecs,
  convertedTypes,
  i16,
  i32,
  i64,
  list,
  magic,
  physicalTypes,
  repetitions,
  struct,
  type ThriftValue,
  text,
} from './thrift.ts';

/*
 * Our own writer of Parquet files: https://github.com/apache/parquet-format
 * Several times as fast as going through Arrow and parquet-wasm, against which it is proved. It writes no lists.
 */

/** Rows of a page at most. */
export const pageRowsMax = 20_480;

/** A column of a file, and what it holds of the rows `from` to `to`. */
export interface FileColumn extends Pick<Column, 'name' | 'nullable'> {
  readonly type: ScalarColumnType;
  readonly encodeChunk: (from: number, to: number) => ColumnChunk;
}

export type ScalarColumnType = Exclude<ColumnType, 'strings'>;

const emptyStruct = struct({});

/** How columns are told in the footer: the type that is stored, and what it means. */
const footerTypes: Readonly<
  Record<ScalarColumnType, { readonly stored: number; readonly meaning: Readonly<Record<number, ThriftValue>> }>
> = {
  string: { stored: physicalTypes.text, meaning: { 6: i32(convertedTypes.utf8), 10: struct({ 1: emptyStruct }) } },
  timestamp: {
    stored: physicalTypes.int64,
    meaning: {
      6: i32(convertedTypes.timestampMillis),
      10: struct({ 8: struct({ 1: bool(true), 2: struct({ 1: emptyStruct }) }) }),
    },
  },
  double: { stored: physicalTypes.double, meaning: {} },
  int32: { stored: physicalTypes.int32, meaning: {} },
  int64: { stored: physicalTypes.int64, meaning: {} },
  boolean: { stored: physicalTypes.boolean, meaning: {} },
};

/** A Parquet file of columns of `rows` rows. Row groups lie one after another; the same chunks give the same bytes. */
export function encodeColumns(columns: readonly FileColumn[], rows: number, groupRows: number): Uint8Array {
  const file = openParquetFileWriter();
  for (let from = 0; from < rows; from += groupRows) file.addRowGroup(columns, from, Math.min(rows, from + groupRows));
  return file.finish(columns);
}

/** A Parquet file as it is made: of what was added, it holds the encoded bytes alone. */
export interface ParquetFileWriter {
  /** Adds the rows `from` to `to` of the columns as the next row group. */
  addRowGroup(columns: readonly FileColumn[], from: number, to: number): void;
  /** The file; the columns tell names and types. */
  finish(columns: readonly Omit<FileColumn, 'encodeChunk'>[]): Uint8Array;
}

export function openParquetFileWriter(): ParquetFileWriter {
  const pieces: Uint8Array[] = [magic];
  const groups: ThriftValue[] = [];
  let at = magic.length;
  let rows = 0;
  return {
    addRowGroup(columns, from, to) {
      const start = at;
      const chunks = columns.map((column) => {
        const chunk = column.encodeChunk(from, to);
        for (const piece of chunk.pieces) pieces.push(piece);
        const told = encodeChunkMetadata(column, chunk, at, to - from);
        at += chunk.compressedBytes;
        return { told, plainSize: chunk.uncompressedBytes };
      });
      groups.push(
        struct({
          1: list(chunks.map(({ told }) => told)),
          2: i64(chunks.reduce((sum, { plainSize }) => sum + plainSize, 0)),
          3: i64(to - from),
          5: i64(start),
          6: i64(at - start),
          7: i16(groups.length),
        }),
      );
      rows += to - from;
    },
    finish(columns) {
      const footer = Uint8Array.from(encodeFooter(columns, rows, groups).bytes);
      // A Uint8Array: slices of a Buffer are no copies.
      const file = new Uint8Array(at + footer.length + 4 + magic.length);
      let place = 0;
      for (const piece of pieces) {
        file.set(piece, place);
        place += piece.length;
      }
      file.set(footer, at);
      new DataView(file.buffer).setUint32(at + footer.length, footer.length, true);
      file.set(magic, at + footer.length + 4);
      return file;
    },
  };
}

/** A ColumnChunk, its pages standing at `at`. */
function encodeChunkMetadata({ name, type }: FileColumn, chunk: ColumnChunk, at: number, rows: number): ThriftValue {
  return struct({
    2: i64(0),
    3: struct({
      1: i32(footerTypes[type].stored),
      2: list(chunk.encodings.map(i32)),
      3: list([text(name)]),
      4: i32(codecs.zstd),
      5: i64(rows),
      6: i64(chunk.uncompressedBytes),
      7: i64(chunk.compressedBytes),
      9: i64(at + chunk.dictionaryPageBytes),
      11: chunk.dictionaryPageBytes === 0 ? undefined : i64(at),
      12: chunk.statistics,
    }),
  });
}

function encodeFooter(
  columns: readonly Omit<FileColumn, 'encodeChunk'>[],
  rows: number,
  groups: readonly ThriftValue[],
): ThriftValue {
  const root = struct({ 4: text('schema'), 5: i32(columns.length) });
  const elements = columns.map(({ name, type, nullable }) => {
    const { stored, meaning } = footerTypes[type];
    const repetition = nullable ? repetitions.optional : repetitions.required;
    return struct({ 1: i32(stored), 3: i32(repetition), 4: text(name), ...meaning });
  });
  return struct({
    1: i32(1),
    2: list([root, ...elements]),
    3: i64(rows),
    4: list(groups),
    6: binary(Buffer.from('oddslake')),
    // Bounds are ordered as the types are: without it readers take none of a string for true.
    7: list(columns.map(() => struct({ 1: emptyStruct }))),
  });
}

const physicalNumberTypes: Readonly<Partial<Record<ScalarColumnType, PhysicalNumberType>>> = {
  timestamp: 'int64',
  double: 'double',
  int32: 'int32',
  int64: 'int64',
};

/**
 * A Parquet file of rows that are kept together by symbol, at least one: of `columns` the first is the symbol, the others
 * are those of `values`, by name.
 */
export function encodePartFile(
  by: SymbolOffsets,
  columns: readonly Column[],
  values: Readonly<Record<string, NumberArray>>,
  groupRows: number,
): Uint8Array {
  const file = openPartFileWriter(columns, groupRows);
  file.add({ symbolOffsets: by, values });
  return file.finish();
}

/** Such a file as it is made, some symbols at a time; what is in a full row group is encoded and held no more. */
export interface PartFileWriter {
  /** Adds the rows of further symbols. */
  add(rows: BufferedRows): void;
  finish(): Uint8Array;
}

/** The same rows give the same bytes, however they are added. */
export function openPartFileWriter(columns: readonly Column[], groupRows: number): PartFileWriter {
  const file = openParquetFileWriter();
  let held: BufferedRows | undefined;
  return {
    add(rows) {
      const length = rows.symbolOffsets.offsets.at(-1)!;
      let from = 0;
      if (held !== undefined) {
        // What completes the row group that was begun, and no more: joining copies.
        from = Math.min(length, groupRows - held.symbolOffsets.offsets.at(-1)!);
        held = concatRows(held, copyRowRange(rows, 0, from));
        if (held.symbolOffsets.offsets.at(-1)! < groupRows) return;
        file.addRowGroup(toFileColumns(held, columns), 0, groupRows);
        held = undefined;
      }
      const told = toFileColumns(rows, columns);
      // One that is just full may be the last: that makes no difference to the bytes.
      for (; from + groupRows <= length; from += groupRows) file.addRowGroup(told, from, from + groupRows);
      // A copy: whoever adds may use the columns again.
      if (from < length) held = copyRowRange(rows, from, length);
    },
    finish() {
      if (held !== undefined) file.addRowGroup(toFileColumns(held, columns), 0, held.symbolOffsets.offsets.at(-1)!);
      return file.finish(columns.map(({ name, type }) => ({ name, type: type as ScalarColumnType, nullable: false })));
    },
  };
}

function toFileColumns({ symbolOffsets, values }: BufferedRows, [symbol, ...rest]: readonly Column[]): FileColumn[] {
  return [
    {
      name: symbol!.name,
      type: 'string',
      nullable: false,
      encodeChunk: (from, to) => encodeSymbolChunk(symbolOffsets, from, to, splitIntoPages(to - from)),
    },
    ...rest.map(({ name, type }) => ({
      name,
      type: type as ScalarColumnType,
      nullable: false,
      encodeChunk: (from: number, to: number): ColumnChunk => {
        const some = values[name]!.subarray(from, to);
        const numbers = some instanceof Float64Array ? some : Float64Array.from(some);
        return encodeNumberChunk(numbers, physicalNumberTypes[type as ScalarColumnType]!, splitIntoPages(to - from));
      },
    })),
  ];
}

/** Pages begin at multiples of what readers take at a time: DuckDB unpacks what it begins amid a page value by value. */
function splitIntoPages(rows: number): PageRange[] {
  const pages: PageRange[] = [];
  for (let from = 0; from < rows; from += pageRowsMax) {
    const to = Math.min(rows, from + pageRowsMax);
    pages.push({ from, to, rows: to - from, definitionLevels: noDefinitionLevels });
  }
  return pages;
}

/** The numbers of a column, whole ones where its type says so. */
export type NumberArray = Float64Array | Int32Array;

/** Rows that wait for their row group to be full: those of symbols, and the columns beside the symbol, by name. */
export interface BufferedRows {
  readonly symbolOffsets: SymbolOffsets;
  readonly values: Readonly<Record<string, NumberArray>>;
}

/** The rows of one behind those of the other; the symbols of the second come after those of the first. */
export function concatRows(a: BufferedRows, b: BufferedRows): BufferedRows {
  const rows = a.symbolOffsets.offsets.at(-1)!;
  const offsets = new Float64Array(a.symbolOffsets.offsets.length + b.symbolOffsets.symbols.length);
  offsets.set(a.symbolOffsets.offsets);
  for (let i = 1; i < b.symbolOffsets.offsets.length; i++)
    offsets[a.symbolOffsets.symbols.length + i] = rows + b.symbolOffsets.offsets[i]!;
  return {
    symbolOffsets: { symbols: [...a.symbolOffsets.symbols, ...b.symbolOffsets.symbols], offsets },
    values: mapColumns(a.values, (numbers, name) => concatNumbers(numbers, b.values[name]!)),
  };
}

function concatNumbers(a: NumberArray, b: NumberArray): NumberArray {
  const length = a.length + b.length;
  const joined = a instanceof Int32Array ? new Int32Array(length) : new Float64Array(length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

/** A copy of the rows `from` to `to`, at least one, so that the others can go. */
export function copyRowRange(
  { symbolOffsets: { symbols, offsets }, values }: BufferedRows,
  from: number,
  to: number,
): BufferedRows {
  const first = findSymbolIndex(offsets, from);
  const last = findSymbolIndex(offsets, to - 1);
  const between = offsets.slice(first, last + 2).map((offset) => Math.min(to, Math.max(from, offset)) - from);
  return {
    symbolOffsets: { symbols: symbols.slice(first, last + 1), offsets: between },
    values: mapColumns(values, (numbers) => numbers.slice(from, to)),
  };
}

const mapColumns = (
  values: BufferedRows['values'],
  change: (numbers: NumberArray, name: string) => NumberArray,
): Record<string, NumberArray> =>
  Object.fromEntries(Object.entries(values).map(([name, numbers]) => [name, change(numbers, name)]));

/** A Parquet file of rows given as arrays of values in the order of the columns, none of which is of lists. */
export const encodeFlatRows = (
  columns: readonly Column[],
  rows: readonly (readonly CellValue[])[],
  groupRows: number,
): Uint8Array =>
  encodeColumns(
    columns.map(({ name, type, nullable }, c) => ({
      name,
      type: type as ScalarColumnType,
      nullable,
      encodeChunk: (from: number, to: number): ColumnChunk =>
        encodeColumnChunk(
          type as ScalarColumnType,
          nullable,
          rows.slice(from, to).map((row) => row[c] ?? null),
        ),
    })),
    rows.length,
    groupRows,
  );

function encodeColumnChunk(type: ScalarColumnType, nullable: boolean, cells: readonly CellValue[]): ColumnChunk {
  const pages: PageRange[] = [];
  const values: CellValue[] = [];
  for (let row = 0; row < cells.length; row += pageRowsMax) {
    const some = cells.slice(row, row + pageRowsMax);
    const from = values.length;
    for (const cell of some) if (cell !== null) values.push(cell);
    const levels = nullable ? encodeDefinitionLevels(some.map((cell) => cell !== null)) : noDefinitionLevels;
    pages.push({ from, to: values.length, rows: some.length, definitionLevels: levels });
  }
  if (!nullable && values.length < cells.length) throw new Error('a column that is never null has a null');
  if (type === 'string') return encodeStringChunk(values as string[], pages);
  if (type === 'boolean') return encodeBooleanChunk(values as boolean[], pages);
  return encodeNumberChunk(Float64Array.from(values as number[]), type === 'timestamp' ? 'int64' : type, pages);
}
