import type { Database } from './database.ts';
import { journaledTicks, ticksPerCoveredDay, ticksPerRejected } from './journal.ts';
import { bookLoad } from './journal-books.ts';

/** What publishing the whole journal takes, in ticks. */
export function journalLoad(db: Database): number {
  const count = (table: string): number => db.one<{ n: number }>(`select count(*) as n from ${table}`)!.n;
  return (
    journaledTicks(db) +
    ticksPerRejected * count('journal_rejected') +
    ticksPerCoveredDay * (count('journal_cover') + count('journal_withdrawn')) +
    bookLoad(db)
  );
}
