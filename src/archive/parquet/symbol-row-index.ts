import type { Column, ColumnType } from '../format/datasets.ts';
import { encodings, type FileMetaData, type RowGroup, readFooter, repetitions } from './metadata.ts';
import { readNullableNumbers } from './nullable-column.ts';
import { type DataPage, decompressPage, type NumberType, readColumnValues, visitIndexes } from './page-decoder.ts';
import { physicalTypeByColumnType, toNumberType } from './row-reader.ts';
import { decodePlainStrings, readColumnPages, visitTexts } from './tick-page-reader.ts';

/** The position of each symbol's rows in a file that is sorted by symbol, and the pages of its columns. */
export interface SymbolRowIndex {
  /** Key `i` has rows offsets[i] to offsets[i + 1]. A key consists of the texts of the key columns, joined by a space. */
  readonly keyIndexes: ReadonlyMap<string, number>;
  readonly offsets: Float64Array;
  readonly columns: ReadonlyMap<string, IndexedColumn>;
  /** Approximate memory use in bytes. */
  readonly memoryBytes: number;
}

interface IndexedColumn {
  readonly type: ColumnType;
  readonly isNullable: boolean;
  /** Null if all values are null. */
  readonly pages: readonly DataPage[] | null;
}

/** The values of a column, with NaN for a missing number; null if all of them are null. */
export type ColumnValues = Float64Array | readonly string[] | null;

/**
 * Reads the footer, the page headers and the keys of a file, without its other values.
 * @param keys the first columns of the sort order, up to the symbol
 * @throws Error if the file is not stored as our writer stores it; other readers may still read it
 */
export function indexSymbolRows(columns: readonly Column[], keys: readonly string[], file: Uint8Array): SymbolRowIndex {
  const footer = readFooter(file);
  const indexed = new Map(columns.map((column) => [column.name, indexColumn(file, footer, column)]));
  const rows = footer.row_groups.reduce((sum, group) => sum + group.num_rows, 0);
  const { keyIndexes, offsets } = indexKeys(
    file,
    keys.map((name) => indexed.get(name)!.pages ?? []),
    rows,
  );
  const pageCount = [...indexed.values()].reduce((sum, { pages }) => sum + (pages?.length ?? 0), 0);
  return { keyIndexes, offsets, columns: indexed, memoryBytes: 200 * pageCount + 150 * keyIndexes.size };
}

function indexColumn(file: Uint8Array, { schema, row_groups: groups }: FileMetaData, column: Column): IndexedColumn {
  const element = schema.slice(1).find(({ name }) => name === column.name);
  if (element === undefined) throw new Error(`column ${column.name} is missing`);
  if (element.type !== physicalTypeByColumnType[column.type])
    throw new Error(`column ${column.name} has another physical type`);
  const chunks = groups.map((group) => ({ group, meta: findChunk(group, column.name) }));
  const isNullable = element.repetition_type !== repetitions.required;
  if (isNullable && chunks.every(({ group, meta }) => meta.statistics?.null_count === group.num_rows))
    return { type: column.type, isNullable, pages: null };
  if (isNullable && column.type !== 'double' && column.type !== 'int32')
    throw new Error(`column ${column.name} has nulls and values`);
  let row = 0;
  const pages = chunks.flatMap(({ group, meta }) => {
    const chunkPages = [...readColumnPages(file, meta, row, group.num_rows)];
    row += group.num_rows;
    return chunkPages;
  });
  return { type: column.type, isNullable, pages };
}

function findChunk({ columns }: RowGroup, name: string): RowGroup['columns'][number]['meta_data'] {
  const chunk = columns.find(({ meta_data }) => meta_data.path_in_schema[0] === name);
  if (chunk === undefined) throw new Error(`column ${name} is missing`);
  return chunk.meta_data;
}

function indexKeys(
  file: Uint8Array,
  keyPages: readonly (readonly DataPage[])[],
  rows: number,
): Pick<SymbolRowIndex, 'keyIndexes' | 'offsets'> {
  const keyIndexes = new Map<string, number>();
  const starts: number[] = [];
  const prefixes = keyPages.slice(0, -1).map((pages) => listRuns(file, pages, rows));
  let row = 0;
  let previous: string | undefined;
  const addRun = (key: string, from: number): void => {
    if (key === previous) return;
    if (keyIndexes.has(key)) throw new Error('symbols are not sorted');
    keyIndexes.set(key, starts.length);
    starts.push(from);
    previous = key;
  };
  visitTexts(file, keyPages.at(-1)!, rows, (symbol, count) => {
    if (prefixes.length === 0) addRun(symbol, row);
    // Runs of a symbol may span several prefixes.
    else for (let at = row; at < row + count; ) at = addPrefixed(symbol, at, row + count);
    row += count;
  });
  function addPrefixed(symbol: string, at: number, end: number): number {
    const runs = prefixes.map((list) => {
      while (list[0]!.end <= at) list.shift();
      return list[0]!;
    });
    addRun([...runs.map(({ text }) => text), symbol].join(' '), at);
    return runs.reduce((min, run) => Math.min(min, run.end), end);
  }
  return { keyIndexes, offsets: Float64Array.from([...starts, row]) };
}

/** The runs of equal texts of a column, with the row after each. */
function listRuns(file: Uint8Array, pages: readonly DataPage[], rows: number): { text: string; end: number }[] {
  const runs: { text: string; end: number }[] = [];
  let row = 0;
  visitTexts(file, pages, rows, (text, count) => {
    row += count;
    const last = runs.at(-1);
    if (last?.text === text) last.end = row;
    else runs.push({ text, end: row });
  });
  return runs;
}

/** Reads rows `from` to `to` of a column of an indexed file. @throws Error if they cannot be read */
export function readIndexedColumn(
  file: Uint8Array,
  index: SymbolRowIndex,
  name: string,
  from: number,
  to: number,
): ColumnValues {
  const { type, isNullable, pages } = index.columns.get(name)!;
  if (pages === null) return null;
  if (isNullable) return readNullableRows(file, pages, toNumberType(type), from, to);
  return type === 'string'
    ? readTexts(file, pages, from, to)
    : readColumnValues(file, pages, toNumberType(type), from, to);
}

function readNullableRows(
  file: Uint8Array,
  pages: readonly DataPage[],
  type: NumberType,
  from: number,
  to: number,
): Float64Array {
  const needed = pages.filter(({ firstRow, rows }) => firstRow < to && firstRow + rows > from);
  const first = needed[0]?.firstRow ?? from;
  const rows = needed.reduce((sum, page) => sum + page.rows, 0);
  if (first + rows < to) throw new Error('pages are missing');
  return readNullableNumbers(file, needed, rows, type).slice(from - first, to - first);
}

function readTexts(file: Uint8Array, pages: readonly DataPage[], from: number, to: number): string[] {
  const texts: string[] = [];
  for (const page of pages) {
    const a = Math.max(from, page.firstRow) - page.firstRow;
    const b = Math.min(to, page.firstRow + page.rows) - page.firstRow;
    if (a >= b) continue;
    const bytes = decompressPage(file, page);
    if (page.dictionary !== null) {
      const values = decodePlainStrings(decompressPage(file, page.dictionary), page.dictionary.values);
      visitIndexes(bytes, a, b, (i, count) => {
        const text = values[i];
        if (text === undefined) throw new Error('a page has an index outside its dictionary');
        for (let k = 0; k < count; k++) texts.push(text);
      });
    } else if (page.encoding === encodings.plain)
      for (const text of decodePlainStrings(bytes, b).slice(a)) texts.push(text);
    else throw new Error(`a string page has the unsupported encoding ${page.encoding}`);
  }
  if (texts.length !== to - from) throw new Error('pages are missing');
  return texts;
}
