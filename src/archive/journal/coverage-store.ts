import { pushTo } from '../../base/push-to.ts';
import { intersect, subtract, union, type Window } from '../../base/window.ts';
import {
  type CoveredWindow,
  isProven,
  joinProvenWindows,
  overlayCoverage,
  withdrawCoverage,
} from '../format/coverage.ts';
import { type Database, getMeta, setMeta, toSourceKey } from './database.ts';
import { toCoveredWindow, type WindowRow } from './journal-rows.ts';
import { separateResponsesMs } from './recheck-results.ts';

interface CoverageRow extends WindowRow {
  symbol: string;
}

/**
 * Reads all coverage of one symbol, published or journaled.
 * @param believedMs responses after this time (epoch ms) are ignored, because the clock of their run was ahead
 */
export const readSymbolCoverage = (db: Database, symbol: string, believedMs = Number.MAX_SAFE_INTEGER): Window[] =>
  union(readCurrentCoverageWhere(db, 'symbol = ?1', [symbol, believedMs], 'and fetched_at <= ?2').get(symbol) ?? []);

/** Reads the published coverage of one symbol, one window per response, sorted and disjoint. */
export const readPublishedCoverage = (db: Database, symbol: string): CoveredWindow[] =>
  readPublishedCoverageWhere(db, 'symbol = ?', symbol).get(symbol) ?? [];

/**
 * Reads the coverage of one symbol, published or journaled, one window per response, sorted by time. Windows may
 * overlap.
 */
export const readResponses = (db: Database, symbol: string): CoveredWindow[] =>
  (readCurrentCoverageOf(db, [symbol]).get(symbol) ?? []).sort((a, b) => a.from - b.from);

export const readAllPublishedCoverage = (db: Database): Map<string, CoveredWindow[]> =>
  readPublishedCoverageWhere(db, 'true');

/** Reads the published coverage that overlaps a window, by symbol. Windows are not clipped. */
export const readPublishedCoverageIn = (db: Database, { from, to }: Window): Map<string, CoveredWindow[]> =>
  readPublishedCoverageWhere(db, 't_from < ? and t_to > ?', to, from);

function readPublishedCoverageWhere(
  db: Database,
  where: string,
  ...values: (string | number)[]
): Map<string, CoveredWindow[]> {
  const out = new Map<string, CoveredWindow[]>();
  const sql = `select * from coverage where ${where} order by symbol, t_from`;
  for (const row of readRows<CoverageRow>(db, sql, values)) pushTo(out, row.symbol, toCoveredWindow(row));
  return out;
}

const areOf = 'symbol in (select value from json_each(?1))';

/** Reads the published coverage of these symbols. */
export const readPublishedCoverageOf = (db: Database, symbols: Iterable<string>): Map<string, CoveredWindow[]> =>
  readPublishedCoverageWhere(db, areOf, JSON.stringify([...symbols]));

/** Reads the coverage of symbols, published or journaled, with its evidence. Windows of a symbol may overlap. */
export const readCurrentCoverageOf = (db: Database, symbols: readonly string[]): Map<string, CoveredWindow[]> =>
  readCurrentCoverageWhere(db, areOf, [JSON.stringify(symbols)]);

/** A window in the state, its kind, and the journal record that it came with (0: published). */
interface CurrentCoverageRow extends CoverageRow {
  kind: 'published' | 'journaled' | 'withdrawn';
  recordId: number;
}

/** @param ofCovered a further condition for coverage, but not for withdrawals */
function readCurrentCoverageWhere(
  db: Database,
  where: string,
  values: readonly (string | number)[],
  ofCovered = '',
): Map<string, CoveredWindow[]> {
  const columns = 'symbol, t_from, t_to, fetched_at, origin, evidence';
  // All input in one statement, so that no publish can intervene.
  const sql = `
    select ${columns}, 'published' as kind, 0 as recordId from coverage where ${where} ${ofCovered}
    union all select ${columns}, 'journaled', record_id from journal_coverage where ${where} ${ofCovered}
    union all select symbol, t_from, t_to, 0, '', '', 'withdrawn', record_id from journal_withdrawn where ${where}`;
  return collectCurrentCoverage(readRows<CurrentCoverageRow>(db, sql, values));
}

/** Reads rows, those of many symbols one at a time. */
const readRows = <R>(db: Database, sql: string, values: readonly (string | number)[]): Iterable<R> =>
  values.length === 0 || sql.includes('json_each') ? db.iterate<R>(sql, ...values) : db.all<R>(sql, ...values);

function collectCurrentCoverage(rows: Iterable<CurrentCoverageRow>): Map<string, CoveredWindow[]> {
  const out = new Map<string, CoveredWindow[]>();
  const journaled: CurrentCoverageRow[] = [];
  const withdrawn = new Map<string, (Window & { record: number })[]>();
  for (const row of rows) {
    if (row.kind === 'withdrawn')
      pushTo(withdrawn, row.symbol, { from: row.t_from, to: row.t_to, record: row.recordId });
    else if (row.kind === 'published') pushTo(out, row.symbol, toCoveredWindow(row));
    else journaled.push(row);
  }
  // A withdrawal removes published coverage and the coverage of earlier records.
  for (const [symbol, windows] of withdrawn) out.set(symbol, withdrawCoverage(out.get(symbol) ?? [], windows));
  for (const row of journaled) {
    const later = withdrawn.get(row.symbol)?.filter(({ record }) => record > row.recordId) ?? [];
    for (const remaining of withdrawCoverage([toCoveredWindow(row)], later)) pushTo(out, row.symbol, remaining);
  }
  return out;
}

/**
 * Finds the covered windows of a symbol that are not proven, and that a response of today could prove.
 * @param cutMs no response proves what is later, epoch ms
 */
export function findUnprovenOf(db: Database, symbol: string, cutMs: number): Window[] {
  const covered = readCurrentCoverageOf(db, [symbol]).get(symbol) ?? [];
  const unproven = subtract(union(covered), union(covered.filter(isProven)));
  return intersect(unproven, [{ from: Number.NEGATIVE_INFINITY, to: cutMs }]);
}

/** Removes the coverage of a symbol in some windows. Must run inside the publish's transaction. */
export function retractCoverage(db: Database, symbol: string, windows: readonly Window[]): void {
  for (const window of readPublishedCoverage(db, symbol)) {
    const remaining = subtract([window], windows);
    if (remaining.length === 1 && remaining[0]!.from === window.from && remaining[0]!.to === window.to) continue;
    deleteCoverage(db, symbol, window);
    insertCoverage(
      db,
      symbol,
      remaining.map((rest) => ({ ...window, ...rest })),
    );
  }
}

/** Overlays newly published coverage on that of a symbol. Must run inside the publish's transaction. */
export function overlayPublishedCoverage(db: Database, symbol: string, added: readonly CoveredWindow[]): void {
  if (added.length === 0) return;
  const from = added.reduce((min, w) => Math.min(min, w.from), Number.POSITIVE_INFINITY);
  const to = added.reduce((max, w) => Math.max(max, w.to), Number.NEGATIVE_INFINITY);
  // Includes adjacent windows, and older ones that can now be joined.
  const near =
    readPublishedCoverageWhere(
      db,
      'symbol = ? and t_to >= ? and t_from <= ?',
      symbol,
      from - 2 * separateResponsesMs,
      to,
    ).get(symbol) ?? [];
  for (const window of near) deleteCoverage(db, symbol, window);
  insertCoverage(db, symbol, joinOldCoverage(overlayCoverage([...near, ...added])));
}

/** Joins the proven windows of one symbol that are old enough: they no longer show how late ticks are. */
export function joinOldCoverage(sorted: readonly CoveredWindow[]): CoveredWindow[] {
  const newest = sorted.reduce((max, { fetchedAt }) => Math.max(max, fetchedAt), Number.NEGATIVE_INFINITY);
  return joinProvenWindows(sorted, newest - separateResponsesMs);
}

/** Inserts covered windows of a symbol that has none in these windows. */
export function insertCoverage(db: Database, symbol: string, covered: readonly CoveredWindow[]): void {
  for (const s of covered)
    db.run(
      'insert into coverage (symbol, t_from, t_to, fetched_at, origin, evidence) values (?, ?, ?, ?, ?, ?)',
      symbol,
      s.from,
      s.to,
      s.fetchedAt,
      s.origin,
      s.evidence,
    );
}

const deleteCoverage = (db: Database, symbol: string, { from }: Window): void => {
  db.run('delete from coverage where symbol = ? and t_from = ?', symbol, from);
};

/**
 * Finds the window from the first to the last time of all covered windows (published or journaled), published ticks,
 * lost windows and owed windows; null if there are none.
 */
export function findKnownWindow(db: Database): Window | null {
  const row = db.one<{ t_from: number | null; t_to: number | null }>(
    `select min(t_from) as t_from, max(t_to) as t_to from
       (select t_from, t_to from symbols s indexed by symbols_open cross join coverage c on c.symbol = s.symbol
          where s.closed_to is null
        union all select first_tick, last_tick + 1 from symbols indexed by symbols_open where closed_to is null
        union all select (select min(known_from) from symbols where known_from is not null),
          (select max(known_to) from symbols where known_to is not null)
        union all select t_from, t_to from journal_coverage
        union all select t_from, t_to from lost where dataset = 'ticks'
        union all select t_from, t_to from owed)`,
  );
  return row === undefined || row.t_from === null || row.t_to === null ? null : { from: row.t_from, to: row.t_to };
}

// Facts kept between runs that save requests. They are those of one server: `source` is the name
// of the source, or null for the only service of an archive.

/** Reads the recorded page caps; empty if none are recorded. */
export function readKnownPageCaps<Known extends object>(db: Database, source: string | null = null): Partial<Known> {
  const text = getMeta(db, toSourceKey('known_pages', source));
  if (text === undefined) return {};
  return JSON.parse(text, (_, value) => (value === 'infinite' ? Number.POSITIVE_INFINITY : value)) as Partial<Known>;
}

/** Records the page caps that a run inferred; null clears them. */
export function recordKnownPageCaps(db: Database, known: object | null, source: string | null = null): void {
  const key = toSourceKey('known_pages', source);
  const text = JSON.stringify(known ?? {}, (_, value) => (value === Number.POSITIVE_INFINITY ? 'infinite' : value));
  if (text !== getMeta(db, key)) setMeta(db, key, text);
}

/** Runs SQLite's integrity check on the state file. Returns the first error; null if there is none. */
export function findDatabaseFault(db: Database): string | null {
  const row = db.one<Record<string, string>>('pragma integrity_check(1)');
  const message = row === undefined ? 'no answer' : Object.values(row)[0]!;
  return message === 'ok' ? null : message;
}

/**
 * How much of a symbol's time is covered: the number of windows, their total length, and their start and end in epoch
 * ms.
 */
export interface CoverageExtent {
  readonly windows: number;
  readonly ms: number;
  readonly from: number;
  readonly to: number;
}

/** Computes the extent of each symbol's published coverage. */
export const computeCoverageExtents = (db: Database): Map<string, CoverageExtent> =>
  new Map(
    db
      .all<CoverageExtent & { readonly symbol: string }>(
        `select symbol, count(*) as windows, sum(t_to - t_from) as ms, min(t_from) as "from", max(t_to) as "to"
         from coverage group by symbol`,
      )
      .map((row) => [row.symbol, row]),
  );
