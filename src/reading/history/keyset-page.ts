import type { Manifest, PublishedFile } from '../../archive/manifest.ts';
import type { DatasetName } from '../../archive/parquet/schema.ts';
import type { Query } from '../../query/query.ts';
import type { ChunkValue } from '../../query/result-batches.ts';
import { buildColumnsSql, buildFromWhere, type DatasetSlice } from '../../query/slice-query.ts';
import type { GenerationReader } from './history.ts';

/** A row's place in the order of its dataset, which stays where it is as new generations come in. */
export interface RowPosition {
  readonly symbol: string;
  /** Epoch milliseconds. */
  readonly t: number;
}

/** Some rows of a dataset from a place on. Ends of the window are epoch milliseconds, half-open, null where open. */
export interface RowPageRequest {
  /** Null: all of them. */
  readonly symbol: string | null;
  readonly from: number | null;
  readonly to: number | null;
  /** The last row of the page before; null for the first page. */
  readonly after: RowPosition | null;
  /** Rows, at least 1. */
  readonly limit: number;
}

/** A row by its columns' names: times are epoch milliseconds, counts numbers. */
export type HistoryRow = Readonly<Record<string, ChunkValue>>;

export interface HistoryPage<T> {
  readonly rows: readonly T[];
  /** The place of the last row where there are more. */
  readonly next: RowPosition | null;
  readonly manifest: Manifest;
}

/** A part of what a page may hold, all of it before all of the next part's. */
export interface ScanStep {
  readonly files: ReadonlyMap<DatasetName, readonly PublishedFile[]>;
  /** Views and macros over the files. */
  readonly defined: readonly string[];
  readonly slice: DatasetSlice;
}

/**
 * Reads steps one after another until there is a row more than `limit`; what `read` does with a step, it does for the
 * rows that are still wanted, that one included.
 */
export async function readFirstRows<T>(
  generation: GenerationReader,
  steps: Iterable<ScanStep>,
  limit: number,
  read: (query: Query, slice: DatasetSlice, wanted: number) => Promise<readonly T[]>,
  signal: AbortSignal,
): Promise<{ rows: readonly T[]; isMore: boolean }> {
  const rows: T[] = [];
  for (const { files, defined, slice } of steps) {
    const query = await generation.openQuery(files, defined, signal);
    try {
      for (const row of await read(query, slice, limit + 1 - rows.length)) rows.push(row);
    } finally {
      await query.close();
    }
    if (rows.length > limit) return { rows: rows.slice(0, limit), isMore: true };
  }
  return { rows, isMore: false };
}

/** The first rows of a slice, in its order. */
export async function readRows(
  query: Query,
  slice: DatasetSlice,
  wanted: number,
  signal: AbortSignal,
): Promise<HistoryRow[]> {
  const order = slice.keys.map((key) => `"${slice.dataset}"."${key}"`).join(', ');
  const sql = `SELECT ${buildColumnsSql(slice.columns, true)} FROM ${buildFromWhere(slice, null)} ORDER BY ${order} LIMIT ${wanted}`;
  const rows: HistoryRow[] = [];
  for await (const chunk of query.readChunks([sql], signal, slice.condition?.values)) {
    for (let r = 0; r < chunk[0]!.length; r++)
      rows.push(Object.fromEntries(slice.columns.map(({ name }, c) => [name, chunk[c]![r]!])));
  }
  return rows;
}
