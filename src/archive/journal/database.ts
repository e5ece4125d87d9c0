import { type StatsFs, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { DiskFullError, exitCodes, OddslakeError } from '../../base/errors.ts';

type SqlRow = Record<string, SQLInputValue>;

/** A thin wrapper of node:sqlite with cached statements, one kind of write transaction, and readable errors. */
export interface Database extends Disposable {
  run(sql: string, ...values: SQLInputValue[]): { changes: number; id: number };
  all<R = SqlRow>(sql: string, ...values: SQLInputValue[]): R[];
  /** The same as arrays of the columns in order: a half to a third of the time, for reads of thousands of rows. */
  rows<R extends readonly unknown[]>(sql: string, ...values: SQLInputValue[]): R[];
  one<R = SqlRow>(sql: string, ...values: SQLInputValue[]): R | undefined;
  iterate<R = SqlRow>(sql: string, ...values: SQLInputValue[]): IterableIterator<R>;
  script(sql: string): void;
  /** Atomic, and durable when it returns. Nested calls join the outer transaction. */
  transaction<T>(work: () => T): T;
  /** Runs several reads on one consistent state. */
  snapshot<T>(work: () => T): T;
  close(): void;
}

export type OpenDatabase = (path: string, busyMsMax: number) => Database;

/**
 * Opens a database in WAL mode with full sync. `busyMsMax` bounds the wait for another process's write.
 * @param connect opens the connection; defaults to node:sqlite
 */
export function openDatabase(
  path: string,
  busyMsMax: number,
  connect: (path: string) => DatabaseSync = (at) => new DatabaseSync(at),
): Database {
  const db = withReadableErrors(path, () => {
    const opened = connect(path);
    opened.exec(`pragma busy_timeout = ${busyMsMax}; pragma journal_mode = wal; pragma synchronous = full;`);
    return opened;
  });
  const statements = new Map<string, StatementSync>();
  const arrayStatements = new Map<string, StatementSync>();
  const prepareIn = (prepared: Map<string, StatementSync>, sql: string): StatementSync => {
    let statement = prepared.get(sql);
    if (statement === undefined) {
      statement = db.prepare(sql);
      if (prepared === arrayStatements) statement.setReturnArrays(true);
      prepared.set(sql, statement);
    }
    return statement;
  };
  const prepare = (sql: string): StatementSync => prepareIn(statements, sql);
  let depth = 0;
  const runBracketed = <T>(begin: string, work: () => T): T => {
    if (depth > 0) return work();
    withReadableErrors(path, () => db.exec(begin));
    depth++;
    try {
      const result = work();
      withReadableErrors(path, () => db.exec('commit'));
      return result;
    } catch (error) {
      // A full disk may already have rolled the transaction back.
      if (db.isTransaction) withReadableErrors(path, () => db.exec('rollback'));
      throw error;
    } finally {
      depth--;
    }
  };
  return {
    run(sql, ...values) {
      const { changes, lastInsertRowid } = withReadableErrors(path, () => prepare(sql).run(...values));
      return { changes: Number(changes), id: Number(lastInsertRowid) };
    },
    all: <R>(sql: string, ...values: SQLInputValue[]) =>
      withReadableErrors(path, () => prepare(sql).all(...values)) as R[],
    rows: <R extends readonly unknown[]>(sql: string, ...values: SQLInputValue[]) =>
      withReadableErrors(path, () => prepareIn(arrayStatements, sql).all(...values)) as unknown as R[],
    one: <R>(sql: string, ...values: SQLInputValue[]) =>
      withReadableErrors(path, () => prepare(sql).get(...values)) as R | undefined,
    // Not cached: a nested call must not restart a statement that is being iterated.
    *iterate<R>(sql: string, ...values: SQLInputValue[]) {
      const rows = withReadableErrors(path, () => db.prepare(sql).iterate(...values));
      try {
        for (;;) {
          const next = withReadableErrors(path, () => rows.next());
          if (next.done) return;
          yield next.value as R;
        }
      } finally {
        // A reader that ends early would leave the table locked.
        rows.return?.();
      }
    },
    script: (sql) => withReadableErrors(path, () => db.exec(sql)),
    transaction: (work) => runBracketed('begin immediate', work),
    snapshot: (work) => runBracketed('begin', work),
    close: () => db.close(),
    [Symbol.dispose]: () => db.close(),
  };
}

const diskFullCode = 13;
const busyCode = 5;
const readOnlyCode = 8;
const ioCode = 10;
const cannotOpenCode = 14;
const corruptCodes = new Set([11, 26]);

function withReadableErrors<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const code = Number((error as { errcode?: unknown }).errcode) & 0xff;
    const mayBeFull = code === ioCode || code === cannotOpenCode;
    if (code === diskFullCode || (mayBeFull && isOnFullDisk(path))) throw createDiskFullError(path, error);
    if (code === busyCode) {
      throw new OddslakeError(exitCodes.busy, `Another process kept ${path} locked for too long. Try again later.`, {
        cause: error,
      });
    }
    if (code === ioCode) {
      throw new OddslakeError(
        exitCodes.unexpected,
        `The disk failed: ${path} could not be read or written (${(error as Error).message}). Check the disk and run again; data that was already accepted is kept.`,
        { cause: error },
      );
    }
    if (code === readOnlyCode || code === cannotOpenCode) {
      throw new OddslakeError(
        exitCodes.unexpected,
        `The state database ${path} cannot be opened for writing. Even reading requires write access: check its owner and permissions, or work on a copy of the archive.`,
        { cause: error },
      );
    }
    if (corruptCodes.has(code)) {
      throw new OddslakeError(
        exitCodes.damaged,
        `The state database ${path} is damaged: ${(error as Error).message}. To rebuild it from the published files, without what was only journaled: oddslake verify --repair`,
        {
          cause: error,
        },
      );
    }
    if ((error as { code?: unknown }).code === 'ERR_OUT_OF_RANGE') {
      throw new OddslakeError(
        exitCodes.damaged,
        `The state database ${path} is damaged: it holds a number out of range. Run oddslake verify.`,
        { cause: error },
      );
    }
    throw error;
  }
}

/** SQLite allocates its WAL index in blocks of this size, in bytes. With less free space a write fails. */
const databaseBytesMin = 32 * 1024;

type FileSystemCounts = Pick<StatsFs, 'blocks' | 'bavail' | 'bsize' | 'files' | 'ffree'>;

/**
 * Whether a file system has no space for a database, in bytes or in files. A file system that reports neither is never
 * full.
 */
export const isFull = ({ blocks, bavail, bsize, files, ffree }: FileSystemCounts): boolean =>
  (blocks > 0 && bavail * bsize < databaseBytesMin) || (files > 0 && ffree === 0);

/** Whether the disk of a database is full now. SQLite may report that as an I/O error, or fail to open a file. */
export function isOnFullDisk(path: string): boolean {
  try {
    return isFull(statfsSync(dirname(path)));
  } catch {
    return false;
  }
}

export const createDiskFullError = (path: string, cause: unknown): DiskFullError =>
  new DiskFullError(
    `The disk is full: ${path} could not grow. Free some space and run again; data that was already accepted is kept.`,
    { cause },
  );

/** How long opening may wait for another process, in ms. */
const busyMsMax = 10_000;

/** Maximum number of cached statements. Preparing a statement takes longer than running most queries. */
const statementsMax = 100;

/**
 * Opens a private SQLite database at `path`. Once it is open no statement waits for another process, because that would
 * block this whole process.
 */
export function openStatements(path: string) {
  const db = new DatabaseSync(path);
  try {
    db.exec(
      `pragma busy_timeout = ${busyMsMax}; pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on;`,
    );
    db.exec('pragma busy_timeout = 0;');
  } catch (error) {
    db.close();
    throw error;
  }
  const values = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[];
  const prepare = (sql: string) => {
    const statement = db.prepare(sql);
    return {
      reader: statement.columns().length > 0,
      all: (parameters: readonly unknown[]) => statement.all(...values(parameters)),
      run: (parameters: readonly unknown[]) => statement.run(...values(parameters)),
    };
  };
  const cache = new Map<string, ReturnType<typeof prepare>>();
  return {
    prepare(sql: string) {
      const cached = cache.get(sql);
      if (cached !== undefined) return cached;
      if (cache.size >= statementsMax) cache.clear();
      const created = prepare(sql);
      cache.set(sql, created);
      return created;
    },
    /** Whether a transaction is open. A full disk may end one without an error. */
    isTransaction: () => db.isTransaction,
    close: () => db.close(),
  };
}

// Single values in the state, by key.

/** ID of the last commit; see CommitState in intent.ts. */
export const commitIdKey = 'commit_id';

export const manifestHashKey = 'manifest_sha256';

/** JSON: the names of the parts of the last published manifest's text; see recorded-manifest.ts. */
export const manifestPartsKey = 'manifest_parts';

/** JSON: the SHA-256 of each generated text at the root, by name. */
export const rootTextsKey = 'root_texts_sha256';

/** The key of a value that each of an archive's several sources has; that of the only service has no suffix. */
export const toSourceKey = (key: string, source: string | null): string => (source === null ? key : `${key}:${source}`);

export const getMeta = (db: Database, key: string): string | undefined =>
  db.one<{ value: string }>('select value from meta where key = ?', key)?.value;

export function setMeta(db: Database, key: string, value: string): void {
  db.run('insert into meta values (?, ?) on conflict do update set value = excluded.value', key, value);
}
