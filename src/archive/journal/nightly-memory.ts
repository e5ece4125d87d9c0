import { floorToDay } from '../../base/window.ts';
import { type Database, getMeta, setMeta } from './database.ts';
import type { NightVolume } from './nightly-comparison.ts';
import { emptyRecheckMemory, type RecheckMemory } from './recheck-results.ts';
import { compareShapes, type Drift, type FieldShape, type Shape } from './schema-drift.ts';

export interface RecordedNight extends NightVolume {
  readonly runId: string;
  /** Counts as in `PolledCounts`; null of a night that an older oddslake remembered. */
  readonly late: number | null;
  readonly conflicts: number | null;
  /** The moment of the market lists that it polled, epoch ms; null where none could be had. */
  readonly listedAt: number | null;
}

const nightsMax = 30;

/** The nights remembered, the latest first; at most 30. */
export const readLastNights = (db: Database): RecordedNight[] =>
  db.all<RecordedNight & Record<string, never>>(
    `select run_id as "runId", polled_to as "polledTo", polled_ms as "polledMs", markets, ticks, late, conflicts,
       listed_at as "listedAt"
     from nights order by polled_to desc limit ?`,
    nightsMax,
  );

export function recordNight(db: Database, night: RecordedNight): void {
  const { runId, polledTo, polledMs, markets, ticks, late, conflicts, listedAt } = night;
  db.transaction(() => {
    db.run(
      `insert or replace into nights (run_id, polled_to, polled_ms, markets, ticks, late, conflicts, listed_at)
       values (?, ?, ?, ?, ?, ?, ?, ?)`,
      runId,
      polledTo,
      polledMs,
      markets,
      ticks,
      late,
      conflicts,
      listedAt,
    );
    db.run(
      'delete from nights where run_id not in (select run_id from nights order by polled_to desc limit ?)',
      nightsMax,
    );
  });
}

/** What polls brought. */
export interface PolledCounts {
  /** Published ticks that were new; */
  readonly ticks: number;
  /** those of them that came after their window was covered; */
  readonly late: number;
  /** and ticks that differ from a published price. */
  readonly conflicts: number;
}

/**
 * What a run brought and polls begun after another one and before it, whichever job polled: a job that polls every hour
 * leaves the night little, and what it begins beside a night is the next one's. What a backfill or an import brought is no
 * poll's.
 */
export function countPolled(db: Database, runId: string, after: string): PolledCounts {
  // Names of runs sort by their time.
  const row = db.one<{ ticks: number | null; late: number | null; conflicts: number | null }>(
    `select sum(accepted + recovered) as ticks, sum(late) as late, sum(conflicts) as conflicts from runs
     where run_id = ?1 or (run_id > ?2 and run_id < ?1 and job in ('nightly', 'ticks'))`,
    runId,
    after,
  );
  return { ticks: row?.ticks ?? 0, late: row?.late ?? 0, conflicts: row?.conflicts ?? 0 };
}

const rechecksKey = 'rechecks';

/** What is remembered of rechecks from night to night; nothing before the first. */
export function readRechecks(db: Database): RecheckMemory {
  const text = getMeta(db, rechecksKey);
  return text === undefined
    ? emptyRecheckMemory
    : { ...emptyRecheckMemory, ...(JSON.parse(text) as Partial<RecheckMemory>) };
}

/** Changes what is remembered, in one transaction: another process may note what it found. */
export function updateRechecks(db: Database, change: (memory: RecheckMemory) => RecheckMemory): void {
  db.transaction(() => {
    const before = readRechecks(db);
    const after = change(before);
    if (after !== before) setMeta(db, rechecksKey, JSON.stringify(after));
  });
}

/** Stands for all views together. */
const allViews = '*';

/** What became of asking for one market list. */
export interface MarketListing {
  readonly view: string;
  /** The moment that it is of, epoch ms. */
  readonly at: number;
  /** Markets that it named, and how many there are by what the service stated; null where it stated none. */
  readonly named: number;
  readonly total: number | null;
  /** Why it does not count as whole, one clause; null where it does. */
  readonly reason: string | null;
}

/** Keeps what became of the lists of one poll: of each day and view a whole list, if there was one, else the latest. */
export function recordListings(
  db: Database,
  listings: readonly MarketListing[],
  all: Omit<MarketListing, 'view' | 'total'>,
): void {
  for (const { view, at, named, total, reason } of [...listings, { view: allViews, total: null, ...all }]) {
    db.run(
      `insert into listings (day, view, at, named, total, whole, reason) values (?, ?, ?, ?, ?, ?, ?)
       on conflict do update set at = excluded.at, named = excluded.named, total = excluded.total,
         whole = excluded.whole, reason = excluded.reason
       where excluded.whole > listings.whole or (excluded.whole = listings.whole and excluded.at >= listings.at)`,
      floorToDay(at),
      view,
      at,
      named,
      total,
      Number(reason === null),
      reason,
    );
  }
}

/** The reason of lists that were whole by what the service stated, and suspiciously short. */
export const shortListReason = 'short';

/**
 * How many markets all lists named together on the last days before a moment (epoch ms) on which they were whole by what
 * the service stated, the latest first.
 */
export const readNamedCountsBefore = (db: Database, atMs: number, daysMax: number): number[] =>
  db
    .all<{ named: number }>(
      'select named from listings where view = ? and at < ? and (whole = 1 or reason = ?) order by day desc limit ?',
      allViews,
      atMs,
      shortListReason,
      daysMax,
    )
    .map(({ named }) => named);

/** Notes days as wholly listed of which nothing else is known. */
export function restoreListings(db: Database, days: Iterable<number>): void {
  for (const day of days)
    db.run('insert or ignore into listings (day, view, at, named, whole) values (?, ?, ?, 0, 1)', day, allViews, day);
}

/** UTC midnight of the last day on which any market list was asked for; null where none was. */
export const findLastListedDay = (db: Database): number | null =>
  db.one<{ day: number | null }>('select max(day) as day from listings')?.day ?? null;

/**
 * Whether each of these views was listed whole within a UTC day; reads all days at once. Days before the first on which
 * any list was asked for are those of backfills and imports: no list of theirs can be had any more, and a whole one of a
 * later day has to do.
 */
export function readWholeListings(db: Database, views: readonly string[]): (day: number) => boolean {
  const first = db.one<{ day: number | null }>('select min(day) as day from listings')?.day ?? null;
  if (first === null) return () => true;
  const rows = db.all<{ day: number; view: string }>('select day, view from listings where whole = 1');
  const known = new Set(rows.map(({ day, view }) => `${day} ${view}`));
  const isWhole = (day: number): boolean =>
    known.has(`${day} ${allViews}`) || views.every((view) => known.has(`${day} ${view}`));
  const isAnyWhole = rows.some(({ day }) => isWhole(day));
  return (day) => (day < first ? isAnyWhole : isWhole(day));
}

/** What the records of a resource looked like when they were last seen; nothing where they never were. */
export function readShape(db: Database, resource: string): Shape {
  const rows = db.all<{ field: string; types: string }>(
    'select field, types from shapes where resource = ? order by field',
    resource,
  );
  return new Map(rows.map(({ field, types }) => [field, JSON.parse(types) as FieldShape]));
}

/** Compares what the records look like with what is known, which they are from now on. `atMs`: epoch ms. */
export const replaceShape = (db: Database, resource: string, now: Shape, atMs: number): readonly Drift[] =>
  // At once, so that of two runs only one tells of a drift.
  db.transaction(() => {
    const { drifts, known } = compareShapes(readShape(db, resource), now);
    db.run('delete from shapes where resource = ?', resource);
    for (const [field, shape] of known)
      db.run('insert or replace into shapes values (?, ?, ?, ?)', resource, field, JSON.stringify(shape), atMs);
    return drifts;
  });
