import type { Column } from '../format/datasets.ts';
import { readNumbers, visitRuns, visitTexts } from './column-reader.ts';
import { type ColumnPages, type FilePages, readFilePages } from './file-pages.ts';
import { cachedDictionaryBytesMax, type DecompressPage } from './page-decoder.ts';

/** The position of each symbol's rows in a file that is sorted by symbol, and the pages of its other columns. */
export interface SymbolRowIndex {
  /** Key `i` has rows offsets[i] to offsets[i + 1]. A key consists of the texts of the key columns, joined by a space. */
  readonly keyIndexes: ReadonlyMap<string, number>;
  readonly offsets: Float64Array;
  readonly columns: ReadonlyMap<string, ColumnPages>;
  /** Approximate memory use in bytes. */
  readonly memoryBytes: number;
}

/** The values of a column, with NaN for a missing number; null if all of them are null. */
export type ColumnValues = Float64Array | readonly string[] | null;

/**
 * Reads the footer, the page headers and the keys of a file, without its other values.
 * @param keys the first columns of the sort order, up to the symbol
 * @throws Error if the file is not stored as our writer stores it; other readers may still read it
 */
export function indexSymbolRows(columns: readonly Column[], keys: readonly string[], file: Uint8Array): SymbolRowIndex {
  const filePages = readFilePages(file, columns);
  const { keyIndexes, offsets } = indexKeys(filePages, keys);
  const others = new Map([...filePages.columns].filter(([name]) => !keys.includes(name)));
  for (const [name, { type, nullable, isAllNull }] of others)
    if (type === 'string' && nullable && !isAllNull) throw new Error(`column ${name} has nulls and values`);
  const pages = [...others.values()].flatMap((column) => column.pages);
  const dictionaries = new Set(pages.flatMap(({ dictionary }) => dictionary ?? []));
  const cachedBytes = [...dictionaries]
    .map(({ uncompressedBytes }) => uncompressedBytes)
    .filter((bytes) => bytes <= cachedDictionaryBytesMax)
    .reduce((sum, bytes) => sum + bytes, 0);
  const memoryBytes = 200 * pages.length + 150 * keyIndexes.size + cachedBytes;
  return { keyIndexes, offsets, columns: others, memoryBytes };
}

function indexKeys(pages: FilePages, keys: readonly string[]): Pick<SymbolRowIndex, 'keyIndexes' | 'offsets'> {
  const keyIndexes = new Map<string, number>();
  const starts: number[] = [];
  const prefixes = keys.slice(0, -1).map((name) => listRuns(pages, name));
  let row = 0;
  let previous: string | undefined;
  const addRun = (key: string, from: number): void => {
    if (key === previous) return;
    if (keyIndexes.has(key)) throw new Error('symbols are not sorted');
    keyIndexes.set(key, starts.length);
    starts.push(from);
    previous = key;
  };
  visitTexts(pages.file, pages.columns.get(keys.at(-1)!)!.pages, 0, pages.rows, (symbol, count) => {
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
function listRuns(pages: FilePages, name: string): { text: string; end: number }[] {
  const runs: { text: string; end: number }[] = [];
  visitRuns(pages, name, (text, row) => {
    if (runs.length > 0) runs.at(-1)!.end = row;
    runs.push({ text, end: pages.rows });
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
  decompress: DecompressPage,
): ColumnValues {
  const column = index.columns.get(name)!;
  if (column.isAllNull) return null;
  if (column.type !== 'string') return readNumbers(file, column, from, to, decompress);
  const texts: string[] = [];
  visitTexts(file, column.pages, from, to, (text, count) => {
    for (let i = 0; i < count; i++) texts.push(text);
  });
  return texts;
}
