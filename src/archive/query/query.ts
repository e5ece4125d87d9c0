import type { Writable } from 'node:stream';
import type { Column } from '../format/datasets.ts';
import type { CellValue, QueryParameter } from './convert-values.ts';

/** The files of one dataset, all of one generation. They become a view with the dataset's name. */
export interface DatasetFiles {
  readonly dataset: string;
  readonly columns: readonly Pick<Column, 'name' | 'type'>[];
  /** Whether files are in `date=YYYY-MM-DD` folders. The view then has a `date` column, by which files are pruned. */
  readonly dated: boolean;
  /** Absolute paths of the files; may be empty, or thousands. */
  readonly paths: readonly string[];
}

export interface QueryOptions {
  /** DuckDB threads, at least 1. */
  readonly threads: number;
  /** DuckDB's memory limit in bytes. Beyond it, sorting and grouping spill to `scratch`. */
  readonly memoryBytesMax: number;
  /**
   * Folder for temporary files: spilled rows, and Parquet output. Created if missing; if that fails, only operations
   * that need it fail.
   */
  readonly scratch: string;
  /** CREATE statements of views and macros over the sources, each after those that it uses. */
  readonly definitions?: readonly string[];
}

/**
 * `json` is an array of objects, `ndjson` one object per line. `csv_safe` is CSV for spreadsheets: text that they would
 * evaluate as a formula begins with an apostrophe.
 */
export type WriteFormat = 'csv' | 'csv_safe' | 'json' | 'ndjson' | 'parquet';

/** The first rows of a result, as text for display. */
export interface ResultTable {
  /** `text` may be truncated; `number` is right-aligned; `number` and `fixed` must not be truncated. */
  readonly columns: readonly { readonly name: string; readonly kind: 'number' | 'text' | 'fixed' }[];
  /** Null for NULL. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** Whether the result has no further rows. */
  readonly isComplete: boolean;
  /** The plan of an EXPLAIN, to be printed unchanged; null for other statements. */
  readonly plan: string | null;
}

/** A value of a chunk. Statements must cast 64-bit integers and times. */
export type ChunkValue = string | number | boolean | null | readonly string[];

/** The columns of about 2,048 rows. */
export type Chunk = readonly (readonly ChunkValue[])[];

/**
 * Read-only SQL over the files of one generation, time zone UTC. Every method runs one SELECT-like statement (SELECT,
 * WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN of these) and throws
 * - UsageError for any other statement, for invalid SQL, and for files outside the datasets
 * - DamageError if a published file cannot be read
 * - OddslakeError (unexpected) if memory or disk space is exhausted
 * - the signal's reason if it is aborted
 */
export interface Query {
  /** Reads the first rows, at most `rowsMax`. */
  readTable(sql: string, rowsMax: number, signal?: AbortSignal): Promise<ResultTable>;
  /**
   * Writes the whole result to `out` without closing it. Buffers a few thousand rows at a time. Times are ISO-8601 with
   * Z. In CSV, NULL is an empty field and an empty string is `""`. In JSON, non-finite numbers are null, and int64
   * values keep all their digits.
   */
  write(sql: string, format: WriteFormat, out: Writable, signal?: AbortSignal): Promise<void>;
  /**
   * Reads a small result for internal use, at most 100,000 rows (else RangeError). `values` are the parameters
   * `?` or `$1`. Times are epoch milliseconds, days `YYYY-MM-DD`, integers are numbers (RangeError beyond 2^53).
   */
  readRows(sql: string, values?: readonly QueryParameter[], signal?: AbortSignal): Promise<Record<string, CellValue>[]>;
  /**
   * Reads the rows of statements with the same columns, in order, a few thousand at a time, for internal use. Columns
   * must be texts, doubles, 32-bit integers, booleans or lists of texts (else TypeError). Every statement must use all
   * `values`.
   */
  readChunks(
    statements: readonly string[],
    signal?: AbortSignal,
    values?: readonly QueryParameter[],
  ): AsyncGenerator<Chunk, void, undefined>;
  /** Reads the rows of at least one statement as one text, in the format of `write`. */
  readTexts(
    statements: readonly string[],
    format: 'csv' | 'csv_safe' | 'ndjson',
    signal?: AbortSignal,
    values?: readonly QueryParameter[],
  ): AsyncGenerator<string, void, undefined>;
  /** Frees memory and scratch files. No call may be running. */
  close(): Promise<void>;
}

/**
 * A DuckDB instance over a folder of files. It stays open, because opening a database takes longer than most queries.
 */
export interface QueryEngine {
  /**
   * Opens a query over files in the folder, with its own views and `definitions` over them. It has one connection, so
   * its calls must not overlap.
   */
  openQuery(sources: readonly DatasetFiles[], definitions: readonly string[]): Promise<Query>;
  /** Closes DuckDB. No query may be open. */
  close(): Promise<void>;
}
