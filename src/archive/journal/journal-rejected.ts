import type { RejectedInput } from '../../base/ticks.ts';
import type { Database } from './database.ts';
import { insertJournalRow, readJournalRows } from './journal-rows.ts';

/** The record that rejected input belongs to. */
interface RejectedRecord {
  readonly id: number;
  readonly runId: string;
  /** Checksum of the record's header. */
  readonly header: number;
}

/** Rejected input with its symbol and observation time (epoch ms). */
interface RejectedItem extends RejectedInput {
  readonly symbol: string | null;
  readonly at: number;
}

/**
 * Stores rejected input as received, up to the run's limit. Input beyond it is only counted. Joins the caller's
 * transaction.
 */
export function appendRejected(
  db: Database,
  { id, runId, header }: RejectedRecord,
  items: readonly RejectedItem[],
): void {
  if (items.length === 0) return;
  const run = db.one<{ left: number }>('select rejected_bytes_left as left from runs where run_id = ?', runId);
  let left = run?.left ?? Number.POSITIVE_INFINITY;
  let dropped = 0;
  for (const { symbol, at, reason, raw } of items) {
    const bytes = Buffer.byteLength(raw);
    if (bytes > left) {
      left = 0;
      dropped++;
      continue;
    }
    left -= bytes;
    insertJournalRow(db, 'journal_rejected', header, [id, runId, symbol, at, reason, raw]);
  }
  if (run !== undefined)
    db.run(
      'update runs set rejected_bytes_left = ?, rejected_dropped = rejected_dropped + ? where run_id = ?',
      left,
      dropped,
      runId,
    );
}

export const hasRejected = (db: Database, end: number): boolean =>
  db.one('select 1 from journal_rejected where record_id <= ? limit 1', end) !== undefined;

/** @throws JournalDamageError */
export function* readRejected(db: Database, end: number) {
  for (const { run_id, symbol, at, reason, raw } of readJournalRows(db, 'journal_rejected', {}, end))
    yield { run_id, symbol, at, reason, raw };
}

/** Counts the unpublished rejected inputs since `sinceMs` (epoch ms) by reason. */
export const countJournaledReasons = (
  db: Database,
  sinceMs: number,
): { reason: string; count: number; symbol: string | null }[] =>
  db.all(
    `select reason, count(*) as count, min(symbol) as symbol from journal_rejected where at >= ? group by reason`,
    sinceMs,
  );
