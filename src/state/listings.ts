import { floorToDay } from '../core/window.ts';
import type { Database } from './database.ts';

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
