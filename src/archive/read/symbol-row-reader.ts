import { LRUCache } from 'lru-cache';
import { findFirstAtOrAfter, findFirstIndex } from '../../base/binary-search.ts';
import { type DatasetDefinition, type DatasetName, datasets } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import { type CompressedPage, type DecompressPage, decompressPage } from '../parquet/page-decoder.ts';
import {
  type ColumnValues,
  indexSymbolRows,
  readIndexedColumn,
  type SymbolRowIndex,
} from '../parquet/symbol-row-index.ts';
import { decodePublished } from '../read-published-file.ts';
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
}

interface AsyncRowQuery extends SymbolRowQuery {
  /** Reads the whole file. Its bytes must match the hash of `file`. Called only if they are needed. */
  readBytes(): Promise<Uint8Array>;
}

/** The first columns of the sort order, up to the symbol. */
function listKeyColumns(dataset: SymbolDataset): readonly string[] {
  const { order }: DatasetDefinition = datasets[dataset];
  return order.slice(0, order.indexOf('symbol') + 1);
}

/** More rows of a symbol are not decoded as a whole, nor cached, if fewer are requested. */
const wholeRowsMax = 65_536;

/** Overhead of a cache entry and of each of its columns, in bytes. */
const entryBytes = 400;
const columnBytes = 200;

/** Shares of the cache for file indexes, which take longest to make, and for decompressed pages; the rest is for rows. */
const indexShare = 1 / 2;
const pageShare = 1 / 8;

/** Bytes to index before yielding: a few milliseconds of work. A file counts as at least `indexedFileBytes`. */
const indexedBytesPerTurn = 512 * 1024;
const indexedFileBytes = 64 * 1024;

const noRows: SymbolRows = { count: 0, columns: {} };

/** Reads single symbols from published files, and caches what it has decoded. */
export type SymbolRowReader = ReturnType<typeof openSymbolRowReader>;

/** @param bytesMax memory for all that is kept, in bytes; at least 0 */
export function openSymbolRowReader(bytesMax: number) {
  const toMaxSize = (share: number): number => Math.max(1, Math.floor(bytesMax * share));
  // Keyed by file hash.
  const indexes = new LRUCache<string, SymbolRowIndex>({
    maxSize: toMaxSize(indexShare),
    sizeCalculation: ({ memoryBytes }) => memoryBytes + entryBytes,
  });
  const wholes = new LRUCache<string, SymbolRows>({
    maxSize: toMaxSize(1 - indexShare - pageShare),
    sizeCalculation: ({ columns }) =>
      Object.values(columns).reduce((sum, values) => sum + columnBytes + measureValues(values), entryBytes),
  });
  // A page has the rows of several symbols, and takes longer to decompress than the rows of one to decode.
  const pages = new LRUCache<CompressedPage, Uint8Array>({
    maxSize: toMaxSize(pageShare),
    sizeCalculation: (bytes) => bytes.length + entryBytes,
  });
  const decompress: DecompressPage = (bytes, page) => {
    const cached = pages.get(page);
    if (cached !== undefined) return cached;
    const plain = decompressPage(bytes, page);
    pages.set(page, plain);
    return plain;
  };
  let indexedBytes = 0;

  /** The rows, if they are cached or the index shows that there are none. */
  function findRows(query: SymbolRowQuery): SymbolRows | undefined {
    const { file, key } = query;
    const whole = wholes.get(toWholeKey(query));
    if (whole !== undefined) return sliceRows(whole, query);
    return indexes.get(file.sha256)?.keyIndexes.has(key) === false ? noRows : undefined;
  }

  function decodeRows(query: SymbolRowQuery, bytes: Uint8Array): SymbolRows {
    const { dataset, file } = query;
    const keyColumns = listKeyColumns(dataset);
    const index = indexes.get(file.sha256) ?? indexSymbolRows(datasets[dataset].columns, keyColumns, bytes);
    indexes.set(file.sha256, index);
    const i = index.keyIndexes.get(query.key);
    if (i === undefined) return noRows;
    const [first, end] = [index.offsets[i]!, index.offsets[i + 1]!];
    const names = datasets[dataset].columns.map(({ name }) => name).filter((name) => !keyColumns.includes(name));
    const read: ReadColumn = (name, from, to) => readIndexedColumn(bytes, index, name, from, to, decompress);
    const readRange = (from: number, to: number): SymbolRows => ({
      count: to - from,
      columns: Object.fromEntries(names.map((name) => [name, read(name, from, to)])),
    });
    if (end - first > Math.max(wholeRowsMax, query.rowsMax) && dataset !== 'coverage') {
      const from = findFirstRow(index, read, first, end, query.from);
      return sliceRows(readRange(from, Math.min(end, from + query.rowsMax)), query);
    }
    const rows = readRange(first, end);
    wholes.set(toWholeKey(query), rows);
    return sliceRows(rows, query);
  }

  return {
    /** Forgets the files that are not among these, by their SHA-256. */
    dropReplaced(hashes: ReadonlySet<string>) {
      dropReplaced(wholes, hashes);
      dropReplaced(indexes, hashes, (index) => {
        for (const column of index.columns.values()) for (const page of column.pages) pages.delete(page);
      });
    },
    /** Does the same without yielding. @param readBytes as in `AsyncRowQuery` */
    readRowsAtOnce(query: SymbolRowQuery, readBytes: () => Uint8Array): SymbolRows {
      const found = findRows(query);
      if (found !== undefined) return found;
      const bytes = readBytes();
      return decodePublished(query.file.path, () => decodeRows(query, bytes));
    },
    /** Yields to other work between files. @throws DamageError if the file cannot be decoded */
    async readRows(query: AsyncRowQuery): Promise<SymbolRows> {
      const found = findRows(query);
      if (found !== undefined) return found;
      const bytes = await query.readBytes();
      const isIndexed = indexes.has(query.file.sha256);
      const rows = decodePublished(query.file.path, () => decodeRows(query, bytes));
      if (isIndexed) return rows;
      // Indexing is the longest synchronous work. Under load, yielding takes tens of milliseconds.
      indexedBytes += indexedFileBytes + bytes.length;
      if (indexedBytes >= indexedBytesPerTurn) {
        indexedBytes = 0;
        await new Promise((resolve) => setImmediate(resolve));
      }
      return rows;
    },
  };
}

const toWholeKey = ({ file, key }: SymbolRowQuery): string => `${file.sha256} ${key}`;

/** Memory of the values of a column, in bytes. Texts are shared. */
const measureValues = (values: ColumnValues): number =>
  values === null ? 0 : values instanceof Float64Array ? values.byteLength : 16 * values.length;

type ReadColumn = (name: string, from: number, to: number) => ColumnValues;

/** Finds the first of rows `first` to `end` at or after `t`. Decodes only the pages that a binary search visits. */
function findFirstRow(index: SymbolRowIndex, read: ReadColumn, first: number, end: number, t: number): number {
  const pages = index.columns
    .get('t')!
    .pages!.filter((page) => page.firstRow + page.rows > first && page.firstRow < end);
  const readPage = (i: number): { readonly from: number; readonly times: Float64Array } => {
    const from = Math.max(first, pages[i]!.firstRow);
    const to = Math.min(end, pages[i]!.firstRow + pages[i]!.rows);
    return { from, times: read('t', from, to) as Float64Array };
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
