import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { cellOf } from './convert-values.ts';
import { type Query, type QueryOptions, rowsMax, type Source } from './query.ts';
import { failureOf } from './query-error.ts';
import { chunksOf, doublesOf, textsOf } from './result-batches.ts';
import { prepareRead } from './statement.ts';
import { firstRows } from './table.ts';
import { setup, startSettings } from './views.ts';
import { writeParquet, writeText } from './write-result.ts';

/** Time between two attempts to interrupt, in milliseconds. */
const interruptEveryMs = 50;

/** See `openQuery`; in a file of its own, as it and those it imports load DuckDB. */
export async function openDatabase(sources: readonly Source[], options: QueryOptions): Promise<Query> {
  const ownFolder = join(options.scratch, `query-${randomUUID()}`);
  const published = new Set(sources.flatMap((source) => source.paths));
  // DuckDB makes no more than its own folder in it. An archive that is mounted read-only can still be queried.
  const hasScratch = await mkdir(options.scratch, { recursive: true }).then(
    () => true,
    () => false,
  );
  const instance = await DuckDBInstance.create(':memory:', startSettings(options));
  // Every call has a connection of its own: none ends another's result, or leaves anything set.
  const connections = {
    take: () => instance.connect(),
    give: (connection: DuckDBConnection) => connection.closeSync(),
  };
  try {
    const connection = await instance.connect();
    for (const statement of setup(sources, options.definitions ?? [], ownFolder)) await connection.run(statement);
    connection.closeSync();
  } catch (error) {
    instance.closeSync();
    throw failureOf(error, published);
  }
  return {
    ...queryOver(connections, published, ownFolder),
    async close() {
      instance.closeSync();
      if (hasScratch) await rm(ownFolder, { recursive: true, force: true });
    },
  };
}

/** Where the calls of a query get their connection from, and give it back to. */
export interface Connections {
  take(): Promise<DuckDBConnection>;
  give(connection: DuckDBConnection): void;
}

/** The methods of a query; `published` are the paths that its errors may name. */
export function queryOver(
  connections: Connections,
  published: ReadonlySet<string>,
  ownFolder: string,
): Omit<Query, 'close'> {
  async function* streamed<T>(
    signal: AbortSignal,
    work: (connection: DuckDBConnection) => AsyncGenerator<T>,
  ): AsyncGenerator<T> {
    signal.throwIfAborted();
    const connection = await connections.take();
    const stopInterrupting = interruptOn(signal, connection);
    try {
      yield* work(connection);
      // An interrupted result may end as one does that has no more rows.
      signal.throwIfAborted();
    } catch (error) {
      signal.throwIfAborted();
      throw failureOf(error, published);
    } finally {
      stopInterrupting();
      connections.give(connection);
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
    table: (sql, rowsMax, signal = never) => connected(signal, (connection) => firstRows(connection, sql, rowsMax)),
    write: (sql, format, out, signal = never) =>
      connected(signal, (connection) =>
        format === 'parquet'
          ? writeParquet(connection, sql, ownFolder, out, signal)
          : writeText(connection, sql, format, out, signal),
      ),
    rows: (sql, values = [], signal = never) =>
      connected(signal, async (connection) => {
        const { prepared } = await prepareRead(connection, sql);
        if (values.length > 0) prepared.bind([...values]);
        const reader = await prepared.streamAndReadUntil(rowsMax + 1);
        if (reader.currentRowCount > rowsMax) throw new RangeError(`more than ${rowsMax} rows: ${sql}`);
        const names = reader.deduplicatedColumnNames();
        return reader.getRows().map((row) => Object.fromEntries(row.map((value, c) => [names[c]!, cellOf(value)])));
      }),
    chunks: (statements, signal = never, values = []) =>
      streamed(signal, (connection) => chunksOf(connection, statements, values)),
    doubles: (sql, signal = never, values = []) => streamed(signal, (connection) => doublesOf(connection, sql, values)),
    texts: (statements, format, signal = never, values = []) =>
      streamed(signal, (connection) => textsOf(connection, statements, format, values)),
  };
}

const never = new AbortController().signal;

/** Interrupts the connection once aborted, again and again: a query that is only about to start does not hear it. */
function interruptOn(signal: AbortSignal, connection: DuckDBConnection): () => void {
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    connection.interrupt();
    timer = setInterval(() => connection.interrupt(), interruptEveryMs);
  };
  signal.addEventListener('abort', begin, { once: true });
  return () => {
    signal.removeEventListener('abort', begin);
    clearInterval(timer);
  };
}
