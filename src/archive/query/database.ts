import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { DamageError, exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import { toCellValue } from './convert-values.ts';
import { type DatasetFiles, type Query, type QueryOptions, resultRowsMax } from './query.ts';
import { readFirstRows, streamChunks, streamDoubles, streamTexts, writeParquet, writeText } from './results.ts';
import { prepareRead } from './statement.ts';
import { buildFolderSetupSql, buildSetupSql, buildStartSettings, buildTempViewsSql } from './views.ts';

/** Time between two attempts to interrupt, in milliseconds. */
const interruptIntervalMs = 50;

/** See `openQuery`; in a file of its own, as it and those it imports load DuckDB. */
export async function openDatabase(sources: readonly DatasetFiles[], options: QueryOptions): Promise<Query> {
  const ownFolder = join(options.scratch, `query-${randomUUID()}`);
  const published = new Set(sources.flatMap((source) => source.paths));
  // DuckDB makes no more than its own folder in it. An archive that is mounted read-only can still be queried.
  const hasScratch = await mkdir(options.scratch, { recursive: true }).then(
    () => true,
    () => false,
  );
  const instance = await DuckDBInstance.create(':memory:', buildStartSettings(options));
  // Every call has a connection of its own: none ends another's result, or leaves anything set.
  const connections = {
    acquire: () => instance.connect(),
    release: (connection: DuckDBConnection) => connection.closeSync(),
  };
  try {
    const connection = await instance.connect();
    for (const statement of buildSetupSql(sources, options.definitions ?? [], ownFolder))
      await connection.run(statement);
    connection.closeSync();
  } catch (error) {
    instance.closeSync();
    throw translateDuckDBError(error, published);
  }
  return {
    ...createQuery(connections, published, ownFolder),
    async close() {
      instance.closeSync();
      if (hasScratch) await rm(ownFolder, { recursive: true, force: true });
    },
  };
}

/** Where the calls of a query get their connection from, and give it back to. */
export interface ConnectionSource {
  acquire(): Promise<DuckDBConnection>;
  release(connection: DuckDBConnection): void;
}

/** The methods of a query; `published` are the paths that its errors may name. */
export function createQuery(
  connections: ConnectionSource,
  published: ReadonlySet<string>,
  ownFolder: string,
): Omit<Query, 'close'> {
  async function* streamed<T>(
    signal: AbortSignal,
    work: (connection: DuckDBConnection) => AsyncGenerator<T>,
  ): AsyncGenerator<T> {
    signal.throwIfAborted();
    const connection = await connections.acquire();
    const stopInterrupting = interruptOnAbort(signal, connection);
    try {
      yield* work(connection);
      // An interrupted result may end as one does that has no more rows.
      signal.throwIfAborted();
    } catch (error) {
      signal.throwIfAborted();
      throw translateDuckDBError(error, published);
    } finally {
      stopInterrupting();
      connections.release(connection);
    }
  }

  async function connected<T>(signal: AbortSignal, work: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
    const once = streamed(signal, async function* (connection) {
      yield await work(connection);
    });
    const { value } = await once.next();
    await once.next();
    return value as T;
  }

  return {
    readTable: (sql, rowsMax, signal = neverAborted) =>
      connected(signal, (connection) => readFirstRows(connection, sql, rowsMax)),
    write: (sql, format, out, signal = neverAborted) =>
      connected(signal, (connection) =>
        format === 'parquet'
          ? writeParquet(connection, sql, ownFolder, out, signal)
          : writeText(connection, sql, format, out, signal),
      ),
    readRows: (sql, values = [], signal = neverAborted) =>
      connected(signal, async (connection) => {
        const { prepared } = await prepareRead(connection, sql);
        if (values.length > 0) prepared.bind([...values]);
        const reader = await prepared.streamAndReadUntil(resultRowsMax + 1);
        if (reader.currentRowCount > resultRowsMax) throw new RangeError(`more than ${resultRowsMax} rows: ${sql}`);
        const names = reader.deduplicatedColumnNames();
        return reader
          .getRows()
          .map((row) => Object.fromEntries(row.map((value, c) => [names[c]!, toCellValue(value)])));
      }),
    readChunks: (statements, signal = neverAborted, values = []) =>
      streamed(signal, (connection) => streamChunks(connection, statements, values)),
    readDoubles: (sql, signal = neverAborted, values = []) =>
      streamed(signal, (connection) => streamDoubles(connection, sql, values)),
    readTexts: (statements, format, signal = neverAborted, values = []) =>
      streamed(signal, (connection) => streamTexts(connection, statements, format, values)),
  };
}

const neverAborted = new AbortController().signal;

/** Interrupts the connection once aborted, again and again: a query that is only about to start does not hear it. */
function interruptOnAbort(signal: AbortSignal, connection: DuckDBConnection): () => void {
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    connection.interrupt();
    timer = setInterval(() => connection.interrupt(), interruptIntervalMs);
  };
  signal.addEventListener('abort', begin, { once: true });
  return () => {
    signal.removeEventListener('abort', begin);
    clearInterval(timer);
  };
}

/** DuckDB kept open over a folder of files: to open it costs more than most queries of a service. */
export interface QueryEngine {
  /**
   * A query over files in the folder, with views of its own and `definitions` over them, on one connection: its calls
   * come one after another.
   */
  openQuery(sources: readonly DatasetFiles[], definitions: readonly string[]): Promise<Query>;
  /** No query may be open. */
  close(): Promise<void>;
}

/** Opens DuckDB over what is, or will be, below `folder`. All queries share threads and memory. */
export async function createQueryEngine(folder: string, options: QueryOptions): Promise<QueryEngine> {
  const ownFolder = join(options.scratch, `query-${randomUUID()}`);
  await mkdir(options.scratch, { recursive: true });
  const instance = await DuckDBInstance.create(':memory:', buildStartSettings(options));
  try {
    const connection = await instance.connect();
    for (const sql of buildFolderSetupSql(folder, options.definitions ?? [], ownFolder)) await connection.run(sql);
    connection.closeSync();
  } catch (error) {
    instance.closeSync();
    throw error;
  }
  return {
    async openQuery(sources, definitions) {
      const published = new Set(sources.flatMap((source) => source.paths));
      const connection = await instance.connect();
      try {
        for (const sql of buildTempViewsSql(sources, definitions)) await connection.run(sql);
      } catch (error) {
        connection.closeSync();
        throw translateDuckDBError(error, published);
      }
      const connections = { acquire: async () => connection, release() {} };
      return { ...createQuery(connections, published, ownFolder), close: async () => connection.closeSync() };
    },
    async close() {
      instance.closeSync();
      await rm(ownFolder, { recursive: true, force: true });
    },
  };
}

/**
 * What an error of DuckDB means to the person who asked; errors of others are returned as they are. `published` are
 * the files of the datasets.
 */
export function translateDuckDBError(error: unknown, published: ReadonlySet<string>): unknown {
  if (!(error instanceof Error) || error instanceof OddslakeError) return error;
  const [, kind, told] = /^(?:Failed to extract statements: )?(\w[\w -]*?) Error: ([\s\S]*)$/.exec(error.message) ?? [];
  if (kind === undefined || told === undefined) return error;
  const options = { cause: error };
  const named = (before: string, after: string): string | undefined =>
    [...published].find((path) => told.includes(before + path + after));
  const file = named('"', '"') ?? named("'", "'");
  // Where a file is gone, DuckDB looks for a folder of that name.
  const gone = named('"', '/**/');
  switch (kind) {
    case 'Permission':
      return gone === undefined
        ? new UsageError(`Only the datasets can be read, no other files. DuckDB: ${told}`, options)
        : new OddslakeError(exitCodes.unexpected, `${gone} went away while it was read. Run it again.`, options);
    case 'IO':
    case 'Invalid Input':
      if (file === undefined) break;
      // EXPORT finds out before anyone can refuse it.
      if (/^Failed to create/.test(told)) return new UsageError(`Nothing can be written here. ${told}`, options);
      return new DamageError(`${file} cannot be read; oddslake verify says more. DuckDB: ${told}`, options);
    // What Parquet's footer and page headers are written in, where it does not hold what it should.
    case 'Invalid':
      return new DamageError(`A published file cannot be read; oddslake verify says which. DuckDB: ${told}`, options);
    case 'Out of Memory':
      return new OddslakeError(exitCodes.unexpected, `The query needs more memory than it may have. ${told}`, options);
    case 'INTERNAL':
    case 'FATAL':
      return error;
  }
  return kind === 'IO'
    ? new OddslakeError(exitCodes.unexpected, `DuckDB could not read or write: ${told}`, options)
    : new UsageError(`${kind} error: ${told}`, options);
}
