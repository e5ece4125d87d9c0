import { getSymbolRange, qualifySymbol } from '../../base/source-name.ts';
import { floorToDay } from '../../base/window.ts';
import { type Database, getMeta, setMeta, toSourceKey } from './database.ts';
import type { NightVolume } from './nightly-comparison.ts';
import { emptyRecheckHistory, type RecheckHistory } from './recheck-results.ts';
import { takeOverInterruptedRuns } from './runs.ts';
import { compareShapes, type Drift, type FieldShape, type Shape } from './schema-drift.ts';

export interface RecordedNight extends NightVolume {
  readonly runId: string;
  /** Counts as in `PolledCounts`. */
  readonly late: number;
  readonly conflicts: number;
  /** The time of its market lists, epoch ms; null if they could not be fetched. */
  readonly listedAt: number | null;
}

const nightsMax = 30;

// Facts about a server are those of one source. `source` is its name, or null for the only service of an archive.

/** Reads the recorded nights of a source, latest first, at most 30. */
export const readLastNights = (db: Database, source: string | null = null): RecordedNight[] =>
  db.all<RecordedNight & Record<string, never>>(
    `select run_id as "runId", polled_to as "polledTo", polled_ms as "polledMs", markets, ticks, late, conflicts,
       listed_at as "listedAt"
     from nights where source is ? order by polled_to desc limit ?`,
    source,
    nightsMax,
  );

export function recordNight(db: Database, night: RecordedNight, source: string | null = null): void {
  const { runId, polledTo, polledMs, markets, ticks, late, conflicts, listedAt } = night;
  db.transaction(() => {
    db.run(
      `insert or replace into nights (run_id, polled_to, polled_ms, markets, ticks, late, conflicts, listed_at, source)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      runId,
      polledTo,
      polledMs,
      markets,
      ticks,
      late,
      conflicts,
      listedAt,
      source,
    );
    db.run(
      `delete from nights where source is ?1 and run_id not in
         (select run_id from nights where source is ?1 order by polled_to desc limit ?2)`,
      source,
      nightsMax,
    );
  });
}

/** Tick counts of polls. */
interface PolledCounts {
  /** New published ticks. */
  readonly ticks: number;
  /** New ticks that came after their window was covered. */
  readonly late: number;
  /** Ticks that differ from a published price. */
  readonly conflicts: number;
}

/** Whether a night before this run is recorded, of the same source. */
export const hasEarlierNight = (db: Database, runId: string): boolean =>
  db.one<{ one: number }>(
    `select 1 as one from nights
     where run_id < ?1 and source is (select source from runs where run_id = ?1) limit 1`,
    runId,
  ) !== undefined;

const pollJobsSql = "'nightly', 'ticks', 'live'";

/**
 * Counts the ticks of a run, and of the polls by any job that began after run `after` and before this run: if an hourly
 * job polls too, it leaves few new ticks for the nightly run. Polls that begin during a nightly run count for the next
 * one. Backfills and imports do not count.
 */
export function countPolled(db: Database, runId: string, after: string, source: string | null = null): PolledCounts {
  // During this run, another source's run may have published ticks of an interrupted run. If they stayed with it, this
  // night would count them, and so would the next one, which takes them over.
  if (source !== null) db.transaction(() => takeOverInterruptedRuns(db, runId));
  // Run IDs sort by start time.
  const row = db.one<{ ticks: number | null; late: number | null; conflicts: number | null }>(
    `select sum(accepted + recovered) as ticks, sum(late) as late, sum(conflicts) as conflicts from runs
     where run_id = ?1 or (run_id > ?2 and run_id < ?1 and source is ?3 and job in (${pollJobsSql}))`,
    runId,
    after,
    source,
  );
  return { ticks: row?.ticks ?? 0, late: row?.late ?? 0, conflicts: row?.conflicts ?? 0 };
}

/** Reads the newest run that polled ticks of a source; undefined if there is none. */
export const readNewestPoll = (
  db: Database,
  source: string,
): { readonly runId: string; readonly startedAt: number } | undefined =>
  db.one<{ runId: string; startedAt: number }>(
    `select run_id as "runId", started_at as "startedAt" from runs
     where source = ? and job in (${pollJobsSql}) order by run_id desc limit 1`,
    source,
  );

const rechecksKey = 'rechecks';

/** Reads the recheck history; empty before the first night. */
export function readRecheckHistory(db: Database, source: string | null = null): RecheckHistory {
  const text = getMeta(db, toSourceKey(rechecksKey, source));
  return text === undefined
    ? emptyRecheckHistory
    : { ...emptyRecheckHistory, ...(JSON.parse(text) as Partial<RecheckHistory>) };
}

/** Updates the recheck history in one transaction, since another process may update it too. */
export function updateRecheckHistory(
  db: Database,
  change: (memory: RecheckHistory) => RecheckHistory,
  source: string | null = null,
): void {
  db.transaction(() => {
    const before = readRecheckHistory(db, source);
    const after = change(before);
    if (after !== before) setMeta(db, toSourceKey(rechecksKey, source), JSON.stringify(after));
  });
}

/** The view name for all views of a source together. Of several sources, views are stored with the source, as symbols are. */
const allViews = '*';

/** The outcome of fetching one market list. */
interface MarketListing {
  readonly view: string;
  /** Time of the list, epoch ms. */
  readonly at: number;
  /** Markets in the list, and the total stated by the server; null if it stated none. */
  readonly markets: number;
  readonly total: number | null;
  /** Why the list does not count as complete, one clause; null if it does. */
  readonly reason: string | null;
}

/** Records the lists of one poll. For each day and view, a complete list is kept if there is one, else the latest. */
export function recordListings(
  db: Database,
  listings: readonly MarketListing[],
  combined: Omit<MarketListing, 'view' | 'total'>,
  source: string | null = null,
): void {
  for (const { view, at, markets, total, reason } of [...listings, { view: allViews, total: null, ...combined }]) {
    db.run(
      `insert into listings (day, view, at, markets, total, is_complete, reason) values (?, ?, ?, ?, ?, ?, ?)
       on conflict do update set at = excluded.at, markets = excluded.markets, total = excluded.total,
         is_complete = excluded.is_complete, reason = excluded.reason
       where excluded.is_complete > listings.is_complete
         or (excluded.is_complete = listings.is_complete and excluded.at >= listings.at)`,
      floorToDay(at),
      qualifySymbol(source, view),
      at,
      markets,
      total,
      Number(reason === null),
      reason,
    );
  }
}

/** The reason of lists that were complete according to the server, but suspiciously short. */
export const shortListReason = 'short';

/**
 * Reads the market counts of the last days before `atMs` (epoch ms) whose lists were complete according to the server,
 * latest first.
 */
export const readMarketCountsBefore = (
  db: Database,
  atMs: number,
  daysMax: number,
  source: string | null = null,
): number[] =>
  db
    .all<{ markets: number }>(
      `select markets from listings where view = ? and at < ? and (is_complete = 1 or reason = ?)
       order by day desc limit ?`,
      qualifySymbol(source, allViews),
      atMs,
      shortListReason,
      daysMax,
    )
    .map(({ markets }) => markets);

/** Reads how many markets the newest list of each view had. @param source null: the only service */
export function readListCounts(db: Database, source: string | null = null): Map<string, number> {
  const rows = db.all<{ view: string; markets: number }>('select view, markets, max(at) from listings group by view');
  const prefix = qualifySymbol(source, '');
  return new Map(
    rows
      .filter(({ view }) => view.startsWith(prefix))
      .map(({ view, markets }) => [view.slice(prefix.length), markets] as const),
  );
}

/** Records days as completely listed by each source, by another process or archive. */
export function restoreListings(db: Database, days: Iterable<number>, sources: readonly string[] = []): void {
  const views = sources.length === 0 ? [allViews] : sources.map((source) => qualifySymbol(source, allViews));
  for (const day of days)
    for (const view of views)
      db.run(
        `insert into listings (day, view, at, markets, is_complete) values (?1, ?2, ?1, 0, 1)
         on conflict do update set is_complete = 1, reason = null`,
        day,
        view,
      );
}

/** The market lists of one source. */
export interface SourceLists {
  /** Null: the only service. */
  readonly source: string | null;
  /** The polled views. */
  readonly views: readonly string[];
}

/** A condition that selects the listings of a source, and its values. */
function selectListings(source: string | null): { where: string; values: string[] } {
  if (source === null) return { where: 'true', values: [] };
  const { from, to } = getSymbolRange(source);
  return { where: '(view >= ? and view < ?)', values: [from, to] };
}

/**
 * Reads the UTC midnight of the last day with a market list request; null if there was none. Of several sources, it is
 * the earliest of their last days: two sources need not be polled at the same time of a day.
 */
export function findLastListedDay(db: Database, sources: readonly (string | null)[] = [null]): number | null {
  const days = sources.flatMap((source) => {
    const { where, values } = selectListings(source);
    return db.one<{ day: number | null }>(`select max(day) as day from listings where ${where}`, ...values)?.day ?? [];
  });
  return days.length === 0 ? null : Math.min(...days);
}

/**
 * Returns whether every one of these views was fetched completely within a UTC day. Reads all days at once. Days before
 * the first recorded list come from backfills and imports. Their lists can no longer be fetched, so any later day with
 * complete lists is sufficient.
 */
export function readCompleteListings(
  db: Database,
  views: readonly string[],
  source: string | null = null,
): (day: number) => boolean {
  const { where, values } = selectListings(source);
  const first =
    db.one<{ day: number | null }>(`select min(day) as day from listings where ${where}`, ...values)?.day ?? null;
  if (first === null) return () => true;
  const rows = db.all<{ day: number; view: string }>(
    `select day, view from listings where is_complete = 1 and ${where}`,
    ...values,
  );
  const known = new Set(rows.map(({ day, view }) => `${day} ${view}`));
  const isKnown = (day: number, view: string): boolean => known.has(`${day} ${qualifySymbol(source, view)}`);
  const isWhole = (day: number): boolean => isKnown(day, allViews) || views.every((view) => isKnown(day, view));
  const isAnyWhole = rows.some(({ day }) => isWhole(day));
  return (day) => (day < first ? isAnyWhole : isWhole(day));
}

/** Reads the recorded shape of a resource's records; empty if there is none. */
function readShape(db: Database, resource: string): Shape {
  const rows = db.all<{ field: string; types: string }>(
    'select field, types from response_fields where resource = ? order by field',
    resource,
  );
  return new Map(rows.map(({ field, types }) => [field, JSON.parse(types) as FieldShape]));
}

/** Compares the shape of new records with the recorded one and replaces it. `atMs` is epoch ms. */
export const replaceShape = (
  db: Database,
  resource: string,
  now: Shape,
  atMs: number,
  source: string | null = null,
): readonly Drift[] =>
  // One transaction, so that only one of two runs reports a drift.
  db.transaction(() => {
    const key = qualifySymbol(source, resource);
    const { drifts, known } = compareShapes(readShape(db, key), now);
    db.run('delete from response_fields where resource = ?', key);
    for (const [field, shape] of known)
      db.run('insert or replace into response_fields values (?, ?, ?, ?)', key, field, JSON.stringify(shape), atMs);
    return drifts;
  });
