import type { Database } from './database.ts';
import type { JournalBin } from './journal.ts';

/** Drops what a publish took in: these bins and rejected input up to `end`, and these market polls. In its transaction. */
export function consumeJournal(db: Database, bins: readonly JournalBin[], end: number, polls: readonly number[]): void {
  for (const { day, part } of bins) {
    db.run('delete from journal_ticks where day = ? and part = ? and record_id <= ?', day, part, end);
    db.run('delete from journal_cover where day = ? and part = ? and record_id <= ?', day, part, end);
    db.run('delete from journal_withdrawn where day = ? and part = ? and record_id <= ?', day, part, end);
  }
  for (const recordId of polls) db.run('delete from journal_markets where record_id = ?', recordId);
  db.run('delete from journal_rejected where record_id <= ?', end);
  db.run(
    `delete from journal where id <= ?
       and not exists (select 1 from journal_ticks where record_id = journal.id)
       and not exists (select 1 from journal_cover where record_id = journal.id)
       and not exists (select 1 from journal_withdrawn where record_id = journal.id)
       and not exists (select 1 from journal_markets where record_id = journal.id)
       and not exists (select 1 from journal_books where record_id = journal.id)
       and not exists (select 1 from journal_book_cover where record_id = journal.id)`,
    end,
  );
  // A damaged part takes in nothing: what is kept for it has fewer rows now.
  db.run(`update journal set rows = ${countRowsSql} where id <= ?`, end);
}

/** The rows of a record of `journal`, but for rejected input. */
export const countRowsSql = `(select count(*) from journal_ticks where record_id = journal.id)
  + (select count(*) from journal_cover where record_id = journal.id)
  + (select count(*) from journal_withdrawn where record_id = journal.id)
  + (select count(*) from journal_markets where record_id = journal.id)
  + (select count(*) from journal_books where record_id = journal.id)
  + (select count(*) from journal_book_cover where record_id = journal.id)`;
