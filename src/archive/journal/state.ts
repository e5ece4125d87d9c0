import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import { type Database, getMeta, manifestHashKey, type OpenDatabase, openDatabase, setMeta } from './database.ts';
import { readOpenIntent } from './intent.ts';
import { countJournaledTicks } from './journal.ts';
import { addJournalChecksums } from './journal-check.ts';
import { migrateOlderPrecedence } from './precedence.ts';
import { type FileDamage, readRecordedDamage } from './published-files.ts';
import { isRunOver, type LastRun, readLastRun } from './runs.ts';
import { schemaVersion, schemaVersions } from './schema.ts';

/** What an archive is, fixed when it is created. */
export interface ArchiveIdentity {
  /** The upstream it belongs to: `source.name`, else the origin of the URL. */
  readonly upstream: string;
  readonly parts: number;
}

export interface State {
  readonly db: Database;
  /** As it is now: an archive that is still empty may be given another. */
  readonly identity: ArchiveIdentity;
  /** The last generation past its commit point; 0 before the first. */
  generation(): number;
  /** False once its file was removed or replaced: what is open here is nobody else's any more. */
  isFileCurrent(): boolean;
  close(): void;
}

/** The version of the schema in which the journal's rows have checksums. */
const checksumsSince = 6;

/** The version of the schema in which the standings of all ticks are kept. */
const precedenceSince = 6;

/** How long a short write may wait for another process's short write, in ms, however long its run may wait. */
const busyMsMin = 5_000;
const busyMsMax = 60_000;

export const toStateFilePath = (folder: string): string => join(folder, 'state.sqlite');

/**
 * Opens the state in `folder`; creates it for `identity` where there is none.
 * @param waitMs how long to wait for another process's write, in ms; limited to 5 s at least and one minute at most
 */
export function openState(
  folder: string,
  identity: ArchiveIdentity,
  open: OpenDatabase = openDatabase,
  waitMs = busyMsMax,
): State {
  mkdirSync(folder, { recursive: true });
  const db = open(toStateFilePath(folder), Math.max(busyMsMin, Math.min(busyMsMax, waitMs)));
  try {
    // A reader of a current state waits for no writer, be it one that was stopped amid a commit.
    if (readSchemaVersion(db) < schemaVersion) upgradeSchema(db, identity);
    const version = Number(getMeta(db, 'schema_version'));
    if (version > schemaVersion) {
      throw new OddslakeError(
        exitCodes.usage,
        `The state in ${folder} was written by a newer oddslake (schema ${version}, this one knows ${schemaVersion}). Upgrade oddslake.`,
      );
    }
    const opened = readFileIdentity(folder);
    return {
      db,
      get identity() {
        return { upstream: getMeta(db, 'upstream')!, parts: Number(getMeta(db, 'parts')) };
      },
      generation: () => Number(getMeta(db, 'generation')),
      isFileCurrent: () => opened !== null && readFileIdentity(folder) === opened,
      close: () => db.close(),
    };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** The version of a state's schema; 0 where there is none yet. */
const readSchemaVersion = (db: Database): number =>
  db.one("select 1 from sqlite_master where name = 'meta'") === undefined ? 0 : Number(getMeta(db, 'schema_version'));

/** Creates the tables of a new state, or brings an older one up. */
function upgradeSchema(db: Database, identity: ArchiveIdentity): void {
  db.transaction(() => {
    // Another process may have been quicker.
    const had = readSchemaVersion(db);
    if (had >= schemaVersion) return;
    for (const script of schemaVersions.slice(had)) db.script(script);
    const isNew = had === 0;
    if (!isNew && had < checksumsSince) addJournalChecksums(db);
    if (had < precedenceSince) migrateOlderPrecedence(db);
    setMeta(db, 'schema_version', String(schemaVersion));
    if (!isNew) return;
    setMeta(db, 'upstream', identity.upstream);
    setMeta(db, 'parts', String(identity.parts));
    setMeta(db, 'generation', '0');
  });
}

/** Which file is there at the moment; null where there is none. */
function readFileIdentity(folder: string): string | null {
  const found = statSync(toStateFilePath(folder), { bigint: true, throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev} ${found.ino}`;
}

/** Gives a state another identity while nothing is journaled or published in it; otherwise leaves it as it is. */
export function changeIdentity({ db }: State, { upstream, parts }: ArchiveIdentity): void {
  db.transaction(() => {
    if (getMeta(db, 'generation') !== '0' || db.one('select 1 from journal limit 1') !== undefined) return;
    setMeta(db, 'upstream', upstream);
    setMeta(db, 'parts', String(parts));
  });
}

/** What a state says of itself. */
export interface StateInspection {
  readonly schema: number;
  readonly upstream: string;
  readonly generation: number;
  /** sha256 of the manifest that the last publish wrote. */
  readonly manifestSha256: string | null;
  readonly hasOpenIntent: boolean;
  readonly journaledTicks: number;
  /** Files that are known not to be as published. */
  readonly damaged: readonly FileDamage[];
  readonly lastRun: (LastRun & { readonly isOver: boolean }) | null;
  /** The summary of the last run that asked the upstream for anything, as JSON. */
  readonly lastRequestingSummary: string | null;
}

/** How long another process's short write is waited for, in ms. */
const inspectBusyMsMax = 5_000;

/**
 * Reads the state in the archive's private `folder` as it is: nothing is created, brought up to date or repaired. Null
 * where there is none.
 * @throws OddslakeError where it cannot be read
 */
export function inspectState(folder: string): StateInspection | null {
  const path = toStateFilePath(folder);
  if (!existsSync(path)) return null;
  return inspectDatabase(path, (db) =>
    db.snapshot(() => {
      const run = readLastRun(db);
      const asking = db.one<{ summary: string }>(
        "select summary from runs where json_extract(summary, '$.requests') > 0 order by started_at desc limit 1",
      );
      const schema = Number(getMeta(db, 'schema_version'));
      if (!Number.isInteger(schema)) throw new OddslakeError(exitCodes.damaged, `${path} is no state of an archive.`);
      return {
        schema,
        upstream: getMeta(db, 'upstream') ?? '',
        generation: Number(getMeta(db, 'generation')),
        manifestSha256: getMeta(db, manifestHashKey) ?? null,
        hasOpenIntent: readOpenIntent(db) !== undefined,
        journaledTicks: countJournaledTicks(db),
        // An older state remembers none.
        damaged: schema < 6 ? [] : readRecordedDamage(db),
        lastRun: run === undefined ? null : { ...run, isOver: isRunOver(db, run.runId) },
        lastRequestingSummary: asking?.summary ?? null,
      };
    }),
  );
}

/**
 * Reads a database of this program as it is. One that nobody has open is opened as a file that does not change, as
 * SQLite makes the files of its log even for a reader.
 */
export function inspectDatabase<T>(path: string, look: (db: Database) => T): T {
  const isAtRest = !existsSync(`${path}-wal`);
  const at = isAtRest ? new URL(`${pathToFileURL(path)}?immutable=1`) : path;
  try {
    const db = openDatabase(path, inspectBusyMsMax, () => new DatabaseSync(at, { readOnly: true }));
    try {
      return look(db);
    } finally {
      db.close();
    }
  } catch (error) {
    // Somebody has begun to write to it meanwhile.
    if (isAtRest && existsSync(`${path}-wal`)) return inspectDatabase(path, look);
    throw error;
  }
}
