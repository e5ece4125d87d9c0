import { ranks } from '../core/merge.ts';
import type { KeyStanding, KnownStandings, Standing, Stretch } from '../core/standings.ts';
import { dayMs, type Window } from '../core/window.ts';
import type { Database } from './database.ts';

interface StandingRow {
  rank: number;
  observed_at: number;
}

/**
 * What is known of the published ticks of one UTC day, `day` being its midnight. Reads what there is of a symbol at once
 * and keeps it until another is asked for: a merge goes through them one by one.
 */
export function dayStandings(db: Database, day: number): KnownStandings {
  const none = db.one('select 1 from imported limit 1') === undefined;
  const window = { from: day, to: day + dayMs };
  return known({
    contested: ofLatest((symbol) => contestedIn(db, symbol, window)),
    stretches: ofLatest((symbol) => (none ? [] : stretchesIn(db, symbol, window))),
    answers: ofLatest((symbol) => answersIn(db, symbol, window)),
  });
}

/** The same of some symbols as plain values, which a thread can be given. */
export interface StandingsOf {
  readonly contested: ReadonlyMap<string, ReadonlyMap<number, Standing>>;
  readonly stretches: ReadonlyMap<string, readonly Stretch[]>;
  readonly answers: ReadonlyMap<string, readonly Answer[]>;
}

/** What is known of the published ticks of these symbols on one UTC day. */
export function standingsOf(db: Database, day: number, symbols: Iterable<string>): StandingsOf {
  const window = { from: day, to: day + dayMs };
  const out = { contested: new Map(), stretches: new Map(), answers: new Map() };
  const enter = <T extends { readonly size: number } | readonly unknown[]>(
    to: Map<string, T>,
    symbol: string,
    its: T,
  ) => {
    if (('size' in its ? its.size : its.length) > 0) to.set(symbol, its);
  };
  for (const symbol of symbols) {
    enter(out.contested, symbol, contestedIn(db, symbol, window));
    enter(out.stretches, symbol, stretchesIn(db, symbol, window));
    enter(out.answers, symbol, answersIn(db, symbol, window));
  }
  return out;
}

/** Answers from the values. */
export const knownStandings = ({ contested, stretches, answers }: StandingsOf): KnownStandings =>
  known({
    contested: (symbol) => contested.get(symbol),
    stretches: (symbol) => stretches.get(symbol) ?? [],
    answers: (symbol) => answers.get(symbol) ?? [],
  });

/** What an answer of the service covered, and when it was generated. */
interface Answer extends Window {
  readonly fetchedAt: number;
}

const known = (of: {
  contested(symbol: string): ReadonlyMap<number, Standing> | undefined;
  stretches(symbol: string): readonly Stretch[];
  answers(symbol: string): readonly Answer[];
}): KnownStandings => ({
  contested: (symbol, t) => of.contested(symbol)?.get(t),
  stretches: of.stretches,
  // Imported ticks are noted, so what is not noted is a poll's: when a file was written says nothing of it.
  standIn(symbol, t) {
    const answer = of.answers(symbol).find(({ from, to }) => from <= t && t < to);
    return { rank: ranks.poll, observedAt: answer?.fetchedAt ?? Number.NEGATIVE_INFINITY };
  },
});

function contestedIn(db: Database, symbol: string, { from, to }: Window): Map<number, Standing> {
  const sql = 'select t, rank, observed_at from contested where symbol = ? and t >= ? and t < ?';
  const rows = db.all<StandingRow & { t: number }>(sql, symbol, from, to);
  return new Map(rows.map((row): [number, Standing] => [row.t, standingOf(row)]));
}

const answersIn = (db: Database, symbol: string, { from, to }: Window): Answer[] =>
  db.all<Answer & Record<string, number>>(
    `select t_from as "from", t_to as "to", fetched_at as fetchedAt from segments
     where symbol = ?1 and t_to > ?2 and t_from < ?3 and origin <> 'import' order by fetched_at desc`,
    ...[symbol, from, to],
  );

/** Notes what a merge found out. Inside the publish's transaction. */
export function noteStandings(
  db: Database,
  found: { readonly contested: readonly KeyStanding[]; readonly stretches: readonly Stretch[] },
): void {
  for (const stretch of found.stretches) lay(db, stretch);
  for (const { symbol, t, rank, observedAt } of found.contested) {
    db.run(
      'insert into contested values (?, ?, ?, ?) on conflict do update set rank = excluded.rank, observed_at = excluded.observed_at',
      ...[symbol, t, rank, observedAt],
    );
  }
}

/** Puts a stretch in the place of whatever was known of its window. */
function lay(db: Database, stretch: Stretch): void {
  const { symbol, from, to } = stretch;
  db.run('delete from contested where symbol = ? and t >= ? and t < ?', symbol, from, to);
  for (const before of stretchesIn(db, symbol, stretch)) {
    db.run('delete from imported where symbol = ? and t_from = ?', symbol, before.from);
    if (before.from < from) enterStretch(db, { ...before, to: from });
    if (before.to > to) enterStretch(db, { ...before, from: to });
  }
  enterStretch(db, stretch);
}

/** Forgets the standings of single keys in a window: they are published no more. */
export function dropContested(db: Database, symbol: string, { from, to }: Window): void {
  db.run('delete from contested where symbol = ? and t >= ? and t < ?', symbol, from, to);
}

/** Enters a stretch where there is none; it lies within one UTC day. */
export function enterStretch(db: Database, { symbol, from, to, rank, observedAt }: Stretch): void {
  db.run('insert into imported values (?, ?, ?, ?, ?)', symbol, from, to, rank, observedAt);
}

/** The stretches of a symbol that reach into a window of at most a day; a stretch lies within one day itself. */
const stretchesIn = (db: Database, symbol: string, { from, to }: Window): Stretch[] =>
  db
    .all<StandingRow & { t_from: number; t_to: number }>(
      `select t_from, t_to, rank, observed_at from imported
       where symbol = ? and t_from > ? and t_from < ? and t_to > ? order by t_from`,
      ...[symbol, from - dayMs, to, from],
    )
    .map((row) => ({ symbol, from: row.t_from, to: row.t_to, ...standingOf(row) }));

const standingOf = (row: StandingRow): Standing => ({ rank: row.rank, observedAt: row.observed_at });

/** Keeps the answer for the symbol that was asked for last. */
function ofLatest<T>(read: (symbol: string) => T): (symbol: string) => T {
  let latest: { symbol: string; value: T } | undefined;
  return (symbol) => {
    if (latest?.symbol !== symbol) latest = { symbol, value: read(symbol) };
    return latest.value;
  };
}
