import type { Window } from '../../base/window.ts';
import type { TickChunk } from '../format/tick-columns.ts';
import type { Database } from './database.ts';
import { type JournaledTickRow, tickColumnsSql, toTickChunk } from './journal.ts';

// What the journal and the state hold of the ticks of a single symbol.

/** A UTC day of which ticks of a symbol are journaled, and the last record that brought some. */
export interface JournaledDayTicks {
  readonly day: number;
  readonly last: number;
}

/** The days of which ticks of a symbol are journaled by records up to `end`; in order. */
export const listJournaledDays = (db: Database, symbol: string, end: number): JournaledDayTicks[] =>
  db.all<JournaledDayTicks & Record<string, number>>(
    `select day, max(record_id) as last from journal_ticks where symbol = ? and record_id <= ? group by day order by day`,
    symbol,
    end,
  );

/** The journaled ticks of one symbol's day, in the order they were accepted. @throws JournalDamageError */
export const readSymbolDayTicks = (db: Database, symbol: string, day: number, end: number): TickChunk[] =>
  db
    .all<JournaledTickRow & { part: number } & Record<string, never>>(
      `select k.part, ${tickColumnsSql} from journal_ticks k left join journal j on j.id = k.record_id
       where k.symbol = ? and k.day = ? and k.record_id <= ? order by k.id`,
      symbol,
      day,
      end,
    )
    .map((row) => toTickChunk(row, symbol, day, row.part));

/** From the first to the last published tick of a known symbol, null where it has none; undefined for an unknown one. */
export function findPublishedWindow(db: Database, symbol: string): Window | null | undefined {
  const sql = 'select first_tick, last_tick from symbols where symbol = ?';
  const row = db.one<{ first_tick: number | null; last_tick: number | null }>(sql, symbol);
  if (row === undefined) return undefined;
  const { first_tick: first, last_tick: last } = row;
  return first === null || last === null ? null : { from: first, to: last + 1 };
}
