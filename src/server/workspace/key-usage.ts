import { UsageError } from '../../base/errors.ts';
import type { Clock, Log } from '../../base/ports.ts';
import { formatDay } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import { parseApiKey } from './api-keys.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

/** How many days of usage are kept. */
const usageDaysMax = 90;

/** Maximum number of counts in memory, one per key and day; further keys are not counted until the next flush. */
const countsMax = 100_000;
/** Rows of one statement. */
const rowsMax = 500;

interface UsageCount {
  requests: number;
  bytes: number;
}

/** Counts by key of the UTC days that start at these epoch milliseconds. */
type UsageCounts = Map<number, Map<string, UsageCount>>;

/** Counts the requests of keys in memory and adds them to the database. */
export function createKeyUsageRecorder(db: WorkspaceDatabase, clock: Clock, log: Log) {
  let counts: UsageCounts = new Map();
  let countsLength = 0;
  let isFailing = false;
  let prunedDay: number | null = null;
  let flushing: Promise<void> = Promise.resolve();

  const add = (day: number, keyId: string, requests: number, bytes: number): void => {
    const ofDay = counts.get(day) ?? new Map<string, UsageCount>();
    if (ofDay.size === 0) counts.set(day, ofDay);
    const count = ofDay.get(keyId);
    if (count !== undefined) {
      count.requests += requests;
      count.bytes += bytes;
    } else if (countsLength < countsMax) {
      ofDay.set(keyId, { requests, bytes });
      countsLength++;
    }
  };

  const flush = async (): Promise<void> => {
    const rows = [...counts].flatMap(([day, ofDay]) =>
      [...ofDay].map(([key_id, count]) => ({ key_id, day, requests: count.requests, bytes: count.bytes })),
    );
    [counts, countsLength] = [new Map(), 0];
    // In one order, so that the statements of several processes cannot wait for each other.
    rows.sort((a, b) => (a.key_id < b.key_id ? -1 : a.key_id > b.key_id ? 1 : a.day - b.day));
    let added = 0;
    try {
      for (; added < rows.length; added += rowsMax) await addUsage(db, rows.slice(added, added + rowsMax));
      const today = floorToDay(clock.nowMs());
      if (prunedDay !== today) await removeOldUsage(db, today);
      prunedDay = today;
      isFailing = false;
    } catch (error) {
      for (const { key_id, day, requests, bytes } of rows.slice(added)) add(day, key_id, requests, bytes);
      if (!isFailing) log.warn({ err: error }, 'cannot store the usage of keys; it is kept in memory');
      isFailing = true;
    }
  };

  return {
    /** Counts one request with a key and the bytes sent for it. Only increments numbers. */
    record: (keyId: string, bytes: number): void => add(floorToDay(clock.nowMs()), keyId, 1, bytes),
    /**
     * Adds the counts to those in the database. While it is unavailable, the counts are kept for the next call. A count is
     * added twice only if the connection is lost after the database has committed it. Never rejects.
     */
    flush(): Promise<void> {
      flushing = flushing.then(flush);
      return flushing;
    },
  };
}

type UsageRow = { key_id: string; day: number; requests: number; bytes: number };

async function addUsage(db: WorkspaceDatabase, rows: readonly UsageRow[]): Promise<void> {
  await db
    .insertInto('key_usage')
    .values(rows)
    .onConflict((on) =>
      on.columns(['key_id', 'day']).doUpdateSet(({ eb }) => ({
        requests: eb('key_usage.requests', '+', eb.ref('excluded.requests')),
        bytes: eb('key_usage.bytes', '+', eb.ref('excluded.bytes')),
      })),
    )
    .execute();
}

async function removeOldUsage(db: WorkspaceDatabase, today: number): Promise<void> {
  await db
    .deleteFrom('key_usage')
    .where('day', '<=', today - usageDaysMax * dayMs)
    .execute();
}

export interface ApiKeyUsage extends UsageCount {
  readonly id: string;
  readonly name: string;
  /** Epoch milliseconds, with a resolution of a minute. */
  readonly last_used_at: number | null;
  /** UTC days with requests, oldest first. */
  readonly days: readonly ({ readonly day: string } & Readonly<UsageCount>)[];
}

/**
 * The usage of keys since a time, by UTC day, most requests first. Days before the day of `sinceMs` are not included.
 * @param idOrName ID, complete text or name of a key; null for all keys
 * @throws UsageError if no key has this ID or name
 */
export async function readKeyUsage(
  db: WorkspaceDatabase,
  idOrName: string | null,
  sinceMs: number,
): Promise<ApiKeyUsage[]> {
  let selection = db.selectFrom('keys').select(['id', 'name', 'last_used_at']).orderBy('id');
  if (idOrName !== null) {
    const id = parseApiKey(idOrName)?.id ?? idOrName;
    selection = selection.where((e) => e.or([e('id', '=', id), e('name', '=', idOrName)]));
  }
  const keys = await selection.execute();
  // The message does not repeat the argument, which may be a secret.
  if (idOrName !== null && keys.length === 0)
    throw new UsageError('There is no key with this ID or name. Run oddslake keys list to see the keys.');
  const rows = await db
    .selectFrom('key_usage')
    .selectAll()
    .where('day', '>=', floorToDay(sinceMs))
    .orderBy('day')
    .execute();
  const rowsByKey = Map.groupBy(rows, ({ key_id }) => key_id);
  const sum = (id: string, field: keyof UsageCount): number =>
    (rowsByKey.get(id) ?? []).reduce((total, row) => total + row[field], 0);
  return keys
    .map(({ id, name, last_used_at }) => ({
      id,
      name,
      last_used_at,
      requests: sum(id, 'requests'),
      bytes: sum(id, 'bytes'),
      days: (rowsByKey.get(id) ?? []).map(({ day, requests, bytes }) => ({ day: formatDay(day), requests, bytes })),
    }))
    .sort((a, b) => b.requests - a.requests);
}
