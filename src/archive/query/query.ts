import type { Writable } from 'node:stream';
import type { CellValue, QueryParameter } from './convert-values.ts';
import type { QueryEngine } from './database.ts';
import type { Chunk } from './results.ts';

/** Column types of the archive, as its datasets have them. */
export type DatasetColumnType = 'string' | 'timestamp' | 'double' | 'int32' | 'int64' | 'boolean' | 'strings';

/** One dataset of ONE generation: it becomes a view of that name. */
export interface DatasetFiles {
  readonly dataset: string;
  readonly columns: readonly { readonly name: string; readonly type: DatasetColumnType }[];
  /** Whether files stand in `date=YYYY-MM-DD` folders; the view then has a `date` column, by which files are pruned. */
  readonly dated: boolean;
  /** Absolute paths of its published files, none included; thousands are fine. */
  readonly paths: readonly string[];
}

export interface QueryOptions {
  /** Threads of DuckDB, at least 1. */
  readonly threads: number;
  /** What DuckDB may hold in memory, in bytes; beyond it sorting and grouping spill to `scratch`. */
  readonly memoryBytesMax: number;
  /** A folder for files of our own: spilled rows and Parquet on its way out. Made if need be; where it cannot be, only
   * what needs it fails. */
  readonly scratch: string;
  /** CREATE statements of views and macros over the sources, in the order in which they use each other. */
  readonly definitions?: readonly string[];
}

/** `json` is one array of objects, `ndjson` one object a line. */
export type WriteFormat = 'csv' | 'json' | 'ndjson' | 'parquet';

/** The beginning of a result, as text for people. */
export interface ResultTable {
  /** `text` may be cut to fit; a `number` stands right; neither it nor what is `fixed` makes sense in part. */
  readonly columns: readonly { readonly name: string; readonly kind: 'number' | 'text' | 'fixed' }[];
  /** Null is NULL. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** Whether these are all rows. */
  readonly isComplete: boolean;
  /** The drawing of an EXPLAIN, which is to be printed as it is; null for other statements. */
  readonly plan: string | null;
}

/**
 * Read-only SQL over the files of one generation, time zone UTC. Every method runs one SELECT-like statement (SELECT,
 * WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN of these) and throws
 * - UsageError for any other statement, for bad SQL, and for files that are none of the datasets
 * - DamageError where a published file cannot be read
 * - OddslakeError (unexpected) where memory or disk are not enough
 * - the signal's reason once it is aborted
 */
export interface Query {
  /** The first rows, at most `resultRowsMax`. */
  readTable(sql: string, rowsMax: number, signal?: AbortSignal): Promise<ResultTable>;
  /**
   * Writes the whole result to `out`, which is left open, holding a few thousand rows at a time. Times are ISO-8601 with Z. In
   * csv NULL is empty and an empty string is `""`; in json what is not finite is null, and int64 has all its digits.
   */
  write(sql: string, format: WriteFormat, out: Writable, signal?: AbortSignal): Promise<void>;
  /**
   * A small result, at most `resultRowsMax` rows (else RangeError), for use inside. `values` stand for `?` or `$1`. Times are
   * epoch milliseconds, days `YYYY-MM-DD`, integers numbers (RangeError beyond 2^53).
   */
  readRows(sql: string, values?: readonly QueryParameter[], signal?: AbortSignal): Promise<Record<string, CellValue>[]>;
  /**
   * The rows of statements of one shape one after another, some thousand at a time, for use inside. Their columns are
   * texts, doubles, 32-bit integers, booleans or lists of texts; anything else is a TypeError. Every statement takes all of
   * the `values`.
   */
  readChunks(
    statements: readonly string[],
    signal?: AbortSignal,
    values?: readonly QueryParameter[],
  ): AsyncGenerator<Chunk, void, undefined>;
  /**
   * The rows of one statement whose columns are all doubles, none of them null, as columns; some thousand at a time. All of
   * them are in DuckDB's memory first. A chunk holds only until the next one is asked for.
   */
  readDoubles(
    sql: string,
    signal?: AbortSignal,
    values?: readonly QueryParameter[],
  ): AsyncGenerator<readonly Float64Array[], void, undefined>;
  /** The rows of statements as one text, as `write` has it; at least one statement. */
  readTexts(
    statements: readonly string[],
    format: 'csv' | 'ndjson',
    signal?: AbortSignal,
    values?: readonly QueryParameter[],
  ): AsyncGenerator<string, void, undefined>;
  /** Frees memory and scratch; no call may be under way. */
  close(): Promise<void>;
}

/** The most rows that `Query.rows` returns. */
export const resultRowsMax = 100_000;

/** Opens DuckDB over these files, in memory. Nothing else on the disk can be reached through it. */
export async function openQuery(sources: readonly DatasetFiles[], options: QueryOptions): Promise<Query> {
  // DuckDB takes longer to load than most commands to run: it is loaded by those that ask.
  const { openDatabase } = await import('./database.ts');
  return await openDatabase(sources, options);
}

/** Opens DuckDB for many queries over files below `folder`, one after another or at once. */
export async function openQueryEngine(folder: string, options: QueryOptions): Promise<QueryEngine> {
  const { createQueryEngine } = await import('./database.ts');
  return await createQueryEngine(folder, options);
}
