import { dayMs, floorToDay, type Window } from '../../base/window.ts';
import type { BookObservation, BookObservedAtLookup } from '../format/order-book.ts';
import {
  type KnownPrecedence,
  overlayPrecedence,
  type PrecedenceWindow,
  precedenceRanks,
} from '../format/precedence.ts';
import type { Database } from './database.ts';

/**
 * What is known of the published ticks of one UTC day, `day` being its midnight. Reads what there is of a symbol at once
 * and keeps it until another is asked for: a merge goes through them one by one.
 */
export function openDayPrecedence(db: Database, day: number): KnownPrecedence {
  const window = { from: day, to: day + dayMs };
  return createKnownPrecedence({
    stretches: cacheLatest((symbol) => readPrecedenceWindows(db, symbol, day)),
    answers: cacheLatest((symbol) => readResponsesIn(db, symbol, window)),
  });
}

/** The same of some symbols as plain values, which a thread can be given. */
export interface SymbolsPrecedence {
  readonly windows: ReadonlyMap<string, readonly PrecedenceWindow[]>;
  readonly responses: ReadonlyMap<string, readonly CoveringResponse[]>;
}

/** What is known of the published ticks of these symbols on one UTC day. */
export function readPrecedence(db: Database, day: number, symbols: Iterable<string>): SymbolsPrecedence {
  const window = { from: day, to: day + dayMs };
  const out = { windows: new Map<string, PrecedenceWindow[]>(), responses: new Map<string, CoveringResponse[]>() };
  const enter = <T>(to: Map<string, T[]>, symbol: string, its: T[]): void => {
    if (its.length > 0) to.set(symbol, its);
  };
  for (const symbol of symbols) {
    enter(out.windows, symbol, readPrecedenceWindows(db, symbol, day));
    enter(out.responses, symbol, readResponsesIn(db, symbol, window));
  }
  return out;
}

/** Answers from the values. */
export const toKnownPrecedence = ({ windows, responses }: SymbolsPrecedence): KnownPrecedence =>
  createKnownPrecedence({
    stretches: (symbol) => windows.get(symbol) ?? [],
    answers: (symbol) => responses.get(symbol) ?? [],
  });

/** What an answer of the service covered, and when it was generated. */
interface CoveringResponse extends Window {
  readonly fetchedAt: number;
}

const createKnownPrecedence = (of: {
  stretches(symbol: string): readonly PrecedenceWindow[];
  answers(symbol: string): readonly CoveringResponse[];
}): KnownPrecedence => ({
  getWindows: of.stretches,
  // Older versions noted imported ticks, so what is not noted is a poll's: when a file was written says nothing of it.
  inferPrecedence(symbol, t) {
    const answer = of.answers(symbol).find(({ from, to }) => from <= t && t < to);
    return { rank: precedenceRanks.poll, observedAt: answer?.fetchedAt ?? Number.NEGATIVE_INFINITY };
  },
});

const readResponsesIn = (db: Database, symbol: string, { from, to }: Window): CoveringResponse[] =>
  db.all<CoveringResponse & Record<string, number>>(
    `select t_from as "from", t_to as "to", fetched_at as fetchedAt from segments
     where symbol = ?1 and t_to > ?2 and t_from < ?3 and origin <> 'import' order by fetched_at desc`,
    symbol,
    from,
    to,
  );

/** Notes what a merge found out. Inside the publish's transaction. */
export function recordPrecedence(db: Database, found: readonly PrecedenceWindow[]): void {
  const ofSymbols = Map.groupBy(found, ({ symbol }) => symbol);
  for (const [symbol, stretches] of ofSymbols) {
    for (const [day, ofDay] of Map.groupBy(stretches, ({ from }) => floorToDay(from)))
      writePrecedence(db, symbol, day, overlayPrecedence(readPrecedenceWindows(db, symbol, day), ofDay));
  }
}

/** Puts the stretches of a symbol and UTC day, sorted and disjoint, in the place of those that there are. */
function writePrecedence(db: Database, symbol: string, day: number, stretches: readonly PrecedenceWindow[]): void {
  db.run('insert or replace into standings values (?, ?, ?)', symbol, day, packPrecedence(stretches, day));
}

function readPrecedenceWindows(db: Database, symbol: string, day: number): PrecedenceWindow[] {
  const sql = 'select stretches from standings where symbol = ? and day = ?';
  const row = db.one<{ stretches: Uint8Array }>(sql, symbol, day);
  return row === undefined ? [] : unpackPrecedence(row.stretches, symbol, day);
}

/** Takes over what older versions kept: stretches of imports, and single keys, which come first. In one transaction. */
export function migrateOlderPrecedence(db: Database): void {
  type Row = { symbol: string; t_from: number; t_to: number; rank: number; observed_at: number };
  const stretchOf = (row: Row): PrecedenceWindow => ({
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
    recordPrecedence(db, db.all<Row>(sql).map(stretchOf));
  db.script('drop table imported; drop table contested;');
}

/** Keeps the answer for the symbol that was asked for last. */
function cacheLatest<T>(read: (symbol: string) => T): (symbol: string) => T {
  let latest: { symbol: string; value: T } | undefined;
  return (symbol) => {
    if (latest?.symbol !== symbol) latest = { symbol, value: read(symbol) };
    return latest.value;
  };
}

/**
 * The stretches of one symbol and UTC day as bytes, some seven a stretch. Sorted and disjoint, each is four LEB128 numbers:
 * milliseconds from the end of the one before (of the first: from the day) to its start, its length in milliseconds, its
 * rank, and by how many milliseconds it was observed after the one before (of the first: after the day), zigzag-coded.
 * @param day the UTC midnight, epoch ms
 */
export function packPrecedence(stretches: readonly PrecedenceWindow[], day: number): Uint8Array {
  const bytes: number[] = [];
  let end = day;
  let observed = day;
  for (const { from, to, rank, observedAt } of stretches) {
    for (const value of [from - end, to - from, rank, encodeZigzag(observedAt - observed)]) appendLeb128(bytes, value);
    end = to;
    observed = observedAt;
  }
  return Uint8Array.from(bytes);
}

/** Reads what packPrecedence wrote. @throws Error where the bytes end amid a number */
export function unpackPrecedence(bytes: Uint8Array, symbol: string, day: number): PrecedenceWindow[] {
  const out: PrecedenceWindow[] = [];
  let at = 0;
  const next = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error(`The standings of ${symbol} end amid a number.`);
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  let end = day;
  let observedAt = day;
  while (at < bytes.length) {
    const from = end + next();
    end = from + next();
    const rank = next();
    observedAt += decodeZigzag(next());
    out.push({ symbol, from, to: end, rank, observedAt });
  }
  return out;
}

/** Safe integers outgrow the bit operators: these are of arithmetic. */
function appendLeb128(bytes: number[], value: number): void {
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push(128 + (rest % 128));
  bytes.push(rest);
}

const encodeZigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);
const decodeZigzag = (value: number): number => (value % 2 === 1 ? -(value + 1) / 2 : value / 2);

/** When published snapshots were observed; not known of what an older version published, nor where the state was lost. */
export const createBookObservedAtLookup =
  (db: Database): BookObservedAtLookup =>
  (symbol, t) =>
    db.one<{ at: number }>('select observed_at as at from book_observed where symbol = ? and t = ?', symbol, t)?.at;

/** Notes what a merge published. Inside the publish's transaction. */
export function recordBooksObserved(db: Database, observed: readonly BookObservation[]): void {
  for (const { symbol, t, observedAt } of observed) {
    db.run(
      'insert into book_observed values (?, ?, ?) on conflict do update set observed_at = excluded.observed_at',
      symbol,
      t,
      observedAt,
    );
  }
}
