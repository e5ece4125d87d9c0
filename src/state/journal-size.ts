import type { Database } from './database.ts';
import { countJournaledTicks, ticksPerCoveredDay, ticksPerRejected } from './journal.ts';
import { readBookLoad } from './journal-books.ts';

/** What publishing the whole journal takes, in ticks. */
export function readJournalLoad(db: Database): number {
  const count = (table: string): number => db.one<{ n: number }>(`select count(*) as n from ${table}`)!.n;
  return (
    countJournaledTicks(db) +
    ticksPerRejected * count('journal_rejected') +
    ticksPerCoveredDay * (count('journal_cover') + count('journal_withdrawn')) +
    readBookLoad(db)
  );
}
