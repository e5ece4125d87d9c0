import { type Covered, joinFinal, type Origin, overlay } from '../core/coverage.ts';
import { ranks, type Standing } from '../core/merge.ts';
import { dayMs, union, type Window } from '../core/window.ts';
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

/** Everything asked and answered for one symbol, published or journaled. */
export const coverageOf = (db: Database, symbol: string): Window[] =>
  union(
    db.all<Window & Record<string, number>>(
      `select t_from as "from", t_to as "to" from segments where symbol = ?1
       union all select t_from, t_to from journal_cover where symbol = ?1`,
      symbol,
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

/** How long the answers of a symbol are told apart, in ms; older ones are joined once they are final. */
const apartMs = 2 * dayMs;

/** Lays what a publish took in over a symbol's segments. Inside the publish's transaction. */
export function addSegments(db: Database, symbol: string, added: readonly Covered[], settleMs: number): void {
  if (added.length === 0) return;
  const from = Math.min(...added.map((w) => w.from));
  const to = Math.max(...added.map((w) => w.to));
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

/** The standing of a published price: its own where it was ever contested or imported. */
export function contestedStanding(db: Database, symbol: string, t: number): Standing | undefined {
  const row = db.one<{ rank: number; observed_at: number }>(
    'select rank, observed_at from contested where symbol = ? and t = ?',
    ...[symbol, t],
  );
  return row === undefined ? undefined : { rank: row.rank, observedAt: row.observed_at };
}

/**
 * A stand-in for the standing of a published price that was never contested: the import that its stretch came from, else
 * the answer that covers its moment.
 */
export function standInStanding(db: Database, symbol: string, t: number): Standing {
  const imported = db.one<{ rank: number; observed_at: number }>(
    'select rank, observed_at from imported where symbol = ?1 and t_from <= ?2 and t_to > ?2',
    ...[symbol, t],
  );
  if (imported !== undefined) return { rank: imported.rank, observedAt: imported.observed_at };
  const row = db.one<{ fetched_at: number }>(
    'select fetched_at from segments where symbol = ?1 and t_from <= ?2 and t_to > ?2',
    ...[symbol, t],
  );
  return { rank: ranks.poll, observedAt: row?.fetched_at ?? Number.NEGATIVE_INFINITY };
}

/** Enters a stretch of one day's ticks that came from an import; it overlaps no other of the symbol. */
export function setImported(db: Database, symbol: string, { from, to }: Window, { rank, observedAt }: Standing): void {
  db.run('insert into imported values (?, ?, ?, ?, ?)', symbol, from, to, rank, observedAt);
}

export function setContested(db: Database, symbol: string, t: number, standing: Standing): void {
  db.run(
    'insert into contested values (?, ?, ?, ?) on conflict do update set rank = excluded.rank, observed_at = excluded.observed_at',
    ...[symbol, t, standing.rank, standing.observedAt],
  );
}

/** From the first to the last moment that anything covers, published or journaled; null where nothing does. */
export function coverageSpan(db: Database): Window | null {
  const row = db.one<{ t_from: number | null; t_to: number | null }>(
    `select min(t_from) as t_from, max(t_to) as t_to from
       (select t_from, t_to from segments union all select t_from, t_to from journal_cover)`,
  );
  return row === undefined || row.t_from === null || row.t_to === null ? null : { from: row.t_from, to: row.t_to };
}
