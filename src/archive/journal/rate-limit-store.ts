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

/** A pace that all processes keep together which write one archive. */
export interface SharedRateStore extends RateStateStore {
  close(): void;
}

/** Of the file's layout and of what is learned in it; another one's file is begun anew. */
const layoutVersion = 1;

/** How long one may be held up by another process's turn of some tens of microseconds: that one was stopped in it. */
const busyMsUsual = 10_000;

const layoutSql = `
create table pace (
  one integer primary key check (one = 1), count integer not null, slot real not null, least real not null,
  answers integer not null, resume real not null, lowest real not null, lowest_at real not null, at real not null,
  learned text
);
create table starts (n integer primary key, at real not null, took real, let_through integer not null default 0);
`;

export const toRateFilePath = (folder: string): string => join(folder, 'rate.sqlite');

/**
 * Opens the pace in the archive's private `folder`, beside its state. It is no data of the archive: nothing is synced,
 * and a file that cannot be read is begun anew.
 * @throws OddslakeError with exit code 5, now or in any use, where another process was stopped amid its turn
 */
export function openSharedRateStore(state: State, folder: string, busyMsMax = busyMsUsual): SharedRateStore {
  const path = toRateFilePath(folder);
  // Under the state's lock, so that nobody throws away the file that another has just begun.
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

/**
 * The pace in `folder` as its processes keep it, for one that only asks along: null where there is none yet, or it cannot
 * be used as it is.
 */
export function joinSharedRateStore(folder: string, busyMsMax = busyMsUsual): SharedRateStore | null {
  const path = toRateFilePath(folder);
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
  // A log left behind would be played into the new file.
  if (isNew) removeFiles(path, ['-wal', '-shm']);
  const db = new DatabaseSync(path);
  try {
    // A killed process leaves a write-ahead log that is whole; a power cut may not, and then all of it is begun anew.
    db.exec(`pragma busy_timeout = ${busyMsMax}; pragma journal_mode = wal; pragma synchronous = off;
      pragma wal_autocheckpoint = 32;`);
    if (isNew) db.exec(`begin immediate; ${layoutSql} pragma user_version = ${layoutVersion}; commit`);
    const { user_version: version } = db.prepare('pragma user_version').get() as { user_version: number };
    if (version !== layoutVersion) throw new OtherLayoutError(`layout ${version}`);
    const { quick_check: found } = db.prepare('pragma quick_check(1)').get() as { quick_check: string };
    if (found !== 'ok') throw new OtherLayoutError(found);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

const isUnreadableError = (error: unknown): boolean =>
  error instanceof OtherLayoutError || [11, 26].includes(toSqliteCode(error));

/** SQLite's code; NaN for any other error, which is none of the file's. */
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
      `Another process has held the shared request rate (${path}) for too long: it was stopped at a bad moment. Let it go on or end it, and run again.`,
      { cause: error },
    );
  }
  if (Number.isNaN(code)) return error;
  if (code === fullCode || isOnFullDisk(path)) return createDiskFullError(path, error);
  return new OddslakeError(
    exitCodes.unexpected,
    `The shared request rate in ${path} cannot be kept: ${(error as Error).message}. Run again; if it persists, remove that file.`,
    { cause: error },
  );
}

interface RateStateRow {
  readonly count: number;
  readonly slot: number;
  readonly least: number;
  readonly answers: number;
  readonly resume: number;
  readonly lowest: number;
  readonly lowest_at: number;
  readonly at: number;
  readonly learned: string | null;
}

type PrepareSql = (text: string) => StatementSync;

function readRateState(sql: PrepareSql): RateState {
  const row = sql('select * from pace').get() as RateStateRow | undefined;
  if (row === undefined) return initialRateState;
  const { count, answers, lowest, learned } = row;
  return {
    count,
    answers,
    lowest,
    learned,
    slotMs: row.slot,
    leastMs: row.least,
    resumeMs: row.resume,
    lowestAtMs: row.lowest_at,
    atMs: row.at,
  };
}

function writeRateState(sql: PrepareSql, pace: RateState): void {
  const { count, slotMs, leastMs, answers, resumeMs, lowest, lowestAtMs, atMs, learned } = pace;
  sql('insert or replace into pace values (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)').run(
    count,
    slotMs,
    leastMs,
    answers,
    resumeMs,
    lowest,
    lowestAtMs,
    atMs,
    learned,
  );
}

function createRateStore(db: DatabaseSync, path: string): SharedRateStore {
  const statements = new Map<string, StatementSync>();
  const sql: PrepareSql = (text) => {
    const known = statements.get(text) ?? db.prepare(text);
    statements.set(text, known);
    return known;
  };
  /** While alone: what nobody else can change meanwhile, read once and written in the end. */
  let held: { pace: RateState; isWritten: boolean; readonly starts: Map<number, RequestStart | undefined> } | undefined;
  const startOf = (request: number): RequestStart | undefined => {
    const row = sql('select at, took from starts where n = ?').get(request) as
      | { at: number; took: number | null }
      | undefined;
    return row === undefined ? undefined : { atMs: row.at, tookMs: row.took };
  };
  return {
    runExclusive(work) {
      if (held !== undefined) return work();
      try {
        sql('begin immediate').run();
        held = { pace: readRateState(sql), isWritten: true, starts: new Map() };
        const result = work();
        if (!held.isWritten) writeRateState(sql, held.pace);
        sql('commit').run();
        return result;
      } catch (error) {
        throw explainError(path, error);
      } finally {
        held = undefined;
        if (db.isTransaction) db.exec('rollback');
      }
    },
    read: () => held?.pace ?? readRateState(sql),
    write(pace) {
      if (held === undefined) writeRateState(sql, pace);
      else Object.assign(held, { pace, isWritten: false });
    },
    getStart(request) {
      if (held === undefined) return startOf(request);
      if (!held.starts.has(request)) held.starts.set(request, startOf(request));
      return held.starts.get(request);
    },
    addStart(request, atMs) {
      held?.starts.clear();
      // Two for one: what a busy time left is cleared away later.
      sql('delete from starts where n in (select n from starts order by n limit 2) and at < ?').run(
        atMs - startsRetentionMs,
      );
      sql('insert or replace into starts (n, at) values (?, ?)').run(request, atMs);
    },
    endStart(request, tookMs, letThrough) {
      held?.starts.clear();
      sql('update starts set took = ?, let_through = ? where n = ?').run(tookMs, letThrough ? 1 : 0, request);
    },
    countAccepted(first, end, afterMs) {
      const text = 'select count(*) as k from starts where n >= ? and n < ? and at > ? and let_through = 1';
      return (sql(text).get(first, end, afterMs) as { k: number }).k;
    },
    clear() {
      held?.starts.clear();
      sql('delete from starts').run();
    },
    close: () => db.close(),
  };
}
