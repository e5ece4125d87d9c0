import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import {
  initialRateState,
  type RateState,
  type RateStateStore,
  type RequestStart,
  startsRetentionMs,
} from '../../base/rate-state.ts';
import { createDiskFullError, isOnFullDisk } from './database.ts';
import type { State } from './state.ts';

/** The rate limit shared by all processes that write one archive. */
export interface SharedRateStore extends RateStateStore {
  close(): void;
}

/** Version of the file's tables and of the inferred rate stored in it. A file of another version is recreated. */
const layoutVersion = 3;

/**
 * How long to wait for another process's transaction, which normally takes some tens of microseconds. If it takes
 * longer, that process was suspended.
 */
const busyMsUsual = 10_000;

const layoutSql = `
create table rate_limit (
  id integer primary key check (id = 1), count integer not null, slot_ms real not null, latency_ms_min real not null,
  responses integer not null, resume_ms real not null, configured_min real not null,
  configured_min_at_ms real not null, written_at_ms real not null, inferred text,
  users integer not null, last_user integer not null, reserved_from integer not null, reserved_until_ms real not null
);
create table starts (
  request integer primary key, at_ms real not null, took_ms real, is_accepted integer not null default 0
);
`;

/** A file for each of several sources: each has its own rate, and requests of one do not wait for those of another. */
export const toRateFilePath = (folder: string, source: string | null = null): string =>
  join(folder, source === null ? 'rate.sqlite' : `rate-${source}.sqlite`);

/**
 * Opens the shared rate limit of a source in the archive's private `folder`, beside the state. It is not archive data:
 * nothing is synced, and an unreadable file is recreated.
 * @throws OddslakeError with exit code 5, now or on use, if another process was suspended inside a transaction
 */
export function openSharedRateStore(
  state: State,
  folder: string,
  busyMsMax = busyMsUsual,
  source: string | null = null,
): SharedRateStore {
  const path = toRateFilePath(folder, source);
  // Holds the state's lock, so that no process deletes a file that another has just created.
  const db = state.db.transaction(() => {
    try {
      return openRateDatabase(path, busyMsMax);
    } catch (error) {
      if (!isUnreadableError(error)) throw explainError(path, error);
    }
    removeFiles(path, ['', '-wal', '-shm']);
    return openRateDatabase(path, busyMsMax);
  });
  return createRateStore(db, path);
}

/** Opens the shared rate limit of an archive without creating it; null if it does not exist or cannot be used. */
export function joinSharedRateStore(
  folder: string,
  busyMsMax = busyMsUsual,
  source: string | null = null,
): SharedRateStore | null {
  const path = toRateFilePath(folder, source);
  if (!existsSync(path)) return null;
  try {
    return createRateStore(openRateDatabase(path, busyMsMax), path);
  } catch {
    return null;
  }
}

function removeFiles(path: string, suffixes: readonly string[]): void {
  for (const suffix of suffixes) rmSync(path + suffix, { force: true });
}

class OtherLayoutError extends Error {}

function openRateDatabase(path: string, busyMsMax: number): DatabaseSync {
  const isNew = !existsSync(path);
  // SQLite would apply a leftover write-ahead log to the new file.
  if (isNew) removeFiles(path, ['-wal', '-shm']);
  const db = new DatabaseSync(path);
  try {
    // After a killed process the write-ahead log is intact. After a power failure it may not be, and then the file is
    // recreated.
    db.exec(`pragma busy_timeout = ${busyMsMax}; pragma journal_mode = wal; pragma synchronous = off;
      pragma wal_autocheckpoint = 32;`);
    if (isNew) db.exec(`begin immediate; ${layoutSql} pragma user_version = ${layoutVersion}; commit`);
    const { user_version: version } = db.prepare('pragma user_version').get() as { user_version: number };
    if (version !== layoutVersion) throw new OtherLayoutError(`layout ${version}`);
    const { quick_check: result } = db.prepare('pragma quick_check(1)').get() as { quick_check: string };
    if (result !== 'ok') throw new OtherLayoutError(result);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

const isUnreadableError = (error: unknown): boolean =>
  error instanceof OtherLayoutError || [11, 26].includes(toSqliteCode(error));

/** Returns SQLite's result code; NaN for any other error. */
function toSqliteCode(error: unknown): number {
  const { errcode } = error as { errcode?: unknown };
  return typeof errcode === 'number' ? errcode & 0xff : Number.NaN;
}

const busyCode = 5;
const fullCode = 13;

function explainError(path: string, error: unknown): unknown {
  const code = toSqliteCode(error);
  if (code === busyCode) {
    return new OddslakeError(
      exitCodes.busy,
      `Another process has held the lock on the shared rate limit (${path}) for too long: it was suspended while it held the lock. Resume or end it, and run again.`,
      { cause: error },
    );
  }
  if (Number.isNaN(code)) return error;
  if (code === fullCode || isOnFullDisk(path)) return createDiskFullError(path, error);
  return new OddslakeError(
    exitCodes.unexpected,
    `The shared rate limit in ${path} cannot be stored: ${(error as Error).message}. Run again; if it persists, remove that file.`,
    { cause: error },
  );
}

/** The fields of the state, in the order of its columns. */
const stateFields = Object.keys(initialRateState) as (keyof RateState)[];
const toColumnName = (field: string): string => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const stateSql = `select ${stateFields.map((field) => `${toColumnName(field)} as "${field}"`).join(', ')} from rate_limit`;

type StartRow = Omit<RequestStart, 'isAccepted'> & { readonly request: number; readonly isAccepted: number };

const startsSql = 'select request, at_ms as "atMs", took_ms as "tookMs", is_accepted as "isAccepted" from starts';

const toRequestStart = ({ atMs, tookMs, isAccepted }: StartRow): RequestStart => ({
  atMs,
  tookMs,
  isAccepted: isAccepted === 1,
});

type PrepareSql = (text: string) => StatementSync;

const readRateState = (sql: PrepareSql): RateState =>
  (sql(stateSql).get() as RateState | undefined) ?? initialRateState;

const writeRateState = (sql: PrepareSql, state: RateState): unknown =>
  sql(`insert or replace into rate_limit values (1${', ?'.repeat(stateFields.length)})`).run(
    ...stateFields.map((field) => state[field]),
  );

function createRateStore(db: DatabaseSync, path: string): SharedRateStore {
  const statements = new Map<string, StatementSync>();
  const sql: PrepareSql = (text) => {
    const known = statements.get(text) ?? db.prepare(text);
    statements.set(text, known);
    return known;
  };
  /** State cached inside a transaction, which no other process can change. Written once at its end. */
  let cached:
    | { state: RateState; isWritten: boolean; readonly starts: Map<number, RequestStart | undefined> }
    | undefined;
  const readStart = (request: number): RequestStart | undefined => {
    const row = sql(`${startsSql} where request = ?`).get(request) as StartRow | undefined;
    return row === undefined ? undefined : toRequestStart(row);
  };
  // Deletes two for each added start, so that a backlog shrinks.
  const deleteOldStarts = (added: number, nowMs: number): unknown =>
    sql('delete from starts where request in (select request from starts order by request limit ?) and at_ms < ?').run(
      2 * added,
      nowMs - startsRetentionMs,
    );
  return {
    runExclusive(work) {
      if (cached !== undefined) return work();
      try {
        sql('begin immediate').run();
        cached = { state: readRateState(sql), isWritten: true, starts: new Map() };
        const result = work();
        if (!cached.isWritten) writeRateState(sql, cached.state);
        sql('commit').run();
        return result;
      } catch (error) {
        throw explainError(path, error);
      } finally {
        cached = undefined;
        if (db.isTransaction) db.exec('rollback');
      }
    },
    read: () => cached?.state ?? readRateState(sql),
    write(state) {
      if (cached === undefined) writeRateState(sql, state);
      else Object.assign(cached, { state, isWritten: false });
    },
    getStart(request) {
      if (cached === undefined) return readStart(request);
      if (!cached.starts.has(request)) cached.starts.set(request, readStart(request));
      return cached.starts.get(request);
    },
    listStarts() {
      const rows = sql(`${startsSql} order by request`).all() as unknown as StartRow[];
      return rows.map((row) => [row.request, toRequestStart(row)]);
    },
    addStart(request, atMs) {
      cached?.starts.clear();
      deleteOldStarts(1, atMs);
      sql('insert or replace into starts (request, at_ms) values (?, ?)').run(request, atMs);
    },
    endStart(request, tookMs, isAccepted) {
      cached?.starts.clear();
      sql('update starts set took_ms = ?, is_accepted = ? where request = ?').run(tookMs, isAccepted ? 1 : 0, request);
    },
    countAccepted(first, end, afterMs) {
      const text =
        'select count(*) as n from starts where request >= ? and request < ? and at_ms > ? and is_accepted = 1';
      return (sql(text).get(first, end, afterMs) as { n: number }).n;
    },
    putStarts(list) {
      const last = list.at(-1);
      if (last === undefined) return;
      cached?.starts.clear();
      deleteOldStarts(list.length, last[1].atMs);
      const insert = sql('insert or replace into starts (request, at_ms, took_ms, is_accepted) values (?, ?, ?, ?)');
      for (const [request, { atMs, tookMs, isAccepted }] of list) insert.run(request, atMs, tookMs, isAccepted ? 1 : 0);
    },
    clear() {
      cached?.starts.clear();
      sql('delete from starts').run();
    },
    close: () => db.close(),
  };
}
