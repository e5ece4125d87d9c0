import type { RejectedInput } from '../../base/ticks.ts';
import { floorToDay } from '../../base/window.ts';
import type { DayPart } from '../format/day-parts.ts';
import { type BookSide, countLevels, type ObservedSnapshot, type OrderBookSnapshot } from '../format/order-book.ts';
import type { Database } from './database.ts';
import { appendHeader, deleteParts, ticksPerCoveredDay, ticksPerRejected } from './journal.ts';
import { appendRejected } from './journal-rejected.ts';
import {
  countJournaledTicks,
  insertJournalRow,
  type JournalRow,
  readJournalRows,
  toBytes,
  toDoubles,
} from './journal-rows.ts';
import { readSeriesLoad } from './journal-series.ts';
import type { State } from './state.ts';

/** One parsed response of the order book route, written in one transaction. */
export interface BookRecord {
  readonly runId: string;
  readonly symbol: string;
  /** When the response was generated or, if it does not state that, when it was requested; epoch ms. */
  readonly observedAt: number;
  readonly snapshots: readonly OrderBookSnapshot[];
  readonly rejected: readonly RejectedInput[];
  /** Whether the response could be parsed at least in part, even without a snapshot. If not, it covers nothing. */
  readonly understood: boolean;
}

/**
 * Cost of publishing one snapshot (without its levels), one response or one rejected input, expressed as a number of
 * ticks.
 */
const ticksPerSnapshot = 8;

/** Appends order book responses; durable when it returns. */
export function appendBooks(state: State, records: readonly BookRecord[]): void {
  state.db.transaction(() => {
    for (const record of records) appendBookRecord(state, record);
  });
}

function appendBookRecord({ db }: State, record: BookRecord): void {
  const { runId, symbol, observedAt } = record;
  const head = { run_id: runId, kind: 'books', symbol, requested_from: observedAt, requested_to: observedAt + 1 };
  const rows = record.snapshots.length + Number(record.understood);
  const { id, header } = appendHeader(db, { ...head, observed_at: observedAt, origin: 'poll', rank: 1 }, rows);
  for (const snapshot of record.snapshots) {
    const { t, bids, asks } = snapshot;
    insertJournalRow(db, 'journal_books', header, [
      id,
      symbol,
      floorToDay(t),
      t,
      observedAt,
      bids.prices.length,
      countLevels(snapshot),
      joinSides(bids.prices, asks.prices),
      joinSides(bids.quantities, asks.quantities),
    ]);
  }
  if (record.understood)
    insertJournalRow(db, 'journal_book_coverage', header, [id, symbol, observedAt, record.snapshots.length]);
  const rejected = record.rejected.map((item) => ({ symbol, at: observedAt, ...item }));
  appendRejected(db, { id, runId, header }, rejected);
}

function joinSides(bids: Float64Array, asks: Float64Array): Uint8Array {
  const both = new Float64Array(bids.length + asks.length);
  both.set(bids);
  both.set(asks, bids.length);
  return toBytes(both);
}

/** Computes the cost of publishing a record, expressed as a number of ticks. */
export const computeBookLoad = ({ snapshots, rejected }: BookRecord): number =>
  snapshots.reduce((sum, snapshot) => sum + countLevels(snapshot), 0) +
  ticksPerSnapshot * (1 + snapshots.length + rejected.length);

/** Computes the cost of publishing the journaled order books without rejected input, expressed as a number of ticks. */
export function readBookLoad(db: Database): number {
  const books = db.one<{ n: number; levels: number | null }>(
    'select count(*) as n, sum(n) as levels from journal_books',
  )!;
  const responses = db.one<{ n: number }>('select count(*) as n from journal_book_coverage')!.n;
  return (books.levels ?? 0) + ticksPerSnapshot * (books.n + responses);
}

/** Reads the snapshots of one part, those of each symbol in the order of acceptance. @throws JournalDamageError */
export const readPartBooks = (db: Database, part: DayPart, end: number): ObservedSnapshot[] =>
  Array.from(readJournalRows(db, 'journal_books', { day: part.day }, end, part), toObservedSnapshot);

function toObservedSnapshot(row: JournalRow<'journal_books'>): ObservedSnapshot {
  const { symbol, t, observed_at: observedAt, bids } = row;
  const [prices, quantities] = [toDoubles(row.price), toDoubles(row.quantity)];
  const side = (from: number, to: number): BookSide => ({
    prices: prices.subarray(from, to),
    quantities: quantities.subarray(from, to),
  });
  return { symbol, observedAt, t, bids: side(0, bids), asks: side(bids, prices.length) };
}

/** Reads the journaled snapshots of a symbol that have the latest time; empty if there are none. */
export function readLatestBooks({ db }: State, symbol: string): ObservedSnapshot[] {
  const days = db.all<{ day: number }>('select distinct day from journal_books order by day desc');
  for (const { day } of days) {
    const { t } = db.one<{ t: number | null }>(
      'select max(t) as t from journal_books where day = ? and symbol = ?',
      day,
      symbol,
    )!;
    if (t === null) continue;
    const rows = readJournalRows(db, 'journal_books', { day, symbol, t }, Number.MAX_SAFE_INTEGER);
    return Array.from(rows, toObservedSnapshot);
  }
  return [];
}

/**
 * Reads when the latest journaled response with a snapshot of a symbol was generated, epoch ms; null if there is none.
 */
export const readLatestBookResponseMs = ({ db }: State, symbol: string): number | null =>
  db.one<{ at: number | null }>(
    'select max(at) as at from journal_book_coverage where symbol = ? and snapshots > 0',
    symbol,
  )?.at ?? null;

/** An order book response that is not published yet. */
export interface BookResponse {
  readonly id: number;
  readonly symbol: string;
  /** When it was generated, epoch ms. */
  readonly at: number;
  readonly snapshots: number;
}

/**
 * Reads the responses up to `end`, except those with a snapshot that stays journaled: one of the parts `waiting`.
 * @throws JournalDamageError
 */
export function readBookResponses(db: Database, waiting: readonly DayPart[], end: number): BookResponse[] {
  const waitingRecords = new Set(
    waiting.flatMap(({ day, from, to }) =>
      db
        .all<{ id: number }>(
          'select record_id as id from journal_books where day = ? and symbol between ? and ? and record_id <= ?',
          day,
          from,
          to,
          end,
        )
        .map(({ id }) => id),
    ),
  );
  return [...readJournalRows(db, 'journal_book_coverage', {}, end)]
    .filter((row) => !waitingRecords.has(row.record_id))
    .map(({ id, symbol, at, snapshots }) => ({ id, symbol, at, snapshots }));
}

/** Deletes published rows, inside the publish's transaction, before the journal's records are deleted. */
export function consumeBooks(
  db: Database,
  parts: readonly DayPart[],
  responses: readonly BookResponse[],
  end: number,
): void {
  deleteParts(db, ['journal_books'], parts, end);
  for (const { id } of responses) db.run('delete from journal_book_coverage where id = ?', id);
}

/** Computes the cost of publishing the whole journal, expressed as a number of ticks. */
export function readJournalLoad(db: Database): number {
  const count = (table: string): number => db.one<{ n: number }>(`select count(*) as n from ${table}`)!.n;
  return (
    countJournaledTicks(db) +
    ticksPerRejected * count('journal_rejected') +
    ticksPerCoveredDay * (count('journal_coverage') + count('journal_withdrawn')) +
    readBookLoad(db) +
    readSeriesLoad(db)
  );
}
