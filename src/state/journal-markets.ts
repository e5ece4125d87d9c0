import type { MarketFacts } from '../core/market.ts';
import type { Database } from './database.ts';
import { readMarketPoll } from './journal.ts';

/** The last poll of the market lists that is not published yet. */
export interface JournaledMarketPoll {
  /** Epoch milliseconds. */
  readonly observedAt: number;
  /** Its records: one, unless files brought it in pieces. Ascending. */
  readonly records: readonly number[];
}

export function findLastJournaledPoll(db: Database): JournaledMarketPoll | undefined {
  const rows = db.all<{ record_id: number; observed_at: number }>(
    `select record_id, observed_at from journal_markets
     where observed_at = (select max(observed_at) from journal_markets) order by record_id`,
  );
  if (rows.length === 0) return undefined;
  return { observedAt: rows[0]!.observed_at, records: rows.map((row) => row.record_id) };
}

/** @throws JournalDamageError */
export const readJournaledPoll = (db: Database, { records }: JournaledMarketPoll): MarketFacts[] =>
  records.flatMap((id) => readMarketPoll(db, id)?.markets ?? []);
