import { formatCount } from '../../base/format-quantity.ts';
import { qualifySymbol } from '../../base/source-name.ts';
import { formatDay, parseDayStart } from '../../base/time.ts';
import type { Manifest, PublishedList } from '../format/manifest.ts';
import { type Database, getMeta, setMeta, toSourceKey } from './database.ts';
import { emptyRecheckHistory, type RecheckHistory } from './recheck-results.ts';
import { selectSymbolsOf } from './symbol-store.ts';

// Facts about a server are those of one source. `source` is its name, or null for the only service of an archive.

const lastNightKey = 'last_night';

/** Reads up to when the last nightly run of a source polled, epoch ms; null before the first one. */
export function readLastNight(db: Database, source: string | null = null): number | null {
  const text = getMeta(db, toSourceKey(lastNightKey, source));
  return text === undefined ? null : Number(text);
}

export const recordLastNight = (db: Database, polledTo: number, source: string | null = null): void =>
  setMeta(db, toSourceKey(lastNightKey, source), String(polledTo));

const pollJobsSql = "'nightly', 'ticks', 'live'";

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
export interface MarketListing {
  readonly view: string;
  /** Time of the list, epoch ms. */
  readonly at: number;
  /** Markets in the list, and the total stated by the server; null if it stated none. */
  readonly markets: number;
  readonly total: number | null;
  /** Why the list does not count as complete, one clause; null if it does. */
  readonly reason: string | null;
  /** Why a complete list is not known to be whole; null if it is. */
  readonly doubt: string | null;
}

/** Records the lists of one poll. For each day and view, a whole list is kept if there is one, else a complete one, else the latest. */
export function recordListings(
  db: Database,
  listings: readonly MarketListing[],
  combined: Omit<MarketListing, 'view' | 'total'>,
  source: string | null = null,
): void {
  for (const { view, reason, doubt, ...list } of [...listings, { view: allViews, total: null, ...combined }])
    insertListing(db, {
      ...list,
      date: formatDay(list.at),
      view: qualifySymbol(source, view),
      complete: reason === null,
      reason: reason ?? doubt,
    });
}

const insertListing = (db: Database, { date, view, at, markets, total, complete, reason }: PublishedList): void =>
  void db.run(
    `insert into listings (day, view, at, markets, total, is_complete, reason) values (?, ?, ?, ?, ?, ?, ?)
     on conflict do update set at = excluded.at, markets = excluded.markets, total = excluded.total,
       is_complete = excluded.is_complete, reason = excluded.reason
     where ${toRankSql('excluded')} > ${toRankSql('listings')}
       or (${toRankSql('excluded')} = ${toRankSql('listings')} and excluded.at >= listings.at)`,
    parseDayStart(date),
    view,
    at,
    markets,
    total,
    Number(complete),
    reason,
  );

/** Whole lists rank before complete ones, and these before others. */
const toRankSql = (row: string): string => `(2 * ${row}.is_complete + (${row}.reason is null))`;

/** The reason of lists that were complete according to the server, but suspiciously short. */
export const shortListReason = 'short';

/** Lists that fall by more than this share are suspicious. */
const shortShareMax = 0.5;
/** With fewer days or markets, no usual length is known. */
const shortDaysMin = 3;
const shortMarketsMin = 5;

/**
 * Describes market lists that are suddenly short, as in an outage or with a key that has another scope: empty, or less than
 * half of the median of the last seven days whose lists were complete according to the server. One clause, or null.
 * @param atMs time of the lists, epoch ms
 */
export function describeShortLists(
  db: Database,
  count: number,
  atMs: number,
  source: string | null = null,
): string | null {
  const counts = db
    .all<{ markets: number }>(
      `select markets from listings where view = ? and at < ? and (is_complete = 1 or reason = ?)
       order by day desc limit 7`,
      qualifySymbol(source, allViews),
      atMs,
      shortListReason,
    )
    .map(({ markets }) => markets)
    .sort((a, b) => a - b);
  if (counts.length === 0) return null;
  const usual = (counts[(counts.length - 1) >> 1]! + counts[counts.length >> 1]!) / 2;
  const hasFallen = counts.length >= shortDaysMin && usual >= shortMarketsMin && count < (1 - shortShareMax) * usual;
  if (!hasFallen && (count > 0 || usual === 0)) return null;
  return `the lists name ${count}, the median of the last ${formatCount(counts.length, 'day')} is ${usual}: no market is marked inactive because of it`;
}

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

/** The lists of each day and view as the manifest publishes them; an empty object if there are none. */
export function toManifestLists(db: Database): Pick<Manifest['datasets']['markets'], 'lists'> {
  const rows = db.all<Omit<PublishedList, 'date' | 'complete'> & { day: number; is_complete: number }>(
    'select day, view, at, markets, total, is_complete, reason from listings order by day, view',
  );
  const lists = rows.map(({ day, is_complete, reason, ...list }) => {
    return { date: formatDay(day), ...list, complete: is_complete === 1, reason };
  });
  return lists.length === 0 ? {} : { lists };
}

/**
 * Records what a manifest says of lists. That all views were listed is only taken for a day without a poll of its own: another
 * archive may poll fewer views.
 */
export function restoreListings(db: Database, { datasets: { markets } }: Manifest): void {
  const isPolled = ({ date, view }: PublishedList): boolean =>
    db.one('select 1 from listings where day = ? and view = ?', parseDayStart(date), view) !== undefined;
  const isOfAllViews = ({ view }: PublishedList): boolean => `:${view}`.endsWith(`:${allViews}`);
  for (const list of markets.lists ?? []) if (!isOfAllViews(list) || !isPolled(list)) insertListing(db, list);
}

export interface SourceLists {
  /** Null: the only service. */
  readonly source: string | null;
  readonly views: readonly string[];
}

/**
 * Reads the UTC midnight of the last day with a market list request; null if there was none. Of several sources, it is
 * the earliest of their last days: two sources need not be polled at the same time of a day.
 */
export function findLastListedDay(db: Database, sources: readonly (string | null)[] = [null]): number | null {
  const days = sources.flatMap((source) => {
    const { where, values } = selectSymbolsOf(source, 'view');
    return db.one<{ day: number | null }>(`select max(day) as day from listings where ${where}`, ...values)?.day ?? [];
  });
  return days.length === 0 ? null : Math.min(...days);
}

/** What is known of the market lists of a day. */
interface DayLists {
  /** Whether every view was fetched, and nothing showed that it was incomplete. */
  readonly isComplete: boolean;
  /** Why complete lists are not known to be whole, one clause; null if they are. */
  readonly doubt: string | null;
}

/**
 * Returns what is known of the lists of these views on a UTC day. Reads all days at once. Days before the first recorded list
 * come from backfills and imports. Their lists can no longer be fetched, so the best lists of any later day are sufficient.
 */
export function readDayLists(
  db: Database,
  views: readonly string[],
  source: string | null = null,
): (day: number) => DayLists {
  const { where, values } = selectSymbolsOf(source, 'view');
  const first =
    db.one<{ day: number | null }>(`select min(day) as day from listings where ${where}`, ...values)?.day ?? null;
  if (first === null) return () => ({ isComplete: true, doubt: null });
  const rows = db.all<{ day: number; view: string; reason: string | null }>(
    `select day, view, reason from listings where is_complete = 1 and ${where}`,
    ...values,
  );
  const doubts = new Map(rows.map(({ day, view, reason }) => [`${day} ${view}`, reason]));
  const judge = (day: number): DayLists => {
    const find = (view: string): string | null | undefined => doubts.get(`${day} ${qualifySymbol(source, view)}`);
    const ofAll = find(allViews);
    const ofEach = views.map(find);
    const isEachComplete = !ofEach.includes(undefined);
    if (ofAll === null || (isEachComplete && ofEach.every((doubt) => doubt === null)))
      return { isComplete: true, doubt: null };
    return { isComplete: ofAll !== undefined || isEachComplete, doubt: ofAll ?? ofEach.find((doubt) => doubt) ?? null };
  };
  const best = [...new Set(rows.map(({ day }) => day))].map(judge).filter(({ isComplete }) => isComplete);
  const later = best.find(({ doubt }) => doubt === null) ?? best[0] ?? { isComplete: false, doubt: null };
  return (day) => (day < first ? later : judge(day));
}
