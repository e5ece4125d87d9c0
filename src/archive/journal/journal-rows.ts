import { crc32 } from 'node:zlib';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Database } from './database.ts';

// Each row of the journal has a CRC-32 (gzip's polynomial, RFC 1952) from the moment it is accepted. A row's checksum
// continues that of its record's header, which proves which record the row belongs to. The header's checksum excludes
// `rows`, which a publish changes; instead, that number is compared with the number of existing rows.

/** A journaled row was found damaged when it was read. No part of it may be used. */
export class JournalDamageError extends OddslakeError {
  constructor(why: string, options?: ErrorOptions) {
    super(
      exitCodes.damaged,
      `The journal in the state database is damaged: ${why}. The next publish quarantines the damaged rows, and the next run fetches their data again.`,
      options,
    );
    this.name = 'JournalDamageError';
  }
}

/** Whether an error reports a damaged journal. An integer out of range is also a sign of damage. */
export const isJournalDamage = (error: unknown): boolean =>
  error instanceof JournalDamageError || isOutOfRange(error) || isOutOfRange((error as Error | undefined)?.cause);

const isOutOfRange = (error: unknown): boolean =>
  (error as { code?: unknown } | undefined)?.code === 'ERR_OUT_OF_RANGE';

/** A journal record without its ID. Each record is one response from the upstream. */
export interface JournalHeaderRow {
  readonly run_id: string;
  readonly kind: string;
  readonly symbol: string | null;
  readonly requested_from: number | null;
  readonly requested_to: number | null;
  readonly observed_at: number;
  readonly origin: string;
  readonly rank: number;
}

/** The tables with the rows of records, and the columns that their checksum covers, in this order. */
export const journalRowColumns = {
  journal_ticks: ['record_id', 'symbol', 'day', 'part', 'n', 't', 'p'],
  journal_coverage: ['record_id', 'symbol', 'day', 'part', 't_from', 't_to', 'fetched_at', 'origin', 'evidence'],
  journal_withdrawn: ['record_id', 'symbol', 'day', 'part', 't_from', 't_to'],
  journal_rejected: ['record_id', 'run_id', 'symbol', 'at', 'reason', 'raw'],
  journal_markets: ['record_id', 'observed_at', 'payload'],
  journal_books: ['record_id', 'symbol', 'day', 'part', 't', 'observed_at', 'bids', 'n', 'price', 'quantity'],
  journal_book_coverage: ['record_id', 'symbol', 'at', 'snapshots'],
  journal_series: ['record_id', 'dataset', 'symbol', 'day', 'part', 'n', 't', 'v'],
  journal_series_coverage: [
    'record_id',
    'dataset',
    'symbol',
    'day',
    'part',
    't_from',
    't_to',
    'fetched_at',
    'origin',
    'evidence',
  ],
} as const satisfies Record<string, readonly string[]>;

export type JournalRowTable = keyof typeof journalRowColumns;
export type JournalValue = string | number | null | Uint8Array;

export function computeHeaderChecksum(row: JournalHeaderRow): number {
  const { run_id, kind, symbol, requested_from, requested_to, observed_at, origin, rank } = row;
  return crc32(`${run_id}\n${kind}\n${symbol}\n${requested_from}\n${requested_to}\n${observed_at}\n${origin}\n${rank}`);
}

/**
 * Computes the checksum of a row.
 * @param header checksum of its record's header
 * @param values values of the columns of `journalRowColumns`, in that order; blobs last
 */
export function computeRowChecksum(header: number, values: readonly JournalValue[]): number {
  let text = '';
  let checksum = header;
  for (const value of values) {
    if (value instanceof Uint8Array) {
      if (text !== '') checksum = crc32(text, checksum);
      text = '';
      checksum = crc32(value, checksum);
    } else text += `${value}\n`;
  }
  return text === '' ? checksum : crc32(text, checksum);
}

const insertSql = Object.fromEntries(
  Object.entries(journalRowColumns).map(([table, columns]) => [
    table,
    `insert into ${table} (${columns.join(', ')}, checksum) values (${'?, '.repeat(columns.length)}?)`,
  ]),
) as Record<JournalRowTable, string>;

/**
 * Inserts a row of a record; joins the caller's transaction.
 * @param header checksum of the record's header
 * @param values values of the columns of `journalRowColumns`, in that order
 */
export const insertJournalRow = (
  db: Database,
  table: JournalRowTable,
  header: number,
  values: readonly JournalValue[],
): void => void db.run(insertSql[table], ...values, computeRowChecksum(header, values));

/**
 * Selects columns of a table, as `k`, and of the record's header, as `j`, for `assertIntact`. Header columns are null if
 * there is no record.
 */
export const selectWithHeader = (table: JournalRowTable, ...columns: readonly string[]): string =>
  `select ${columns.map((name) => `k.${name}`).join(', ')}, k.checksum, ${headerColumns}
   from ${table} k left join journal j on j.id = k.record_id`;

const headerColumns = `j.run_id as head_run_id, j.kind as head_kind, j.symbol as head_symbol,
  j.requested_from as head_from, j.requested_to as head_to, j.observed_at as head_observed_at, j.origin as head_origin,
  j.rank as head_rank, j.checksum as head_checksum`;

export interface JoinedHeader {
  readonly head_run_id: string | null;
  readonly head_kind: string;
  readonly head_symbol: string | null;
  readonly head_from: number | null;
  readonly head_to: number | null;
  readonly head_observed_at: number;
  readonly head_origin: string;
  readonly head_rank: number;
  readonly head_checksum: number;
}

/** @throws JournalDamageError if a row read with its header, or the header, does not match its checksum */
export function assertIntact(
  table: JournalRowTable,
  row: JoinedHeader & { readonly checksum: number },
  values: readonly JournalValue[],
): void {
  if (row.head_run_id === null) throw new JournalDamageError(`a row of ${table} has no record`);
  const header = computeHeaderChecksum({
    run_id: row.head_run_id,
    kind: row.head_kind,
    symbol: row.head_symbol,
    requested_from: row.head_from,
    requested_to: row.head_to,
    observed_at: row.head_observed_at,
    origin: row.head_origin,
    rank: row.head_rank,
  });
  if (header !== row.head_checksum || computeRowChecksum(header, values) !== row.checksum)
    throw new JournalDamageError(`a row of ${table} does not match its checksum`);
}

/** Counts accepted ticks that are not published. */
export const countJournaledTicks = (db: Database): number =>
  db.one<{ n: number | null }>('select sum(n) as n from journal_ticks')?.n ?? 0;

/** Counts the windows of coverage that are not published, split by day. */
export const countJournaledWindows = (db: Database): number =>
  db.one<{ n: number }>('select count(*) as n from journal_coverage')!.n;
