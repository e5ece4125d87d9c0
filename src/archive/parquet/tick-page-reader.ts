import { isUtf8 } from 'node:buffer';
import { codecs, encodings, magic, pageTypes, repetitions, types } from './constants.ts';
import { type Page, type PageBody, plainBytes } from './page-decoder.ts';
import { visitIndexes } from './rle-decoder.ts';
import { type Field, readStruct, type Struct } from './thrift-reader.ts';

/** The data pages of a part's columns; the rows of each are counted from the first row group that was asked for. */
export interface TicksPages {
  readonly symbol: readonly Page[];
  readonly t: readonly Page[];
  readonly p: readonly Page[];
  readonly rows: number;
}

/**
 * Reads the footer and the page headers of a part, or of some of its row groups.
 * @throws Error where the file is not stored as our writers store ticks
 */
export function pagesOfTicks(file: Uint8Array, groups?: readonly number[]): TicksPages {
  const footer = footerOf(file);
  requireColumns(list(footer[2]));
  const columns: Record<'symbol' | 't' | 'p', Page[]> = { symbol: [], t: [], p: [] };
  const all = list(footer[4]);
  let row = 0;
  for (const group of groups === undefined ? all : groups.map((i) => all[i])) {
    const rows = number(struct(group)[3]);
    for (const chunk of list(struct(group)[1])) {
      const meta = struct((chunk as Struct)[3]);
      const name = textOf(list(meta[3])[0]) as keyof typeof columns;
      if (meta[4] !== codecs.zstd) throw new Error('a column is not stored with zstd');
      for (const page of pagesOf(file, meta, row, rows)) columns[name].push(page);
    }
    row += rows;
  }
  return { ...columns, rows: row };
}

/** @throws Error where the file is none of Parquet */
export function footerOf(file: Uint8Array): Struct {
  if (!isMagic(file.subarray(0, magic.length)) || !isMagic(file.subarray(-magic.length)))
    throw new Error('a file does not begin and end as Parquet does');
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = view.getUint32(file.length - 8, true);
  return readStruct(file, file.length - 8 - length).value;
}

const isMagic = (bytes: Uint8Array): boolean => Buffer.compare(bytes, magic) === 0;

function requireColumns(schema: readonly Field[]): void {
  const wanted = [
    ['symbol', types.text],
    ['t', types.int64],
    ['p', types.double],
  ];
  const found = schema.slice(1).map((element) => {
    const { 1: type, 3: repetition, 4: name } = element as Struct;
    if (repetition !== repetitions.required) throw new Error('a column may be null');
    return [textOf(name), type];
  });
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error('a file has other columns than ticks have');
}

/** The data pages of one column chunk, its rows beginning at `row`. */
export function* pagesOf(file: Uint8Array, meta: Struct, row: number, rows: number): Generator<Page> {
  const start = Math.min(number(meta[9]), meta[11] === undefined ? Number.POSITIVE_INFINITY : number(meta[11]));
  let dictionary: Page['dictionary'] = null;
  for (let at = start, first = row; first < row + rows; ) {
    const { value: header, end } = readStruct(file, at);
    const body: PageBody = { at: end, size: number(header[3]), plainSize: number(header[2]) };
    at = end + body.size;
    if (header[1] === pageTypes.dictionary) {
      dictionary = { ...body, values: number(struct(header[7])[1]) };
      continue;
    }
    if (header[1] !== pageTypes.data) throw new Error('a file has pages of an unknown type');
    const data = struct(header[5]);
    const [values, encoding] = [number(data[1]), number(data[2])];
    const indexed = encoding === encodings.rleDictionary || encoding === encodings.plainDictionary;
    yield { ...body, first, rows: values, encoding, dictionary: indexed ? dictionary : null };
    first += values;
    if (first > row + rows) throw new Error('a column has more rows than its row group');
  }
}

/** Calls `visit` with the symbols of all rows in order, one run at a time. @throws Error where they cannot be read */
export function visitSymbols(
  file: Uint8Array,
  { symbol: pages, rows }: TicksPages,
  visit: (symbol: string, count: number) => void,
): void {
  let dictionary: { of: PageBody; texts: readonly string[] } | undefined;
  let row = 0;
  for (const page of pages) {
    if (page.dictionary === null) throw new Error('symbols are not stored by a dictionary');
    if (dictionary?.of !== page.dictionary) {
      dictionary = { of: page.dictionary, texts: textsOf(plainBytes(file, page.dictionary), page.dictionary.values) };
    }
    const { texts } = dictionary;
    visitIndexes(plainBytes(file, page), 0, page.rows, (index, count) => {
      const symbol = texts[index];
      if (symbol === undefined) throw new Error('a page names what its dictionary lacks');
      visit(symbol, count);
    });
    row += page.rows;
  }
  if (row !== rows) throw new Error('pages are missing');
}

/** The first `count` texts that are stored plainly. */
export function textsOf(bytes: Uint8Array, count: number): string[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  return Array.from({ length: count }, () => {
    const from = at + 4;
    at = from + buffer.readUInt32LE(at);
    if (at > buffer.length) throw new Error('a dictionary ends too early');
    const text = buffer.subarray(from, at);
    if (!isUtf8(text)) throw new Error('a symbol is no text');
    return text.toString('utf8');
  });
}

export function number(field: Field | undefined): number {
  if (typeof field !== 'number' || field < 0) throw new Error('a header lacks a number');
  return field;
}

export function list(field: Field | undefined): readonly Field[] {
  if (!Array.isArray(field)) throw new Error('a header lacks a list');
  return field as readonly Field[];
}

export const struct = (field: Field | undefined): Struct => list(field) as Struct;

export function textOf(field: Field | undefined): string {
  if (!(field instanceof Uint8Array)) throw new Error('a header lacks a text');
  return Buffer.from(field).toString('utf8');
}
