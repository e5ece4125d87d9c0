import type { Value } from './arrow-data.ts';
import { codecs, encodings, repetitions, types } from './constants.ts';
import { type Page, plainBytes, readValues } from './page-decoder.ts';
import { readIndexed, visitIndexes } from './rle-decoder.ts';
import type { Column, ColumnType } from './schema.ts';
import type { Struct } from './thrift-reader.ts';
import { footerOf, list, number, pagesOf, struct, textOf, textsOf } from './tick-page-reader.ts';

/** How columns that can be read here are stored. */
const physical: Partial<Record<ColumnType, number>> = {
  string: types.text,
  timestamp: types.int64,
  int64: types.int64,
  int32: types.int32,
  double: types.double,
};

/**
 * The rows of a file, or of some of its row groups, as arrays of values in the order of the columns, none of which may be
 * null. Without Arrow and parquet-wasm, whose loading takes longer than any file of a day's coverage.
 * @throws Error where one of the columns is not stored as our writers store such rows
 */
export function decodeFlatRows(columns: readonly Column[], file: Uint8Array, groups?: readonly number[]): Value[][] {
  const footer = footerOf(file);
  const schema = list(footer[2]).slice(1).map(struct);
  const isAbsent = ({ name, absent }: Column): boolean =>
    absent !== undefined && schema.every((element) => textOf(element[4]) !== name);
  for (const column of columns) if (!isAbsent(column)) requireStored(column, schema);
  const pages = new Map(columns.map(({ name }): [string, Page[]] => [name, []]));
  const all = list(footer[4]);
  let rows = 0;
  for (const group of groups === undefined ? all : groups.map((i) => all[i])) {
    const count = number(struct(group)[3]);
    for (const chunk of list(struct(group)[1])) {
      const meta = struct((chunk as Struct)[3]);
      const ofColumn = pages.get(textOf(list(meta[3])[0]));
      if (ofColumn === undefined) continue;
      if (meta[4] !== codecs.zstd) throw new Error('a column is not stored with zstd');
      for (const page of pagesOf(file, meta, rows, count)) ofColumn.push(page);
    }
    rows += count;
  }
  const values = columns.map((column) =>
    isAbsent(column)
      ? new Array<Value>(rows).fill(column.absent!)
      : valuesOf(file, pages.get(column.name)!, column.type, rows),
  );
  return Array.from({ length: rows }, (_, row) => values.map((column) => column[row]!));
}

function requireStored({ name, type, nullable }: Column, schema: readonly Struct[]): void {
  const element = schema.find((one) => textOf(one[4]) === name);
  if (element === undefined) throw new Error(`column ${name} is missing`);
  if (nullable || element[3] !== repetitions.required) throw new Error('a column may be null');
  if (element[1] !== physical[type]) throw new Error('a column is stored as another type');
}

function valuesOf(file: Uint8Array, pages: readonly Page[], type: ColumnType, rows: number): ArrayLike<Value> {
  if (type === 'string') return textValues(file, pages, rows);
  if (type === 'int32') return int32Values(file, pages, rows);
  return readValues(file, pages, type === 'double' ? 'double' : 'int64', 0, rows);
}

function textValues(file: Uint8Array, pages: readonly Page[], rows: number): string[] {
  const out: string[] = [];
  let dictionary: { readonly of: Page['dictionary']; readonly texts: readonly string[] } | undefined;
  for (const page of pages) {
    const bytes = plainBytes(file, page);
    if (page.dictionary === null) {
      if (page.encoding !== encodings.plain) throw new Error(`a page has texts of the encoding ${page.encoding}`);
      for (const text of textsOf(bytes, page.rows)) out.push(text);
      continue;
    }
    if (dictionary?.of !== page.dictionary) {
      const { values } = page.dictionary;
      dictionary = { of: page.dictionary, texts: textsOf(plainBytes(file, page.dictionary), values) };
    }
    const { texts } = dictionary;
    visitIndexes(bytes, 0, page.rows, (index, count) => {
      const text = texts[index];
      if (text === undefined) throw new Error('a page names what its dictionary lacks');
      for (let i = 0; i < count; i++) out.push(text);
    });
  }
  if (out.length !== rows) throw new Error('pages are missing');
  return out;
}

function int32Values(file: Uint8Array, pages: readonly Page[], rows: number): Float64Array {
  const out = new Float64Array(rows);
  let row = 0;
  for (const page of pages) {
    const bytes = plainBytes(file, page);
    if (page.dictionary !== null) {
      const values = int32s(plainBytes(file, page.dictionary), page.dictionary.values);
      readIndexed(bytes, 0, page.rows, values, out, row);
    } else if (page.encoding === encodings.plain) out.set(int32s(bytes, page.rows), row);
    else throw new Error(`a page has numbers of the encoding ${page.encoding}`);
    row += page.rows;
  }
  if (row !== rows) throw new Error('pages are missing');
  return out;
}

function int32s(bytes: Uint8Array, count: number): Float64Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float64Array.from({ length: count }, (_, i) => view.getInt32(4 * i, true));
}
