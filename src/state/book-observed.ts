import type { BookObservation, BookObservedAtLookup } from '../core/merge-books.ts';
import type { Database } from './database.ts';

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
