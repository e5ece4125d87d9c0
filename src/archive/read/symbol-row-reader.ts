import { LRUCache } from 'lru-cache';
import { findFirstAtOrAfter, findFirstIndex } from '../../base/binary-search.ts';
import { type DatasetDefinition, type DatasetName, datasets } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import {
  type ColumnValues,
  indexSymbolRows,
  readIndexedColumn,
  type SymbolRowIndex,
} from '../parquet/symbol-row-index.ts';
import { dropReplaced } from './drop-replaced.ts';

/** Datasets whose files can be read by symbol. */
export type SymbolDataset = Extract<DatasetName, 'ticks' | 'quotes' | 'candles_1h' | 'candles_1d' | 'coverage'>;

/** Rows of one symbol in one file, by column name, in the order of the file. */
export interface SymbolRows {
  readonly count: number;
  readonly columns: Readonly<Record<string, ColumnValues>>;
}

interface SymbolRowQuery {
  readonly dataset: SymbolDataset;
  /** As listed in a manifest. */
  readonly file: PublishedFile;
  /** For coverage: the covered dataset and the symbol, joined by a space. */
  readonly key: string;
  /** Window of `t`, half-open, epoch milliseconds. Not applied to coverage. */
  readonly from: number;
  readonly to: number;
  /** At least 1. Not applied to coverage. */
  readonly rowsMax: number;
  /** Reads the whole file. Its bytes must match the hash of `file`. Called only if they are needed. */
  readBytes(): Promise<Uint8Array>;
}

/** Reads single symbols from published files, and caches what it has decoded. */
export interface SymbolRowReader {
  /** @throws Error if the file cannot be decoded: its bytes are as published, so that this is a fault of the program */
  readRows(query: SymbolRowQuery): Promise<SymbolRows>;
  /** Forgets the files that are not among these, by their SHA-256. */
  dropReplaced(hashes: ReadonlySet<string>): void;
}

/** The first columns of the sort order, up to the symbol. */
function listKeyColumns(dataset: SymbolDataset): readonly string[] {
  const { order }: DatasetDefinition = datasets[dataset];
  return order.slice(0, order.indexOf('symbol') + 1);
}

/** More rows of a symbol are not decoded as a whole, nor cached. */
const wholeRowsMax = 65_536;

/** Overhead of a cache entry and of each of its columns, in bytes. */
const entryBytes = 400;
const columnBytes = 200;

/** Bytes to index before yielding: a few milliseconds of work. A file counts as at least `indexedFileBytes`. */
const indexedBytesPerTurn = 512 * 1024;
const indexedFileBytes = 64 * 1024;

const noRows: SymbolRows = { count: 0, columns: {} };

/** @param bytesMax memory for file indexes and rows, in bytes; at least 0 */
export function openSymbolRowReader(bytesMax: number): SymbolRowReader {
  const maxSize = Math.max(1, Math.floor(bytesMax / 2));
  // Keyed by file hash.
  const indexes = new LRUCache<string, SymbolRowIndex>({
    maxSize,
    sizeCalculation: ({ memoryBytes }) => memoryBytes + entryBytes,
  });
  const wholes = new LRUCache<string, SymbolRows>({
    maxSize,
    sizeCalculation: ({ count, columns }) => (16 * count + columnBytes) * Object.keys(columns).length + entryBytes,
  });

  let indexedBytes = 0;

  async function getIndex({ dataset, file, readBytes }: SymbolRowQuery): Promise<SymbolRowIndex> {
    const cached = indexes.get(file.sha256);
    if (cached !== undefined) return cached;
    const bytes = await readBytes();
    const index = decode(file, () => indexSymbolRows(datasets[dataset].columns, listKeyColumns(dataset), bytes));
    indexes.set(file.sha256, index);
    // Indexing is the longest synchronous work. Under load, yielding takes tens of milliseconds.
    indexedBytes += indexedFileBytes + bytes.length;
    if (indexedBytes >= indexedBytesPerTurn) {
      indexedBytes = 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
    return index;
  }

  return {
    dropReplaced(hashes) {
      dropReplaced(indexes, hashes);
      dropReplaced(wholes, hashes);
    },
    async readRows(query) {
      const { dataset, file, key } = query;
      const wholeKey = `${file.sha256} ${key}`;
      const whole = wholes.get(wholeKey);
      if (whole !== undefined) return sliceRows(whole, query);
      const index = await getIndex(query);
      const i = index.keyIndexes.get(key);
      if (i === undefined) return noRows;
      const [first, end] = [index.offsets[i]!, index.offsets[i + 1]!];
      const bytes = await query.readBytes();
      const keyColumns = listKeyColumns(dataset);
      const names = datasets[dataset].columns.map(({ name }) => name).filter((name) => !keyColumns.includes(name));
      const readRange = (from: number, to: number): SymbolRows => ({
        count: to - from,
        columns: Object.fromEntries(names.map((name) => [name, readIndexedColumn(bytes, index, name, from, to)])),
      });
      return decode(file, () => {
        if (end - first > wholeRowsMax && dataset !== 'coverage') {
          const from = findFirstRow(bytes, index, first, end, query.from);
          return sliceRows(readRange(from, Math.min(end, from + query.rowsMax)), query);
        }
        const rows = readRange(first, end);
        wholes.set(wholeKey, rows);
        return sliceRows(rows, query);
      });
    },
  };
}

function decode<T>(file: PublishedFile, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new Error(`${file.path} cannot be decoded: ${(error as Error).message}`, { cause: error });
  }
}

/** Finds the first of rows `first` to `end` at or after `t`. Decodes only the pages that a binary search visits. */
function findFirstRow(bytes: Uint8Array, index: SymbolRowIndex, first: number, end: number, t: number): number {
  const pages = index.columns
    .get('t')!
    .pages!.filter((page) => page.firstRow + page.rows > first && page.firstRow < end);
  const readPage = (i: number): { readonly from: number; readonly times: Float64Array } => {
    const from = Math.max(first, pages[i]!.firstRow);
    const to = Math.min(end, pages[i]!.firstRow + pages[i]!.rows);
    return { from, times: readIndexedColumn(bytes, index, 't', from, to) as Float64Array };
  };
  const at = findFirstIndex(0, pages.length, (i) => readPage(i).times.at(-1)! >= t);
  if (at === pages.length) return end;
  const { from, times } = readPage(at);
  return from + findFirstAtOrAfter(times, t);
}

function sliceRows(rows: SymbolRows, { dataset, from, to, rowsMax }: SymbolRowQuery): SymbolRows {
  if (dataset === 'coverage' || rows.count === 0) return rows;
  const times = rows.columns.t as Float64Array;
  const first = findFirstAtOrAfter(times, from);
  const end = Math.min(findFirstAtOrAfter(times, to), first + rowsMax);
  if (end - first === rows.count) return rows;
  const columns = Object.entries(rows.columns).map(([name, values]) => [name, values?.slice(first, end) ?? null]);
  return { count: Math.max(0, end - first), columns: Object.fromEntries(columns) };
}
