import type { Window } from '../../base/window.ts';
import type { TickChunk } from '../format/tick-columns.ts';
import type { Database } from './database.ts';
import { type JournaledTickRow, tickColumnsSql, toTickChunk } from './journal.ts';

// Ticks of a single symbol in the journal and the state.

/** A UTC day with journaled ticks of a symbol, and the last record with such ticks. */
interface JournaledDayTicks {
  readonly day: number;
  readonly last: number;
}

/** Lists the days with journaled ticks of a symbol in records up to `end`, sorted. */
export const listJournaledDays = (db: Database, symbol: string, end: number): JournaledDayTicks[] =>
  db.all<JournaledDayTicks & Record<string, number>>(
    `select day, max(record_id) as last from journal_ticks where symbol = ? and record_id <= ? group by day order by day`,
    symbol,
    end,
  );

/** Reads the journaled ticks of one symbol and day in the order of acceptance. @throws JournalDamageError */
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

/**
 * Finds the window from the first to the last published tick of a symbol: null if it has none, undefined if the symbol
 * is unknown.
 */
export function findPublishedWindow(db: Database, symbol: string): Window | null | undefined {
  const sql = 'select first_tick, last_tick from symbols where symbol = ?';
  const row = db.one<{ first_tick: number | null; last_tick: number | null }>(sql, symbol);
  if (row === undefined) return undefined;
  const { first_tick: first, last_tick: last } = row;
  return first === null || last === null ? null : { from: first, to: last + 1 };
}
