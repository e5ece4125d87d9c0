import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { exitCodes, OddslakeError } from '../core/errors.ts';
import { type FileDamage, readRecordedDamage } from './damage.ts';
import { type Database, openDatabase } from './database.ts';
import { readOpenIntent } from './intent.ts';
import { countJournaledTicks } from './journal.ts';
import { getMeta, manifestHashKey } from './meta.ts';
import { isRunOver, type LastRun, readLastRun } from './runs.ts';
import { toStateFilePath } from './state.ts';

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
