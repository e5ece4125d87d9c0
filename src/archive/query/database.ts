import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { DamageError, exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import { toCellValue } from './convert-values.ts';
import type { DatasetFiles, Query, QueryEngine, QueryOptions } from './query.ts';
import { readFirstRows, streamChunks, streamTexts, writeParquet, writeText } from './results.ts';
import { prepareRead } from './statement.ts';
import { buildFolderSetupSql, buildSetupSql, buildStartSettings, buildTempViewsSql } from './views.ts';

/** Time between two attempts to interrupt, in milliseconds. */
const interruptIntervalMs = 50;

/** Maximum rows of `Query.readRows`. */
const resultRowsMax = 100_000;

/** Implements `openQuery`. `open-query.ts` loads this file on demand, because it and its imports load DuckDB. */
export async function openDatabase(sources: readonly DatasetFiles[], options: QueryOptions): Promise<Query> {
  const ownFolder = join(options.scratch, `query-${randomUUID()}`);
  const published = new Set(sources.flatMap((source) => source.paths));
  // DuckDB creates only its own folder, not the parents. A failure is ignored, so that an archive mounted read-only can
  // still be queried.
  const hasScratch = await mkdir(options.scratch, { recursive: true }).then(
    () => true,
    () => false,
  );
  const setup = buildSetupSql(sources, options.definitions ?? [], ownFolder);
  const instance = await startDuckDB(options, setup).catch((error: unknown) => {
    throw translateDuckDBError(error, published);
  });
  // Each call has its own connection, so that calls do not end each other's results or change each other's settings.
  const connections = {
    acquire: () => instance.connect(),
    release: (connection: DuckDBConnection) => connection.closeSync(),
  };
  return {
    ...createQuery(connections, published, ownFolder),
    async close() {
      instance.closeSync();
      if (hasScratch) await rm(ownFolder, { recursive: true, force: true });
    },
  };
}

/** Starts DuckDB and runs these statements on a connection of their own. */
async function startDuckDB(options: QueryOptions, setup: readonly string[]): Promise<DuckDBInstance> {
  const instance = await DuckDBInstance.create(':memory:', buildStartSettings(options));
  try {
    const connection = await instance.connect();
    for (const sql of setup) await connection.run(sql);
    connection.closeSync();
    return instance;
  } catch (error) {
    instance.closeSync();
    throw error;
  }
}

/** Provides the connections for a query's calls. */
interface ConnectionSource {
  acquire(): Promise<DuckDBConnection>;
  release(connection: DuckDBConnection): void;
}

/** Creates the methods of a query. `published` are the paths of its files, for error messages. */
function createQuery(
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
      // An interrupted result may look as if it had no more rows.
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
    const generator = streamed(signal, async function* (connection) {
      yield await work(connection);
    });
    const { value } = await generator.next();
    await generator.next();
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
    readTexts: (statements, format, signal = neverAborted, values = []) =>
      streamed(signal, (connection) => streamTexts(connection, statements, format, values)),
  };
}

const neverAborted = new AbortController().signal;

/** Interrupts the connection after an abort, repeatedly: a query that has not started yet ignores an interrupt. */
function interruptOnAbort(signal: AbortSignal, connection: DuckDBConnection): () => void {
  let timer: NodeJS.Timeout | undefined;
  const startInterrupting = (): void => {
    connection.interrupt();
    timer = setInterval(() => connection.interrupt(), interruptIntervalMs);
  };
  signal.addEventListener('abort', startInterrupting, { once: true });
  return () => {
    signal.removeEventListener('abort', startInterrupting);
    clearInterval(timer);
  };
}

/** Opens DuckDB over the current and future files below `folder`. All queries share threads and memory. */
export async function createQueryEngine(folder: string, options: QueryOptions): Promise<QueryEngine> {
  const ownFolder = join(options.scratch, `query-${randomUUID()}`);
  await mkdir(options.scratch, { recursive: true });
  const instance = await startDuckDB(options, buildFolderSetupSql(folder, options.definitions ?? [], ownFolder));
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
 * Translates a DuckDB error for the user. Returns other errors unchanged.
 * @param published paths of the dataset files
 */
export function translateDuckDBError(error: unknown, published: ReadonlySet<string>): unknown {
  if (!(error instanceof Error) || error instanceof OddslakeError) return error;
  const [, kind, message] =
    /^(?:Failed to extract statements: )?(\w[\w -]*?) Error: ([\s\S]*)$/.exec(error.message) ?? [];
  if (kind === undefined || message === undefined) return error;
  const options = { cause: error };
  const findNamedPath = (before: string, after: string): string | undefined =>
    [...published].find((path) => message.includes(before + path + after));
  const file = findNamedPath('"', '"') ?? findNamedPath("'", "'");
  // If a file is gone, DuckDB looks for a folder of that name.
  const missingFile = findNamedPath('"', '/**/');
  switch (kind) {
    case 'Permission':
      return missingFile === undefined
        ? new UsageError(formatPermissionError(message), options)
        : new OddslakeError(
            exitCodes.unexpected,
            `${missingFile} was removed while it was being read. Run the query again.`,
            options,
          );
    case 'IO':
    case 'Invalid Input':
      if (file === undefined) break;
      // EXPORT fails here before its statement type is checked.
      if (/^Failed to create/.test(message))
        return new UsageError(`A query cannot write files. DuckDB: ${message}`, options);
      return new DamageError(`${file} cannot be read. Run oddslake verify. DuckDB: ${message}`, options);
    // An invalid Parquet footer or page header.
    case 'Invalid':
      return new DamageError(
        `A published file cannot be read. Run oddslake verify to find it. DuckDB: ${message}`,
        options,
      );
    case 'Out of Memory':
      return new OddslakeError(
        exitCodes.unexpected,
        `The query exceeded its memory limit. DuckDB: ${message}`,
        options,
      );
    case 'INTERNAL':
    case 'FATAL':
      return error;
  }
  return kind === 'IO'
    ? new OddslakeError(exitCodes.unexpected, `DuckDB could not read or write: ${message}`, options)
    : new UsageError(`${kind} error: ${message}`, options);
}

/** Names the file that a statement wanted to read, if DuckDB does. */
function formatPermissionError(message: string): string {
  const path = /Cannot access file "([^"]*)"/.exec(message)?.[1];
  if (path === undefined) return `Only the datasets can be read, no other files. DuckDB: ${message}`;
  return `The statement reads the file ${path}. Only the datasets can be read, by their names, e.g. FROM ticks, and no other files.`;
}
