import { closeSync, openSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SelectQueryNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import { openStatements } from '../../archive/journal/database.ts';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import { WorkspaceUnavailableError } from './database-url.ts';

/** SQLite errors that may be temporary: busy, locked, read-only, I/O error, full, cannot open. */
const transientCodes = new Set([5, 6, 8, 10, 13, 14]);
const busyCode = 5;

/** The dialect of a SQLite file, which is created if it does not exist. @throws OddslakeError if it cannot be opened */
export function openSqliteDialect(path: string): Dialect {
  restrictPermissions(path);
  const writer = openWithRetries(path);
  try {
    const connections = { writer: wrapStatements(writer, path), reader: wrapStatements(openWithRetries(path), path) };
    return createSqliteDialect({ ...connections, isBusy: (error) => isBusy((error as Error).cause ?? error) });
  } catch (error) {
    writer.close();
    throw error;
  }
}

/** A connection that reports an unusable file as WorkspaceUnavailableError. */
function wrapStatements(statements: ReturnType<typeof openStatements>, path: string): Statements {
  const explain = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      if (!transientCodes.has(toCode(error))) throw error;
      throw new WorkspaceUnavailableError(`Cannot use the service's database ${path}: ${(error as Error).message}.`, {
        cause: error,
      });
    }
  };
  return {
    close: statements.close,
    prepare(sql) {
      const { reader, all, run } = explain(() => statements.prepare(sql));
      return {
        reader,
        all: (parameters) => explain(() => all(parameters)),
        // The transaction is already over: the original error is reported, not that of the rollback.
        run: (parameters) =>
          sql === 'rollback' && !statements.isTransaction()
            ? { changes: 0, lastInsertRowid: 0 }
            : explain(() => run(parameters)),
      };
    },
  };
}

/** Two processes that create a file at the same time may get SQLITE_BUSY despite their timeouts. */
const openAttemptsMax = 20;

/** Creates the file with access for its owner only; SQLite uses the same mode for its other files. */
function restrictPermissions(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch {
    // It already exists, or it cannot be created; opening it then reports the error.
  }
}

function openWithRetries(path: string, tries = 1): ReturnType<typeof openStatements> {
  try {
    return openStatements(path);
  } catch (error) {
    if (toCode(error) === busyCode && tries < openAttemptsMax) return openWithRetries(path, tries + 1);
    throw new OddslakeError(
      exitCodes.unexpected,
      `Cannot open the service's database ${path}: ${(error as Error).message}. Check that its folder exists and is writable.`,
      { cause: error },
    );
  }
}

const toExtendedCode = (error: unknown): number => Number((error as { errcode?: unknown }).errcode);
const toCode = (error: unknown): number => toExtendedCode(error) & 0xff;

/** A transaction that read before another process wrote cannot succeed by waiting. */
const busySnapshotCode = 517;
const isBusy = (error: unknown): boolean => toCode(error) === busyCode && toExtendedCode(error) !== busySnapshotCode;

// Kysely's own driver has one connection, on which SQLite itself waits for other processes. That would block all requests
// of this process.

/** One connection. Calls never wait: if another process holds a lock, they immediately fail with SQLITE_BUSY. */
interface Statements {
  prepare(sql: string): {
    /** Whether the statement returns rows. */
    readonly reader: boolean;
    all(parameters: readonly unknown[]): unknown[];
    run(parameters: readonly unknown[]): {
      readonly changes: number | bigint;
      readonly lastInsertRowid: number | bigint;
    };
  };
  close(): void;
}

/** The connections of a driver. */
interface SqliteConnections {
  /** For all writes, which are serialized, and for reads within a transaction. */
  readonly writer: Statements;
  /** For reads outside a transaction, which no writer blocks. */
  readonly reader: Statements;
  /** Whether an error means that another process holds a lock, possibly for a short time. */
  isBusy(error: unknown): boolean;
}

/**
 * How long a statement waits for other processes and for other writers of this process, ms. They hold the lock for a few
 * milliseconds, unless one is suspended or a tool has the file open.
 */
const busyMsMax = 10_000;

/** Maximum delay between two attempts, ms. */
const retryDelayMsMax = 50;

const createSqliteDialect = (connections: SqliteConnections): Dialect => ({
  createDriver: () => createDriver(connections),
  createQueryCompiler: () => new SqliteQueryCompiler(),
  createAdapter: () => new ConcurrentSqliteAdapter(),
  createIntrospector: (db) => new SqliteIntrospector(db),
});

/** By default Kysely shares a single connection. */
class ConcurrentSqliteAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

interface SqliteConnection extends DatabaseConnection {
  /** Lets the next writer continue. */
  releaseWriter(): void;
}

function createDriver({ writer, reader, isBusy }: SqliteConnections): Driver {
  const acquireWriter = createMutex();

  function connection(): SqliteConnection {
    let releaseTurn: (() => void) | null = null;
    // All statements of a transaction share one time limit.
    let deadline = 0;
    const executeQuery = async <R>(query: CompiledQuery): Promise<QueryResult<R>> => {
      const reads = releaseTurn === null && SelectQueryNode.is(query.query);
      if (releaseTurn === null) deadline = performance.now() + busyMsMax;
      if (!reads) releaseTurn ??= await acquireWriter();
      return await retryWhileBusy(() => executeStatement<R>(reads ? reader : writer, query), isBusy, deadline);
    };
    return {
      executeQuery,
      async *streamQuery<R>(query: CompiledQuery) {
        yield await executeQuery<R>(query);
      },
      releaseWriter() {
        releaseTurn?.();
        releaseTurn = null;
      },
    };
  }

  const execute = async (to: DatabaseConnection, sql: string) => void (await to.executeQuery(CompiledQuery.raw(sql)));
  return {
    async init() {},
    acquireConnection: async () => connection(),
    beginTransaction: (to) => execute(to, 'begin'),
    commitTransaction: (to) => execute(to, 'commit'),
    rollbackTransaction: (to) => execute(to, 'rollback'),
    releaseConnection: async (one) => (one as SqliteConnection).releaseWriter(),
    async destroy() {
      reader.close();
      writer.close();
    },
  };
}

function executeStatement<R>(statements: Statements, { sql, parameters }: CompiledQuery): QueryResult<R> {
  const statement = statements.prepare(sql);
  if (statement.reader) return { rows: statement.all(parameters) as R[] };
  const { changes, lastInsertRowid } = statement.run(parameters);
  return { insertId: BigInt(lastInsertRowid), numAffectedRows: BigInt(changes), rows: [] };
}

/** Repeats `work` while it is busy, until `deadline` by `performance.now()`. */
async function retryWhileBusy<T>(work: () => T, isBusy: (error: unknown) => boolean, deadline: number): Promise<T> {
  for (let restMs = 1; ; restMs = Math.min(2 * restMs, retryDelayMsMax)) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadline) throw error;
    }
    await setTimeout(restMs);
  }
}

/** A mutex. Holders are served in order; the promise resolves with the function that releases it. */
function createMutex(): () => Promise<() => void> {
  let last: Promise<void> = Promise.resolve();
  return async () => {
    const before = last;
    const { promise, resolve } = Promise.withResolvers<void>();
    last = promise;
    await before;
    return resolve;
  };
}
