import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { toCellValue } from './convert-values.ts';
import { type DatasetFiles, type Query, type QueryOptions, resultRowsMax } from './query.ts';
import { translateDuckDBError } from './query-error.ts';
import { streamChunks, streamDoubles, streamTexts } from './result-batches.ts';
import { prepareRead } from './statement.ts';
import { readFirstRows } from './table.ts';
import { buildSetupSql, buildStartSettings } from './views.ts';
import { writeParquet, writeText } from './write-result.ts';

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
