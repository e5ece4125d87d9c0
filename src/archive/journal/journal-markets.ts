import { zstdDecompressSync } from 'node:zlib';
import type { MarketFacts } from '../format/market.ts';
import type { Database } from './database.ts';
import { readJournalRows } from './journal-rows.ts';

// Journaled polls of the market lists.

/** Reads the size of the market polls that are not published, in bytes. */
export const readPollBytes = (db: Database): number =>
  db.one<{ n: number | null }>('select sum(length(payload)) as n from journal_markets')?.n ?? 0;

interface JournaledMarkets {
  readonly recordId: number;
  readonly observedAt: number;
  readonly markets: readonly MarketFacts[];
}

/** Reads the market polls up to `end`, oldest first. @throws JournalDamageError */
export function* readMarketPolls(db: Database, end: number): Generator<JournaledMarkets> {
  const ids = db.all<{ record_id: number }>(
    'select record_id from journal_markets where record_id <= ? order by observed_at, record_id',
    end,
  );
  for (const { record_id } of ids) yield readMarketPoll(db, record_id)!;
}

/** Reads one poll; undefined if it was published meanwhile. @throws JournalDamageError */
function readMarketPoll(db: Database, recordId: number): JournaledMarkets | undefined {
  const [row] = readJournalRows(db, 'journal_markets', { record_id: recordId }, recordId);
  if (row === undefined) return undefined;
  const markets = JSON.parse(zstdDecompressSync(row.payload).toString()) as MarketFacts[];
  return { recordId, observedAt: row.observed_at, markets };
}

/** The last poll of the market lists that is not published. */
export interface JournaledMarketPoll {
  /** Epoch milliseconds. */
  readonly observedAt: number;
  /** Its record IDs, ascending. More than one if it was imported from several files. */
  readonly records: readonly number[];
}

/**
 * Finds the last poll of each source that is not published. Null: the only service, an import, or a run so old that it is
 * no longer recorded.
 */
export function findLastJournaledPolls(db: Database): Map<string | null, JournaledMarketPoll> {
  const rows = db.all<{ record_id: number; observed_at: number; source: string | null }>(
    `select k.record_id, k.observed_at, r.source
     from journal_markets k join journal j on j.id = k.record_id left join runs r on r.run_id = j.run_id
     order by k.observed_at desc, k.record_id`,
  );
  const polls = new Map<string | null, { readonly observedAt: number; readonly records: number[] }>();
  for (const { record_id: record, observed_at: observedAt, source } of rows) {
    const poll = polls.get(source);
    if (poll === undefined) polls.set(source, { observedAt, records: [record] });
    else if (poll.observedAt === observedAt) poll.records.push(record);
  }
  return polls;
}

/** @throws JournalDamageError */
export const readJournaledPoll = (db: Database, { records }: JournaledMarketPoll): MarketFacts[] =>
  records.flatMap((id) => readMarketPoll(db, id)?.markets ?? []);
