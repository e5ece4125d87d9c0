import { type Covered, joinFinal, type Origin, overlay } from '../core/coverage.ts';
import { dayMs, subtract, union, type Window } from '../core/window.ts';
import type { Database } from './database.ts';

interface SegmentRow {
  symbol: string;
  t_from: number;
  t_to: number;
  fetched_at: number;
  origin: Origin;
}

const coveredOf = (row: SegmentRow): Covered => ({
  from: row.t_from,
  to: row.t_to,
  fetchedAt: row.fetched_at,
  origin: row.origin,
});

/**
 * Everything asked and answered for one symbol, published or journaled.
 * @param believedMs answers of a later moment do not count: the clock of the run that had them was ahead
 */
export const coverageOf = (db: Database, symbol: string, believedMs = Number.MAX_SAFE_INTEGER): Window[] =>
  union(
    db.all<Window & Record<string, number>>(
      `select t_from as "from", t_to as "to" from segments where symbol = ?1 and fetched_at <= ?2
       union all select t_from, t_to from journal_cover where symbol = ?1 and fetched_at <= ?2`,
      ...[symbol, believedMs],
    ),
  );

/** The published coverage of one symbol, at the grain of single answers. */
export const segmentsOf = (db: Database, symbol: string): Covered[] =>
  db
    .all<SegmentRow & Record<string, number>>('select * from segments where symbol = ? order by t_from', symbol)
    .map(coveredOf);

/** The published coverage of every symbol. */
export function allSegments(db: Database): Map<string, Covered[]> {
  const out = new Map<string, Covered[]>();
  for (const row of db.iterate<SegmentRow>('select * from segments order by symbol, t_from')) {
    const list = out.get(row.symbol);
    if (list === undefined) out.set(row.symbol, [coveredOf(row)]);
    else list.push(coveredOf(row));
  }
  return out;
}

/** Whether some answer is journaled that covers something. */
export const isCoverJournaled = (db: Database): boolean => db.one('select 1 from journal_cover limit 1') !== undefined;

/** The end of what is published as covered, by symbol. */
export const coveredEnds = (db: Database): Map<string, number> =>
  new Map(
    db
      .all<{ symbol: string; to: number }>('select symbol, max(t_to) as "to" from segments group by symbol')
      .map(({ symbol, to }) => [symbol, to]),
  );

/** The published coverage that reaches into a window, by symbol; as it is, not cut. */
export function segmentsIn(db: Database, { from, to }: Window): Map<string, Covered[]> {
  const rows = db.all<SegmentRow & Record<string, number>>(
    'select * from segments where t_from < ? and t_to > ? order by symbol, t_from',
    ...[to, from],
  );
  return new Map([...Map.groupBy(rows, (row) => row.symbol)].map(([symbol, list]) => [symbol, list.map(coveredOf)]));
}

/** What of a window is asked and answered, published or journaled, by symbol; as it is, not cut. */
export function coverageIn(db: Database, { from, to }: Window): Map<string, Window[]> {
  const rows = db.iterate<{ symbol: string; t_from: number; t_to: number }>(
    `select symbol, t_from, t_to from segments where t_from < ?2 and t_to > ?1
     union all select symbol, t_from, t_to from journal_cover where t_from < ?2 and t_to > ?1`,
    ...[from, to],
  );
  const out = new Map<string, Window[]>();
  for (const { symbol, t_from, t_to } of rows) {
    const list = out.get(symbol);
    if (list === undefined) out.set(symbol, [{ from: t_from, to: t_to }]);
    else list.push({ from: t_from, to: t_to });
  }
  return out;
}

/** Takes back what is covered of a symbol in some windows. Inside the transaction that publishes it. */
export function retractSegments(db: Database, symbol: string, windows: readonly Window[]): void {
  for (const segment of segmentsOf(db, symbol)) {
    const left = subtract([segment], windows);
    if (left.length === 1 && left[0]!.from === segment.from && left[0]!.to === segment.to) continue;
    db.run('delete from segments where symbol = ? and t_from = ?', symbol, segment.from);
    restoreSegments(
      db,
      symbol,
      left.map((window) => ({ ...segment, ...window })),
    );
  }
}

/** How long the answers of a symbol are told apart, in ms; older ones are joined once they are final. */
const apartMs = 2 * dayMs;

/** Lays what a publish took in over a symbol's segments. Inside the publish's transaction. */
export function addSegments(db: Database, symbol: string, added: readonly Covered[], settleMs: number): void {
  if (added.length === 0) return;
  const from = added.reduce((least, w) => Math.min(least, w.from), Number.POSITIVE_INFINITY);
  const to = added.reduce((most, w) => Math.max(most, w.to), Number.NEGATIVE_INFINITY);
  // The neighbours too, and those old enough by now to be joined with theirs.
  const near = db
    .all<SegmentRow & Record<string, number>>(
      'select * from segments where symbol = ? and t_to >= ? and t_from <= ?',
      ...[symbol, from - 2 * apartMs, to],
    )
    .map(coveredOf);
  for (const segment of near) db.run('delete from segments where symbol = ? and t_from = ?', symbol, segment.from);
  restoreSegments(db, symbol, joinOld(overlay([...near, ...added]), settleMs));
}

/** Joins the answers of one symbol, sorted and disjoint, that are final and no longer told apart. */
export function joinOld(sorted: readonly Covered[], settleMs: number): Covered[] {
  const newest = sorted.reduce((max, s) => Math.max(max, s.fetchedAt), Number.NEGATIVE_INFINITY);
  return joinFinal(sorted, settleMs, newest - apartMs);
}

/** Enters segments of a symbol where there are none. */
export function restoreSegments(db: Database, symbol: string, segments: readonly Covered[]): void {
  for (const s of segments)
    db.run('insert into segments values (?, ?, ?, ?, ?)', symbol, s.from, s.to, s.fetchedAt, s.origin);
}

/**
 * From the first to the last moment of which anything is known, be it covered (published or journaled), a published
 * tick, or lost; null where there is none.
 */
export function knownSpan(db: Database): Window | null {
  const row = db.one<{ t_from: number | null; t_to: number | null }>(
    `select min(t_from) as t_from, max(t_to) as t_to from
       (select t_from, t_to from segments union all select t_from, t_to from journal_cover
        union all select first_tick, last_tick + 1 from symbols
        union all select t_from, t_to from lost where dataset = 'ticks')`,
  );
  return row === undefined || row.t_from === null || row.t_to === null ? null : { from: row.t_from, to: row.t_to };
}
