import { type StatsFs, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { DiskFullError, exitCodes, OddslakeError } from '../../base/errors.ts';

export type SqlRow = Record<string, SQLInputValue>;

/** A thin face on node:sqlite: prepared statements by their text, one kind of transaction, errors said in words. */
export interface Database {
  run(sql: string, ...values: SQLInputValue[]): { changes: number; id: number };
  all<R = SqlRow>(sql: string, ...values: SQLInputValue[]): R[];
  one<R = SqlRow>(sql: string, ...values: SQLInputValue[]): R | undefined;
  iterate<R = SqlRow>(sql: string, ...values: SQLInputValue[]): IterableIterator<R>;
  script(sql: string): void;
  /** All or nothing, durable when it returns. Nested calls join the outer transaction. */
  transaction<T>(work: () => T): T;
  /** Many reads that see one state. */
  snapshot<T>(work: () => T): T;
  close(): void;
}

export type OpenDatabase = (path: string, busyMsMax: number) => Database;

/**
 * Opens a database in WAL mode with full sync; `inspectBusyMsMax` bounds the wait for another process's short write.
 * @param connect makes the connection; node:sqlite's own where it is not given
 */
export function openDatabase(
  path: string,
  busyMsMax: number,
  connect: (path: string) => DatabaseSync = (at) => new DatabaseSync(at),
): Database {
  const db = runExplained(path, () => {
    const opened = connect(path);
    opened.exec(`pragma busy_timeout = ${busyMsMax}; pragma journal_mode = wal; pragma synchronous = full;`);
    return opened;
  });
  const statements = new Map<string, StatementSync>();
  const prepare = (sql: string): StatementSync => {
    let statement = statements.get(sql);
    if (statement === undefined) {
      statement = db.prepare(sql);
      statements.set(sql, statement);
    }
    return statement;
  };
  let depth = 0;
  const bracket = <T>(begin: string, work: () => T): T => {
    if (depth > 0) return work();
    runExplained(path, () => db.exec(begin));
    depth++;
    try {
      const result = work();
      runExplained(path, () => db.exec('commit'));
      return result;
    } catch (error) {
      // A full disk may have rolled the transaction back already.
      if (db.isTransaction) runExplained(path, () => db.exec('rollback'));
      throw error;
    } finally {
      depth--;
    }
  };
  return {
    run(sql, ...values) {
      const { changes, lastInsertRowid } = runExplained(path, () => prepare(sql).run(...values));
      return { changes: Number(changes), id: Number(lastInsertRowid) };
    },
    all: <R>(sql: string, ...values: SQLInputValue[]) => runExplained(path, () => prepare(sql).all(...values)) as R[],
    one: <R>(sql: string, ...values: SQLInputValue[]) =>
      runExplained(path, () => prepare(sql).get(...values)) as R | undefined,
    // A statement of its own: one that is being walked must not be started again by a nested call.
    *iterate<R>(sql: string, ...values: SQLInputValue[]) {
      const rows = runExplained(path, () => db.prepare(sql).iterate(...values));
      for (;;) {
        const next = runExplained(path, () => rows.next());
        if (next.done) return;
        yield next.value as R;
      }
    },
    script: (sql) => runExplained(path, () => db.exec(sql)),
    transaction: (work) => bracket('begin immediate', work),
    snapshot: (work) => bracket('begin', work),
    close: () => db.close(),
  };
}

const diskFullCode = 13;
const busyCode = 5;
const readOnlyCode = 8;
const ioCode = 10;
const cannotOpenCode = 14;
const corruptCodes = new Set([11, 26]);

function runExplained<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const code = Number((error as { errcode?: unknown }).errcode) & 0xff;
    const mayBeFull = code === ioCode || code === cannotOpenCode;
    if (code === diskFullCode || (mayBeFull && isOnFullDisk(path))) throw createDiskFullError(path, error);
    if (code === busyCode) {
      throw new OddslakeError(exitCodes.busy, `Another process holds ${path} for too long. Try again later.`, {
        cause: error,
      });
    }
    if (code === ioCode) {
      throw new OddslakeError(
        exitCodes.unexpected,
        `The disk failed: ${path} could not be read or written (${(error as Error).message}). Check the disk and run again; what was accepted before is kept.`,
        { cause: error },
      );
    }
    if (code === readOnlyCode || code === cannotOpenCode) {
      throw new OddslakeError(
        exitCodes.unexpected,
        `The state database ${path} cannot be opened for writing. Readers need that too: work on a copy of the archive, or check its owner and permissions.`,
        { cause: error },
      );
    }
    if (corruptCodes.has(code)) {
      throw new OddslakeError(
        exitCodes.damaged,
        `The state database ${path} is damaged: ${(error as Error).message}. Move it away, and the next run makes a new one of what is published; what was journaled only is gone with it.`,
        {
          cause: error,
        },
      );
    }
    if ((error as { code?: unknown }).code === 'ERR_OUT_OF_RANGE') {
      throw new OddslakeError(
        exitCodes.damaged,
        `The state database ${path} is damaged: it holds a number that was never written. Run oddslake verify.`,
        { cause: error },
      );
    }
    throw error;
  }
}

/** What SQLite takes at a time for the index of its log, in bytes: with less, a write fails that finds some room left. */
const databaseBytesMin = 32 * 1024;

type FileSystemCounts = Pick<StatsFs, 'blocks' | 'bavail' | 'bsize' | 'files' | 'ffree'>;

/** Whether a file system has no room for a database, in bytes or in files. Some count neither: these are never full. */
export const isFull = ({ blocks, bavail, bsize, files, ffree }: FileSystemCounts): boolean =>
  (blocks > 0 && bavail * bsize < databaseBytesMin) || (files > 0 && ffree === 0);

/** Whether the disk of a database is full at this moment: SQLite may call that an I/O error, or fail to open a file. */
export function isOnFullDisk(path: string): boolean {
  try {
    return isFull(statfsSync(dirname(path)));
  } catch {
    return false;
  }
}

export const createDiskFullError = (path: string, cause: unknown): DiskFullError =>
  new DiskFullError(
    `The disk is full: ${path} could not grow. Free some space and run again; what was accepted before is kept.`,
    { cause },
  );

/** How long the opening may wait for another process, in ms. */
const busyMsMax = 10_000;

/** Statements that are kept prepared: preparing one takes longer than most of what is asked. */
const statementsMax = 100;

/**
 * A connection to a SQLite database of one's own at `path`. Once it is open no statement waits for another process: the
 * whole of ours would stand still meanwhile.
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
  const kept = new Map<string, ReturnType<typeof prepare>>();
  return {
    prepare(sql: string) {
      const held = kept.get(sql);
      if (held !== undefined) return held;
      if (kept.size >= statementsMax) kept.clear();
      const made = prepare(sql);
      kept.set(sql, made);
      return made;
    },
    /** Whether one is open: a full disk ends it before anybody says so. */
    isTransaction: () => db.isTransaction,
    close: () => db.close(),
  };
}

// Single values that the state keeps, by key.

/** The ID of the last commit: see CommitState in intent.ts. */
export const commitIdKey = 'commit_id';

/** sha256 of the manifest that the last publish wrote. */
export const manifestHashKey = 'manifest_sha256';

/** Its text, so that it can be put back. */
export const manifestTextKey = 'manifest_text';

/**
 * Epoch ms of the upgrade to format 3, or of the rebuild of a lost state. Responses of before are known by windows that
 * were joined without regard to evidence: a poll must not confirm them. Absent in an archive that began with format 3.
 */
export const evidenceSinceKey = 'evidence_since';

/** JSON: the sha256 of each text at the root that follows from it, by name. */
export const rootTextsKey = 'root_texts_sha256';

export const getMeta = (db: Database, key: string): string | undefined =>
  db.one<{ value: string }>('select value from meta where key = ?', key)?.value;

export function setMeta(db: Database, key: string, value: string): void {
  db.run('insert into meta values (?, ?) on conflict do update set value = excluded.value', key, value);
}
