import { ranks } from '../core/merge.ts';
import { type KnownStandings, layStretches, type Stretch } from '../core/precedence.ts';
import { dayFloor, dayMs, type Window } from '../core/window.ts';
import type { Database } from './database.ts';
import { packStretches, unpackStretches } from './packed-stretches.ts';

/**
 * What is known of the published ticks of one UTC day, `day` being its midnight. Reads what there is of a symbol at once
 * and keeps it until another is asked for: a merge goes through them one by one.
 */
export function dayStandings(db: Database, day: number): KnownStandings {
  const window = { from: day, to: day + dayMs };
  return known({
    stretches: ofLatest((symbol) => stretchesIn(db, symbol, day)),
    answers: ofLatest((symbol) => answersIn(db, symbol, window)),
  });
}

/** The same of some symbols as plain values, which a thread can be given. */
export interface StandingsOf {
  readonly stretches: ReadonlyMap<string, readonly Stretch[]>;
  readonly answers: ReadonlyMap<string, readonly Answer[]>;
}

/** What is known of the published ticks of these symbols on one UTC day. */
export function standingsOf(db: Database, day: number, symbols: Iterable<string>): StandingsOf {
  const window = { from: day, to: day + dayMs };
  const out = { stretches: new Map<string, Stretch[]>(), answers: new Map<string, Answer[]>() };
  const enter = <T>(to: Map<string, T[]>, symbol: string, its: T[]): void => {
    if (its.length > 0) to.set(symbol, its);
  };
  for (const symbol of symbols) {
    enter(out.stretches, symbol, stretchesIn(db, symbol, day));
    enter(out.answers, symbol, answersIn(db, symbol, window));
  }
  return out;
}

/** Answers from the values. */
export const knownStandings = ({ stretches, answers }: StandingsOf): KnownStandings =>
  known({
    stretches: (symbol) => stretches.get(symbol) ?? [],
    answers: (symbol) => answers.get(symbol) ?? [],
  });

/** What an answer of the service covered, and when it was generated. */
interface Answer extends Window {
  readonly fetchedAt: number;
}

const known = (of: {
  stretches(symbol: string): readonly Stretch[];
  answers(symbol: string): readonly Answer[];
}): KnownStandings => ({
  stretches: of.stretches,
  // Older versions noted imported ticks, so what is not noted is a poll's: when a file was written says nothing of it.
  standIn(symbol, t) {
    const answer = of.answers(symbol).find(({ from, to }) => from <= t && t < to);
    return { rank: ranks.poll, observedAt: answer?.fetchedAt ?? Number.NEGATIVE_INFINITY };
  },
});

const answersIn = (db: Database, symbol: string, { from, to }: Window): Answer[] =>
  db.all<Answer & Record<string, number>>(
    `select t_from as "from", t_to as "to", fetched_at as fetchedAt from segments
     where symbol = ?1 and t_to > ?2 and t_from < ?3 and origin <> 'import' order by fetched_at desc`,
    symbol,
    from,
    to,
  );

/** Notes what a merge found out. Inside the publish's transaction. */
export function noteStandings(db: Database, found: readonly Stretch[]): void {
  const ofSymbols = Map.groupBy(found, ({ symbol }) => symbol);
  for (const [symbol, stretches] of ofSymbols) {
    for (const [day, ofDay] of Map.groupBy(stretches, ({ from }) => dayFloor(from)))
      enterStretches(db, symbol, day, layStretches(stretchesIn(db, symbol, day), ofDay));
  }
}

/** Puts the stretches of a symbol and UTC day, sorted and disjoint, in the place of those that there are. */
function enterStretches(db: Database, symbol: string, day: number, stretches: readonly Stretch[]): void {
  db.run('insert or replace into standings values (?, ?, ?)', symbol, day, packStretches(stretches, day));
}

function stretchesIn(db: Database, symbol: string, day: number): Stretch[] {
  const sql = 'select stretches from standings where symbol = ? and day = ?';
  const row = db.one<{ stretches: Uint8Array }>(sql, symbol, day);
  return row === undefined ? [] : unpackStretches(row.stretches, symbol, day);
}

/** Takes over what older versions kept: stretches of imports, and single keys, which come first. In one transaction. */
export function packOlderStandings(db: Database): void {
  type Row = { symbol: string; t_from: number; t_to: number; rank: number; observed_at: number };
  const stretchOf = (row: Row): Stretch => ({
    symbol: row.symbol,
    from: row.t_from,
    to: row.t_to,
    rank: row.rank,
    observedAt: row.observed_at,
  });
  for (const sql of [
    'select * from imported order by symbol, t_from',
    'select symbol, t as t_from, t + 1 as t_to, rank, observed_at from contested order by symbol, t',
  ])
    noteStandings(db, db.all<Row>(sql).map(stretchOf));
  db.script('drop table imported; drop table contested;');
}

/** Keeps the answer for the symbol that was asked for last. */
function ofLatest<T>(read: (symbol: string) => T): (symbol: string) => T {
  let latest: { symbol: string; value: T } | undefined;
  return (symbol) => {
    if (latest?.symbol !== symbol) latest = { symbol, value: read(symbol) };
    return latest.value;
  };
}
