import { sha256 } from '../disk/file-system.ts';
import { type DatasetName, datasets } from '../format/datasets.ts';
import { decodeArrowTable } from './rows.ts';
import { findSymbolIndex, type SymbolOffsets } from './symbol-offsets.ts';
import { magic, readThriftStruct, type ThriftField, type ThriftStruct } from './thrift.ts';

/** The columns that each dataset is sorted by, no two rows of it having the same values in them. */
export const sortKeyColumns: Readonly<Record<DatasetName, readonly string[]>> = {
  ticks: ['symbol', 't'],
  symbols: ['symbol'],
  markets: ['canonical_id', 'symbol', 'first_seen'],
  orderbooks: ['symbol', 't', 'side', 'level'],
  candles_1h: ['symbol', 't'],
  candles_1d: ['symbol', 't'],
  coverage: ['dataset', 'symbol', 't_from'],
  conflicts: ['symbol', 't', 'seen_at', 'dropped'],
};

/** The key of a row of a file, counted from 0. */
export type KeyReader = (row: number) => SortKey;

/** What a file of ours is made of. @throws Error where it is none */
export function createFileRecord(path: string, bytes: Uint8Array, hash: string, keyAt: KeyReader): FileRecord {
  const groups: RowGroup[] = [];
  let row = 0;
  let end = magic.length;
  for (const group of readRowGroupRanges(bytes)) {
    // Between them lies nothing: else a flipped bit there would be in none of them.
    if (group.start !== end) throw new Error(`${path} is not stored as row groups one after another`);
    end = group.end;
    const last = row + group.rows - 1;
    groups.push({ ...group, sha256: sha256(bytes.subarray(group.start, end)), first: keyAt(row), last: keyAt(last) });
    row = last + 1;
  }
  return { path, sha256: hash, footer: bytes.slice(end), groups };
}

/** The keys of a file's rows, read from the file itself. */
export function readFileKeys(dataset: DatasetName, bytes: Uint8Array): KeyReader {
  const table = decodeArrowTable(bytes);
  const columns = sortKeyColumns[dataset].map((name) => {
    const column = table.getChild(name);
    if (column === null) throw new Error(`column ${name} is missing`);
    return column;
  });
  return (row) => columns.map((column) => (column.get(row) as SortKey[number] | undefined) ?? null);
}

/** The keys of rows given as arrays of values in the order of a dataset's columns. */
export function createRowKeyReader(dataset: DatasetName, rows: readonly (readonly unknown[])[]): KeyReader {
  const places = sortKeyColumns[dataset].map((name) => datasets[dataset].findIndex((column) => column.name === name));
  return (row) => places.map((place) => (rows[row]![place] ?? null) as SortKey[number]);
}

/** The keys of columns that are kept together by symbol; `rest` gives what follows the symbol. */
export const createSymbolKeyReader =
  ({ symbols, offsets }: SymbolOffsets, rest: KeyReader): KeyReader =>
  (row) => [symbols[findSymbolIndex(offsets, row)]!, ...rest(row)];

type RowGroupRange = Pick<RowGroup, 'start' | 'end' | 'rows'>;

/** Where the row groups of a file are, by the offsets of their column chunks; in the file's order. */
function readRowGroupRanges(bytes: Uint8Array): RowGroupRange[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(bytes.length - 8, true);
  const { value: footer } = readThriftStruct(bytes, bytes.length - 8 - length);
  return requireFooterList(footer[4]).map((group) => {
    const chunks = requireFooterList((group as ThriftStruct)[1]).map((chunk) => {
      const meta = (chunk as ThriftStruct)[3] as ThriftStruct;
      const data = requireFooterNumber(meta[9]);
      const start = meta[11] === undefined ? data : Math.min(data, requireFooterNumber(meta[11]));
      return { start, end: start + requireFooterNumber(meta[7]) };
    });
    return {
      start: chunks.reduce((least, chunk) => Math.min(least, chunk.start), Number.POSITIVE_INFINITY),
      end: chunks.reduce((most, chunk) => Math.max(most, chunk.end), 0),
      rows: requireFooterNumber((group as ThriftStruct)[3]),
    };
  });
}

function requireFooterNumber(field: ThriftField | undefined): number {
  if (typeof field !== 'number') throw new Error('a footer lacks a number');
  return field;
}

function requireFooterList(field: ThriftField | undefined): readonly ThriftField[] {
  if (!Array.isArray(field)) throw new Error('a footer lacks a list');
  return field as readonly ThriftField[];
}

/** The values of a row's sort key, in its order. Times are epoch milliseconds. */
export type SortKey = readonly (string | number | null)[];

/** One row group of a Parquet file. */
export interface RowGroup {
  /** Its bytes in the file: `start` included, `end` excluded. */
  readonly start: number;
  readonly end: number;
  /** Of these bytes. */
  readonly sha256: string;
  readonly rows: number;
  /** Keys of its first and its last row. */
  readonly first: SortKey;
  readonly last: SortKey;
}

/** What one published file is made of. */
export interface FileRecord {
  /** Relative to the archive's root. */
  readonly path: string;
  /** Of the whole file: of another one this says nothing. */
  readonly sha256: string;
  /** What stands behind the last row group, to the end of the file. */
  readonly footer: Uint8Array;
  readonly groups: readonly RowGroup[];
}
