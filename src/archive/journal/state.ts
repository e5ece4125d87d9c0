import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { catchOddslakeError, exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import { getSymbolRange } from '../../base/source-name.ts';
import type { TickColumns } from '../../base/ticks.ts';
import { minuteMs } from '../../base/window.ts';
import type { Disk } from '../disk/file-system.ts';
import { type ArchiveLayout, damagedFilesFolder } from '../format/layout.ts';
import type { ArchiveOwner, SourceIdentity } from '../format/manifest.ts';
import { findDatabaseFault } from './coverage-store.ts';
import {
  commitIdKey,
  type Database,
  getMeta,
  manifestHashKey,
  manifestPartsKey,
  type OpenDatabase,
  openDatabase,
  setMeta,
} from './database.ts';
import { readOpenIntent } from './intent.ts';
import { tryLock } from './lock.ts';
import { type RecordedDamage, readRecordedDamage } from './published-files.ts';
import { isRunOver } from './runs.ts';
import { schemaSql, schemaVersion } from './schema.ts';

export interface State {
  readonly db: Database;
  /** The current identity. It can change while the archive is empty. */
  readonly identity: ArchiveOwner;
  /** The last committed generation; 0 before the first. */
  generation(): number;
  /**
   * Reads the published ticks of a symbol and UTC day, ascending.
   * @throws DamageError if their file is missing, differs from the manifest or cannot be decoded
   */
  readPublishedTicks(symbol: string, day: number): TickColumns;
  /** False once the file has been removed or replaced: other processes no longer use the open one. */
  isFileCurrent(): boolean;
  close(): void;
}

/** Minimum time to wait for another process's short write, in ms, regardless of the run's own limit. */
const busyMsMin = 5_000;
const busyMsMax = minuteMs;

export const toStateFilePath = (folder: string): string => join(folder, 'state.sqlite');

/**
 * Opens the state in `folder`, or creates it for `identity`.
 * @param waitMs how long to wait for another process's write, in ms; clamped to between 5 s and one minute
 * @param readPublishedTicks reads the archive of this state; by default there is none
 */
export function openState(
  folder: string,
  identity: NewIdentity,
  open: OpenDatabase = openDatabase,
  waitMs = busyMsMax,
  readPublishedTicks: State['readPublishedTicks'] = refusePublishedTicks,
): State {
  refuseOtherSchema(folder);
  mkdirSync(folder, { recursive: true });
  const db = open(toStateFilePath(folder), Math.max(busyMsMin, Math.min(busyMsMax, waitMs)));
  try {
    // Reading a state must not wait for a writer, not even one suspended inside a commit.
    if (!hasSchema(db)) createSchema(db, identity);
    requireSchema(db, folder);
    const openedFile = statStateFile(folder);
    return {
      db,
      get identity() {
        return { upstream: getMeta(db, 'upstream')!, sources: readSources(db) };
      },
      generation: () => Number(getMeta(db, 'generation')),
      readPublishedTicks,
      isFileCurrent() {
        const file = statStateFile(folder);
        return file !== undefined && file.ino === openedFile?.ino && file.dev === openedFile.dev;
      },
      close: () => db.close(),
    };
  } catch (error) {
    db.close();
    throw error;
  }
}

function refusePublishedTicks(): never {
  throw new Error('the state was opened without its archive');
}

/** Whether the tables of a state exist. */
const hasSchema = (db: Database): boolean => db.one("select 1 from sqlite_master where name = 'meta'") !== undefined;

/** @throws UsageError if the state has another schema */
function requireSchema(db: Database, folder: string): void {
  const version = Number(getMeta(db, 'schema_version'));
  if (version === schemaVersion) return;
  if (!Number.isInteger(version))
    throw new OddslakeError(exitCodes.damaged, `${toStateFilePath(folder)} is not the state of an archive.`);
  throw new UsageError(
    `The state in ${folder} has schema ${version}, and this oddslake uses only schema ${schemaVersion}: use the oddslake that wrote it, or another archive.`,
  );
}

/**
 * Refuses a state of another schema without changing its folder: see `refuseUnopened`.
 * @throws UsageError
 */
export const refuseOtherSchema = (folder: string): void =>
  refuseUnopened(toStateFilePath(folder), (db) => {
    if (hasSchema(db)) requireSchema(db, folder);
  });

/**
 * Checks a database of this program, if there is one, without changing its folder. Opening it could write: SQLite creates
 * log files, and applies those that an interrupted process left.
 * @param check throws a UsageError to refuse it; other errors are left to what opens it
 */
export function refuseUnopened(path: string, check: (db: Database) => void): void {
  if (!existsSync(path)) return;
  try {
    using db = openDatabase(path, inspectBusyMsMax, () => openImmutable(path));
    check(db);
  } catch (error) {
    // It is damaged, or another process is changing it: opening it tells which.
    if (error instanceof UsageError) throw error;
  }
}

function createSchema(db: Database, identity: NewIdentity): void {
  db.transaction(() => {
    // Another process may have done it first.
    if (hasSchema(db)) return;
    db.script(schemaSql);
    setMeta(db, 'schema_version', String(schemaVersion));
    writeIdentity(db, identity);
    setMeta(db, 'generation', '0');
  });
}

/** The file that exists now; undefined if there is none. */
const statStateFile = (folder: string) => statSync(toStateFilePath(folder), { bigint: true, throwIfNoEntry: false });

/** Changes the identity of a state while nothing is journaled or published; otherwise does nothing. */
export function changeIdentity({ db }: State, identity: NewIdentity): void {
  db.transaction(() => {
    if (getMeta(db, 'generation') !== '0' || db.one('select 1 from journal limit 1') !== undefined) return;
    const known = readSources(db);
    const { sources = [] } = identity;
    // Sources are added and removed one by one, since what was collected of one of them stays.
    if (known.length > 0 && sources.length > 0) return;
    // Symbols that were recorded would change their meaning.
    if (known.length > 0 === sources.length > 0 || !hasCollected(db)) writeIdentity(db, identity);
  });
}

const hasRowsIn = (db: Database, tables: readonly string[]): boolean =>
  tables.some((table) => db.one(`select 1 from ${table} limit 1`) !== undefined);

const journalTables = ['journal_markets', 'journal_books', 'journal_series'] as const;

/** Whether a state has anything from a source: lists and order books are journaled without ticks. */
const hasCollected = (db: Database): boolean => hasRowsIn(db, ['symbols', ...journalTables]);

/** Whether anything is journaled that no publish has consumed. */
export const hasJournaledRows = (db: Database): boolean => hasRowsIn(db, ['journal', ...journalTables]);

const sourcesKey = 'sources';

/** Values that an empty state has too. */
const kept = ['schema_version', 'upstream', sourcesKey, commitIdKey, manifestHashKey, manifestPartsKey];

/**
 * Empties a state except for its identity, its open intent and what that records, so that it can be rebuilt. Part of a
 * transaction.
 */
export function clearState(db: Database): void {
  const tables = db.all<{ name: string }>(
    "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' and name not in ('meta', 'intents', 'manifest_parts')",
  );
  for (const { name } of tables) db.run(`delete from ${name}`);
  for (const { key } of db.all<{ key: string }>('select key from meta'))
    if (!kept.includes(key)) db.run('delete from meta where key = ?', key);
  setMeta(db, 'generation', '0');
}

/** The identity of a new state; without sources it is that of one service. */
type NewIdentity = Omit<ArchiveOwner, 'sources'> & Partial<Pick<ArchiveOwner, 'sources'>>;

function writeIdentity(db: Database, { upstream, sources = [] }: NewIdentity): void {
  setMeta(db, 'upstream', upstream);
  setMeta(db, sourcesKey, JSON.stringify(sources));
}

/** Reads the sources of an archive, sorted by name; none for an archive of one service. */
const readSources = (db: Database): SourceIdentity[] => JSON.parse(getMeta(db, sourcesKey) ?? '[]') as SourceIdentity[];

/**
 * Records the sources that a run collects: adds new ones, and where known ones are collected from now. Returns the
 * names of the new ones.
 */
export function recordSources({ db }: State, sources: readonly SourceIdentity[]): string[] {
  const merge = (): { merged: SourceIdentity[]; known: SourceIdentity[] } => {
    const known = readSources(db);
    const byName = new Map(known.map((one) => [one.name, one]));
    for (const one of sources) if (one.upstream !== '' || !byName.has(one.name)) byName.set(one.name, one);
    return { merged: [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1)), known };
  };
  const isSame = (): boolean => {
    const { merged, known } = merge();
    return JSON.stringify(merged) === JSON.stringify(known);
  };
  // Opening an archive must not wait for a writer.
  if (isSame()) return [];
  return db.transaction(() => {
    const { merged, known } = merge();
    setMeta(db, sourcesKey, JSON.stringify(merged));
    return merged.map(({ name }) => name).filter((name) => !known.some((one) => one.name === name));
  });
}

/** Tables that name what was collected. An order book that was requested by name leaves no row in `symbols`. */
const symbolTables = ['symbols', 'journal_books', 'journal_book_coverage', 'book_observed', 'journal_series'] as const;

/**
 * Removes the sources that are not among `kept` and of which no symbol is known: their name or address was wrong. Otherwise
 * a source once in the settings would have to stay there for good. A source that another process is collecting stays,
 * because its first symbols may be recorded at any time.
 */
export function forgetUnusedSources({ db }: State, kept: readonly Pick<SourceIdentity, 'name'>[]): void {
  const isOther = ({ name }: SourceIdentity): boolean => !kept.some((one) => one.name === name);
  if (!readSources(db).some(isOther)) return;
  db.transaction(() => {
    const hasRows = ({ name }: SourceIdentity): boolean => {
      const { from, to } = getSymbolRange(name);
      return symbolTables.some(
        (table) => db.one(`select 1 from ${table} where symbol >= ? and symbol < ? limit 1`, from, to) !== undefined,
      );
    };
    const isCollected = ({ name }: SourceIdentity): boolean =>
      db
        .all<{ run_id: string }>('select run_id from runs where source = ? and finished_at is null', name)
        .some(({ run_id: runId }) => !isRunOver(db, runId));
    const known = readSources(db);
    const used = known.filter((one) => !isOther(one) || hasRows(one) || isCollected(one));
    // Its failed lists would make every day up to its return incomplete.
    for (const { name } of known.filter((one) => !used.includes(one))) {
      const { from, to } = getSymbolRange(name);
      db.run('delete from listings where view >= ? and view < ?', from, to);
    }
    setMeta(db, sourcesKey, JSON.stringify(used));
  });
}

/** The result of inspecting a state. */
export interface StateInspection {
  /** The only service; empty if there are several sources. */
  readonly upstream: string;
  readonly sources?: readonly SourceIdentity[];
  readonly generation: number;
  /** SHA-256 of the last published manifest. */
  readonly manifestSha256: string | null;
  readonly hasOpenIntent: boolean;
  /** Files known to be damaged. */
  readonly damaged: readonly RecordedDamage[];
  /** The summary of the last run that sent requests to the upstream, as JSON. */
  readonly lastRequestingSummary: string | null;
}

/** How long to wait for another process's short write, in ms. */
const inspectBusyMsMax = 5_000;

/**
 * Reads the state in the archive's private `folder` without creating or repairing anything. Null if there is none.
 * @throws OddslakeError if it cannot be read or has another schema
 */
export function inspectState(folder: string): StateInspection | null {
  const path = toStateFilePath(folder);
  if (!existsSync(path)) return null;
  refuseOtherSchema(folder);
  return inspectDatabase(path, (db) =>
    db.snapshot(() => {
      requireSchema(db, folder);
      const requestingRun = db.one<{ summary: string }>(
        "select summary from runs where json_extract(summary, '$.requests') > 0 order by started_at desc limit 1",
      );
      return {
        upstream: getMeta(db, 'upstream') ?? '',
        sources: readSources(db),
        generation: Number(getMeta(db, 'generation')),
        manifestSha256: getMeta(db, manifestHashKey) ?? null,
        hasOpenIntent: readOpenIntent(db) !== undefined,
        damaged: readRecordedDamage(db),
        lastRequestingSummary: requestingRun?.summary ?? null,
      };
    }),
  );
}

/**
 * Moves a state that SQLite finds damaged to the other damaged files, so that it is rebuilt. Returns its path there, relative to
 * the root; null if it is sound. @throws OddslakeError if another process is publishing
 */
export function setDamagedStateAside({ root, privateFolder, lockPath }: ArchiveLayout, disk: Disk): string | null {
  const path = toStateFilePath(privateFolder);
  const fault = existsSync(path) ? catchOddslakeError(() => inspectDatabase(path, findDatabaseFault)) : null;
  if (fault === null || (fault instanceof OddslakeError && fault.exitCode !== exitCodes.damaged)) return null;
  const kept = `${damagedFilesFolder}/state-${Math.trunc(statSync(path).mtimeMs)}.sqlite`;
  using lock = tryLock(lockPath);
  if (lock === null) throw new OddslakeError(exitCodes.busy, `${path} is damaged, and another run is publishing.`);
  disk.makeFolder(join(root, damagedFilesFolder));
  for (const end of ['', '-wal', '-shm']) if (existsSync(path + end)) disk.rename(path + end, join(root, kept + end));
  return kept;
}

/** Tries to write, with a statement of no row: SQLite begins a transaction in a read-only file too. @throws OddslakeError */
export function tryStateWrite(folder: string): null {
  using db = openDatabase(toStateFilePath(folder), inspectBusyMsMax);
  db.transaction(() => db.run('delete from meta where false'));
  return null;
}

/**
 * Reads a database of this program without changing it. If no process has it open, it is opened as immutable, because
 * SQLite creates log files even for readers.
 */
export function inspectDatabase<T>(path: string, read: (db: Database) => T): T {
  const isAtRest = !existsSync(`${path}-wal`);
  const connect = () => (isAtRest ? openImmutable(path) : new DatabaseSync(path, { readOnly: true }));
  try {
    using db = openDatabase(path, inspectBusyMsMax, connect);
    return read(db);
  } catch (error) {
    // Another process has started writing meanwhile.
    if (isAtRest && existsSync(`${path}-wal`)) return inspectDatabase(path, read);
    throw error;
  }
}

/** Reads only the file itself, and creates no log files beside it. */
const openImmutable = (path: string): DatabaseSync =>
  new DatabaseSync(new URL(`${pathToFileURL(path)}?immutable=1`), { readOnly: true });
