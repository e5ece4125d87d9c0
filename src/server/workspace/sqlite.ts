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

/** What SQLite says where the file cannot be used now: busy, locked, read-only, input or output, full, cannot be opened. */
const transientCodes = new Set([5, 6, 8, 10, 13, 14]);
const busyCode = 5;

/** The dialect of a SQLite file, made if need be. Throws OddslakeError where it cannot be opened. */
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

/** A connection that says what keeps it from the file. */
function wrapStatements(statements: ReturnType<typeof openStatements>, path: string): Statements {
  const explain = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      if (!transientCodes.has(toCode(error))) throw error;
      throw new WorkspaceUnavailableError(
        `The service's database ${path} cannot be used: ${(error as Error).message}.`,
        {
          cause: error,
        },
      );
    }
  };
  return {
    close: statements.close,
    prepare(sql) {
      const { reader, all, run } = explain(() => statements.prepare(sql));
      return {
        reader,
        all: (parameters) => explain(() => all(parameters)),
        // What failed is told by the error that came before, not by this one.
        run: (parameters) =>
          sql === 'rollback' && !statements.isTransaction()
            ? { changes: 0, lastInsertRowid: 0 }
            : explain(() => run(parameters)),
      };
    },
  };
}

/** Two processes that start a file at once may be told that it is busy in spite of the time that they would wait. */
const openAttemptsMax = 20;

/** A file that is made is its owner's alone, and so are those that SQLite makes beside it. */
function restrictPermissions(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch {
    // It is there already, or cannot be made, which is told when it is opened.
  }
}

function openWithRetries(path: string, tries = 1): ReturnType<typeof openStatements> {
  try {
    return openStatements(path);
  } catch (error) {
    if (toCode(error) === busyCode && tries < openAttemptsMax) return openWithRetries(path, tries + 1);
    throw new OddslakeError(
      exitCodes.unexpected,
      `The service's database ${path} cannot be opened: ${(error as Error).message}. Check that its folder is there and may be written.`,
      { cause: error },
    );
  }
}

const toExtendedCode = (error: unknown): number => Number((error as { errcode?: unknown }).errcode);
const toCode = (error: unknown): number => toExtendedCode(error) & 0xff;

/** What was read in a transaction before another process wrote stays out of date, however long it waits. */
const busySnapshotCode = 517;
const isBusy = (error: unknown): boolean => toCode(error) === busyCode && toExtendedCode(error) !== busySnapshotCode;

// Kysely's own driver has one connection, on which SQLite itself waits for other processes: meanwhile nobody in this
// process is answered.

/** One connection. Nothing of it waits: what another process is in the way of fails at once, as busy. */
export interface Statements {
  prepare(sql: string): {
    /** Whether it gives rows. */
    readonly reader: boolean;
    all(parameters: readonly unknown[]): unknown[];
    run(parameters: readonly unknown[]): {
      readonly changes: number | bigint;
      readonly lastInsertRowid: number | bigint;
    };
  };
  close(): void;
}

/** What a driver stands on. */
export interface SqliteConnections {
  /** All that writes, one after another, and what is read within a transaction. */
  readonly writer: Statements;
  /** What is read outside of one: no writer is in its way. */
  readonly reader: Statements;
  /** Whether an error says that another process is in the way, and may be out of it in a moment. */
  isBusy(error: unknown): boolean;
}

/**
 * How long a statement waits for other processes and for the writers of its own, ms. They hold the file for a few
 * milliseconds, unless one of them is stopped in the midst of it, or somebody is at the file with a tool.
 */
const busyMsMax = 10_000;

/** The longest rest between two attempts, ms. */
const retryDelayMsMax = 50;

export const createSqliteDialect = (connections: SqliteConnections): Dialect => ({
  createDriver: () => createDriver(connections),
  createQueryCompiler: () => new SqliteQueryCompiler(),
  createAdapter: () => new ConcurrentSqliteAdapter(),
  createIntrospector: (db) => new SqliteIntrospector(db),
});

/** Kysely has a connection used by one after another, where it is the only one. */
class ConcurrentSqliteAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

interface SqliteConnection extends DatabaseConnection {
  /** Lets the next one write. */
  releaseWriter(): void;
}

function createDriver({ writer, reader, isBusy }: SqliteConnections): Driver {
  const takeTurn = createMutex();

  function connection(): SqliteConnection {
    let endTurn: (() => void) | null = null;
    // Of a transaction all statements together wait no longer than one.
    let until = 0;
    const executeQuery = async <R>(query: CompiledQuery): Promise<QueryResult<R>> => {
      const reads = endTurn === null && SelectQueryNode.is(query.query);
      if (endTurn === null) until = performance.now() + busyMsMax;
      if (!reads) endTurn ??= await takeTurn();
      return await retryWhileBusy(() => executeStatement<R>(reads ? reader : writer, query), isBusy, until);
    };
    return {
      executeQuery,
      async *streamQuery<R>(query: CompiledQuery) {
        yield await executeQuery<R>(query);
      },
      releaseWriter() {
        endTurn?.();
        endTurn = null;
      },
    };
  }

  const say = async (to: DatabaseConnection, sql: string) => void (await to.executeQuery(CompiledQuery.raw(sql)));
  return {
    async init() {},
    acquireConnection: async () => connection(),
    beginTransaction: (to) => say(to, 'begin'),
    commitTransaction: (to) => say(to, 'commit'),
    rollbackTransaction: (to) => say(to, 'rollback'),
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

/** Tries again until another process is out of the way, or it is `until`, by `performance.now()`. */
async function retryWhileBusy<T>(work: () => T, isBusy: (error: unknown) => boolean, until: number): Promise<T> {
  for (let restMs = 1; ; restMs = Math.min(2 * restMs, retryDelayMsMax)) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= until) throw error;
    }
    await setTimeout(restMs);
  }
}

/** Turns, one at a time, in the order in which they are asked for; what each resolves with ends it. */
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
