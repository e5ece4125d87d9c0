import { isUtf8 } from 'node:buffer';
import type { Column, ColumnType, DatasetName } from '../format/datasets.ts';
import {
  concatTexts,
  createNullTexts,
  pickTexts,
  readText,
  type TextColumn,
  toTextColumn,
} from '../format/text-columns.ts';
import type { SymbolOffsets } from '../format/tick-columns.ts';
import type { CellValue } from './arrow-data.ts';
import {
  type ColumnPages,
  type FilePages,
  type RowGroupIndexes,
  readDatasetPages,
  readFilePages,
} from './file-pages.ts';
import { encodings } from './metadata.ts';
import {
  type CompressedPage,
  type DataPage,
  type DecompressPage,
  decompressPage,
  type NumberType,
  readColumnValues,
  readLevels,
  visitIndexes,
} from './page-decoder.ts';

// Reads columns without Arrow and parquet-wasm, which take longer to load than a day's coverage takes to read. Lists are
// not supported.

/** A part file of a dataset, whose rows are grouped by symbol. */
interface PartFile extends SymbolOffsets {
  readonly rows: number;
  /** Reads a column of numbers or booleans, which are 0 and 1; null is NaN. */
  readNumbers(name: string): Float64Array;
  readTexts(name: string): TextColumn;
  isAllNull(name: string): boolean;
}

/** @throws Error if the file is not stored as our writers store the dataset; methods do too */
export function openPartFile(dataset: DatasetName, file: Uint8Array, groups?: RowGroupIndexes): PartFile {
  const pages = readDatasetPages(file, dataset, groups);
  const { rows, columns } = pages;
  const symbols: string[] = [];
  const starts: number[] = [];
  visitRuns(pages, 'symbol', (symbol, row) => {
    symbols.push(symbol);
    starts.push(row);
  });
  return {
    symbols,
    offsets: Float64Array.from([...starts, rows]),
    rows,
    readNumbers: (name) => readNumbers(file, columns.get(name)!, 0, rows),
    readTexts: (name) => readTextColumn(file, columns.get(name)!, rows),
    isAllNull: (name) => columns.get(name)!.isAllNull,
  };
}

/** Calls `visit` with the text and the first row of each run of equal texts of a column without nulls. */
export function visitRuns(
  { file, columns, rows }: FilePages,
  name: string,
  visit: (text: string, row: number) => void,
): void {
  let row = 0;
  let previous: string | undefined;
  visitTexts(file, columns.get(name)!.pages, 0, rows, (text, count) => {
    if (text !== previous) visit(text, row);
    previous = text;
    row += count;
  });
}

/**
 * Decodes columns of a file, or of some of its row groups.
 * @throws Error if a column is not stored as our writers store it
 */
export function decodeColumns(
  columns: readonly Column[],
  file: Uint8Array,
  groups?: RowGroupIndexes,
): ArrayLike<CellValue>[] {
  const { columns: pages, rows } = readFilePages(file, columns, groups);
  return columns.map(({ name }) => decodeCells(file, pages.get(name)!, rows));
}

/** Decodes the rows of a file, or of some of its row groups, as arrays in column order. @throws Error as `decodeColumns` does */
export function decodeFlatRows(columns: readonly Column[], file: Uint8Array, groups?: RowGroupIndexes): CellValue[][] {
  const values = decodeColumns(columns, file, groups);
  return Array.from({ length: values[0]?.length ?? 0 }, (_, row) => values.map((column) => column[row]!));
}

function decodeCells(file: Uint8Array, column: ColumnPages, rows: number): ArrayLike<CellValue> {
  const { type, nullable, pages, isAllNull } = column;
  if (isAllNull) return new Array<null>(rows).fill(null);
  if (type === 'string' && nullable) {
    const texts = readTextColumn(file, column, rows);
    return Array.from({ length: rows }, (_, row) => readText(texts, row));
  }
  if (type === 'string') {
    const out: string[] = [];
    visitTexts(file, pages, 0, rows, (text, count) => {
      for (let i = 0; i < count; i++) out.push(text);
    });
    return out;
  }
  const numbers = readNumbers(file, column, 0, rows);
  if (!nullable && type !== 'boolean') return numbers;
  return Array.from(numbers, (value) => (Number.isNaN(value) ? null : type === 'boolean' ? value === 1 : value));
}

const toNumberType = (type: ColumnType): NumberType =>
  type === 'double' || type === 'int32' || type === 'boolean' ? type : 'int64';

/**
 * Reads rows `from` to `to` of a column of numbers or booleans; null is NaN.
 * @param decompress may return bytes that it has kept; they are not modified
 */
export function readNumbers(
  file: Uint8Array,
  column: ColumnPages,
  from: number,
  to: number,
  decompress: DecompressPage = decompressPage,
): Float64Array {
  const type = toNumberType(column.type);
  if (!column.nullable) return readColumnValues(file, column.pages, type, from, to, decompress);
  const needed = column.pages.filter(({ firstRow, rows }) => firstRow < to && firstRow + rows > from);
  const out = new Float64Array(to - from);
  const bodies = new Map<CompressedPage, Uint8Array>();
  const presence: Uint8Array[] = [];
  let present = 0;
  // The values of a page follow its definition levels, without the nulls.
  const dense = needed.map((page) => {
    const { values, isPresent, count } = splitPage(decompress(file, page), page.rows);
    const body = { ...page, firstRow: present, rows: count };
    bodies.set(body, values);
    presence.push(isPresent);
    present += count;
    return body;
  });
  const numbers = readColumnValues(file, dense, type, 0, present, (_, page) => bodies.get(page)!);
  let missing = to - from;
  let next = 0;
  needed.forEach(({ firstRow, rows }, i) => {
    missing -= Math.min(to, firstRow + rows) - Math.max(from, firstRow);
    const isPresent = presence[i]!;
    // Rows outside the range are outside the array too, where nothing is stored.
    for (let r = 0, at = firstRow - from; r < rows; r++, at++)
      out[at] = isPresent[r] === 1 ? numbers[next++]! : Number.NaN;
  });
  if (missing !== 0) throw new Error('pages are missing');
  return out;
}

/** A page of a nullable column: 1 for each row with a value and 0 for the others, and the encoded values. */
interface NullablePage {
  readonly isPresent: Uint8Array;
  readonly count: number;
  readonly values: Uint8Array;
}

/** Reads the definition levels, with which a page begins: https://github.com/apache/parquet-format/blob/master/Encodings.md#RLE */
function splitPage(bytes: Uint8Array, rows: number): NullablePage {
  const end = 4 + new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(0, true);
  if (end > bytes.length) throw new Error('definition levels are truncated');
  const isPresent = readLevels(bytes.subarray(4, end), rows);
  let count = 0;
  for (const level of isPresent) count += level;
  return { isPresent, count, values: bytes.subarray(end) };
}

/** Reads all rows of a column of texts. */
function readTextColumn(file: Uint8Array, { pages, nullable, isAllNull }: ColumnPages, rows: number): TextColumn {
  if (isAllNull) return createNullTexts(rows);
  let dictionary: { readonly of: CompressedPage; readonly texts: TextColumn } | undefined;
  const columns = pages.map((page) => {
    const bytes = decompressPage(file, page);
    const { isPresent, count, values } = nullable
      ? splitPage(bytes, page.rows)
      : { isPresent: null, count: page.rows, values: bytes };
    if (page.dictionary !== null && dictionary?.of !== page.dictionary) {
      const texts = decodePlainTexts(decompressPage(file, page.dictionary), page.dictionary.values);
      dictionary = { of: page.dictionary, texts };
    }
    const texts =
      page.dictionary === null
        ? decodePlainTexts(values, requirePlain(page, count))
        : pickTexts(dictionary!.texts, readIndexes(values, count, page.dictionary.values));
    return isPresent === null || count === page.rows ? texts : insertNulls(texts, isPresent);
  });
  const all = concatTexts(columns);
  if (all.lengths.length !== rows) throw new Error('pages are missing');
  return all;
}

function requirePlain(page: DataPage, count: number): number {
  if (page.encoding === encodings.plain) return count;
  throw new Error(`a string page has the unsupported encoding ${page.encoding}`);
}

const outsideReason = 'a page has an index outside its dictionary';

function readIndexes(bytes: Uint8Array, count: number, values: number): Uint32Array {
  const indexes = new Uint32Array(count);
  let at = 0;
  // A page of nulls alone may have no index width.
  if (count > 0)
    visitIndexes(bytes, 0, count, (index, n) => {
      if (index >= values) throw new Error(outsideReason);
      indexes.fill(index, at, at + n);
      at += n;
    });
  return indexes;
}

function insertNulls(texts: TextColumn, isPresent: Uint8Array): TextColumn {
  if (texts.lengths.length === 0) return createNullTexts(isPresent.length);
  let next = 0;
  return toTextColumn(
    texts.bytes,
    Int32Array.from(isPresent, (bit) => (bit === 1 ? texts.lengths[next++]! : -1)),
  );
}

/** Decodes the first `count` PLAIN strings. */
function decodePlainTexts(bytes: Uint8Array, count: number): TextColumn {
  const lengths = new Int32Array(count);
  const out = new Uint8Array(Math.max(0, bytes.length - 4 * count));
  let size = 0;
  visitPlainTexts(bytes, count, (from, to, i) => {
    lengths[i] = to - from;
    for (let b = from; b < to; b++) out[size++] = bytes[b]!;
  });
  return toTextColumn(out.subarray(0, size), lengths);
}

function visitPlainTexts(bytes: Uint8Array, count: number, visit: (from: number, to: number, i: number) => void): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0, at = 0; i < count; i++) {
    const from = at + 4;
    at = from + view.getUint32(at, true);
    if (at > bytes.length) throw new Error('a page of texts is truncated');
    visit(from, at, i);
  }
}

/** Calls `visit` with the texts of rows `from` to `to` of a column without nulls in order, once per run. @throws Error if they cannot be read */
export function visitTexts(
  file: Uint8Array,
  pages: readonly DataPage[],
  from: number,
  to: number,
  visit: (text: string, count: number) => void,
): void {
  let dictionary: { of: CompressedPage; texts: readonly string[] } | undefined;
  let missing = to - from;
  for (const page of pages) {
    const a = Math.max(from, page.firstRow) - page.firstRow;
    const b = Math.min(to, page.firstRow + page.rows) - page.firstRow;
    if (a >= b) continue;
    const bytes = decompressPage(file, page);
    if (page.dictionary !== null) {
      if (dictionary?.of !== page.dictionary) {
        const { values } = page.dictionary;
        dictionary = { of: page.dictionary, texts: decodePlainStrings(decompressPage(file, page.dictionary), values) };
      }
      const { texts } = dictionary;
      visitIndexes(bytes, a, b, (index, count) => {
        const text = texts[index];
        if (text === undefined) throw new Error(outsideReason);
        visit(text, count);
      });
    } else for (const text of decodePlainStrings(bytes, requirePlain(page, b)).slice(a)) visit(text, 1);
    missing -= b - a;
  }
  if (missing !== 0) throw new Error('pages are missing');
}

function decodePlainStrings(bytes: Uint8Array, count: number): string[] {
  const out: string[] = [];
  visitPlainTexts(bytes, count, (from, to) => {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from);
    if (!isUtf8(text)) throw new Error('a text is not valid UTF-8');
    out.push(text.toString('utf8'));
  });
  return out;
}
