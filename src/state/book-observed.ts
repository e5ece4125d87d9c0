import type { BookObserved, ObservedBook } from '../core/merge-books.ts';
import type { Database } from './database.ts';

/** When published snapshots were observed; not known of what an older version published, nor where the state was lost. */
export const bookObserved =
  (db: Database): BookObserved =>
  (symbol, t) =>
    db.one<{ at: number }>('select observed_at as at from book_observed where symbol = ? and t = ?', symbol, t)?.at;

/** Notes what a merge published. Inside the publish's transaction. */
export function noteBooks(db: Database, observed: readonly ObservedBook[]): void {
  for (const { symbol, t, observedAt } of observed) {
    db.run(
      'insert into book_observed values (?, ?, ?) on conflict do update set observed_at = excluded.observed_at',
      symbol,
      t,
      observedAt,
    );
  }
}
