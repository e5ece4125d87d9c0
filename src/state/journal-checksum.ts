import { crc32 } from 'node:zlib';
import { exitCodes, OddslakeError } from '../core/errors.ts';

// Each row of the journal has a CRC-32 from the moment it is accepted (gzip's polynomial, RFC 1952). That of a row
// begins with the checksum of its record's header, so that a row proves which record it is of. `rows` of a header is not
// in it, as a publish changes that: it is compared with the rows that are there.

/** What is wrong with a journaled row, found when it was read: nothing of it may be used. */
export class JournalDamageError extends OddslakeError {
  constructor(why: string, options?: ErrorOptions) {
    super(
      exitCodes.damaged,
      `The journal in the state database is damaged: ${why}. The next publish quarantines what is damaged, and the next run asks for it again.`,
      options,
    );
    this.name = 'JournalDamageError';
  }
}

/** Whether an error says that the journal is damaged; a number that no row ever had is a sign of it too. */
export const isJournalDamage = (error: unknown): boolean =>
  error instanceof JournalDamageError || isOutOfRange(error) || isOutOfRange((error as Error | undefined)?.cause);

const isOutOfRange = (error: unknown): boolean =>
  (error as { code?: unknown } | undefined)?.code === 'ERR_OUT_OF_RANGE';

/** A record of the journal, without its ID: one answer of the upstream. */
export interface JournalHeaderRow {
  readonly run_id: string;
  readonly kind: string;
  readonly symbol: string | null;
  readonly asked_from: number | null;
  readonly asked_to: number | null;
  readonly observed_at: number;
  readonly origin: string;
  readonly rank: number;
}

/** The tables that hold the rows of records, and the columns that their checksum covers, in this order. */
export const journalRowColumns = {
  journal_ticks: ['record_id', 'symbol', 'day', 'part', 'n', 't', 'p'],
  journal_cover: ['record_id', 'symbol', 'day', 'part', 't_from', 't_to', 'fetched_at', 'origin', 'evidence'],
  journal_withdrawn: ['record_id', 'symbol', 'day', 'part', 't_from', 't_to'],
  journal_rejected: ['record_id', 'run_id', 'symbol', 'at', 'reason', 'raw'],
  journal_markets: ['record_id', 'observed_at', 'payload'],
  journal_books: ['record_id', 'symbol', 'day', 'part', 't', 'observed_at', 'bids', 'n', 'price', 'quantity'],
  journal_book_cover: ['record_id', 'symbol', 'at', 'snapshots'],
} as const satisfies Record<string, readonly string[]>;

export type JournalRowTable = keyof typeof journalRowColumns;
export type JournalValue = string | number | null | Uint8Array;

export function computeHeaderChecksum(row: JournalHeaderRow): number {
  const { run_id, kind, symbol, asked_from, asked_to, observed_at, origin, rank } = row;
  return crc32(`${run_id}\n${kind}\n${symbol}\n${asked_from}\n${asked_to}\n${observed_at}\n${origin}\n${rank}`);
}

/**
 * The checksum of a row.
 * @param header that of its record
 * @param values of the columns of `journalRows`, in that order; blobs last
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

/** The header of a row that is read with its record: columns of `journal` as `j`. Null where it has none. */
export const headerColumns = `j.run_id as head_run_id, j.kind as head_kind, j.symbol as head_symbol,
  j.asked_from as head_from, j.asked_to as head_to, j.observed_at as head_observed_at, j.origin as head_origin,
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

/** @throws JournalDamageError where a row read with its header, or the header, is not as it was accepted */
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
    asked_from: row.head_from,
    asked_to: row.head_to,
    observed_at: row.head_observed_at,
    origin: row.head_origin,
    rank: row.head_rank,
  });
  if (header !== row.head_checksum || computeRowChecksum(header, values) !== row.checksum)
    throw new JournalDamageError(`a row of ${table} differs from its checksum`);
}
