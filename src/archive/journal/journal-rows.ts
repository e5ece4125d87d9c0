import { crc32 } from 'node:zlib';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import type { SymbolRange } from '../../base/symbol-range.ts';
import type { Origin } from '../../contract/raw-page.ts';
import type { CoveredWindow, Evidence } from '../format/coverage.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
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

const coverageColumns = ['symbol', 'day', 't_from', 't_to', 'fetched_at', 'origin', 'evidence'] as const;

/** The tables with the rows of records, and the columns that their checksum covers, in this order. */
export const journalRowColumns = {
  journal_ticks: ['record_id', 'symbol', 'day', 'n', 't', 'p'],
  journal_coverage: ['record_id', ...coverageColumns],
  journal_withdrawn: ['record_id', 'symbol', 'day', 't_from', 't_to'],
  journal_rejected: ['record_id', 'run_id', 'symbol', 'at', 'reason', 'raw'],
  journal_markets: ['record_id', 'observed_at', 'payload'],
  journal_books: ['record_id', 'symbol', 'day', 't', 'observed_at', 'bids', 'n', 'price', 'quantity'],
  journal_book_coverage: ['record_id', 'symbol', 'at', 'snapshots'],
  journal_series: ['record_id', 'dataset', 'symbol', 'day', 'n', 't', 'v'],
  journal_series_coverage: ['record_id', 'dataset', ...coverageColumns],
} as const satisfies Record<string, readonly string[]>;

export type JournalRowTable = keyof typeof journalRowColumns;
export type JournalValue = string | number | null | Uint8Array;

/** The columns of a record's header that its checksum covers, in this order. */
export const headerNames: readonly (keyof JournalHeaderRow)[] = [
  'run_id',
  'kind',
  'symbol',
  'requested_from',
  'requested_to',
  'observed_at',
  'origin',
  'rank',
];

export const computeHeaderChecksum = (row: JournalHeaderRow): number =>
  hashHeader(headerNames.map((name) => row[name]));

const hashHeader = (values: readonly unknown[]): number => crc32(values.map(String).join('\n'));

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

/** The rows of the tables as they are read, without the columns that all have. */
interface JournalRows {
  journal_ticks: BinnedRow & { readonly n: number; readonly t: Uint8Array; readonly p: Uint8Array };
  journal_coverage: CoverRow;
  journal_withdrawn: Omit<CoverRow, 'fetched_at' | 'origin' | 'evidence'>;
  journal_rejected: {
    readonly run_id: string;
    readonly symbol: string | null;
    readonly at: number;
    readonly reason: string;
    readonly raw: string;
  };
  journal_markets: { readonly observed_at: number; readonly payload: Uint8Array };
  journal_books: BinnedRow & {
    readonly t: number;
    readonly observed_at: number;
    readonly bids: number;
    readonly n: number;
    readonly price: Uint8Array;
    readonly quantity: Uint8Array;
  };
  journal_book_coverage: {
    readonly id: number;
    readonly symbol: string;
    readonly at: number;
    readonly snapshots: number;
  };
  journal_series: BinnedRow & {
    readonly dataset: SeriesDataset;
    readonly n: number;
    readonly t: Uint8Array;
    readonly v: Uint8Array;
  };
  journal_series_coverage: CoverRow & { readonly dataset: SeriesDataset };
}

interface BinnedRow {
  readonly symbol: string;
  readonly day: number;
}

interface CoverRow extends BinnedRow, WindowRow {}

export interface WindowRow {
  readonly t_from: number;
  readonly t_to: number;
  readonly fetched_at: number;
  readonly origin: Origin;
  readonly evidence: Evidence;
}

export const toBytes = (values: Float64Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** Copies the bytes, because SQLite's blobs are not aligned for doubles. */
export const toDoubles = (bytes: Uint8Array): Float64Array => new Float64Array(new Uint8Array(bytes).buffer);

export const toCoveredWindow = ({ t_from, t_to, fetched_at, origin, evidence }: WindowRow): CoveredWindow => ({
  from: t_from,
  to: t_to,
  fetchedAt: fetched_at,
  origin,
  evidence,
});

/** A row, the ID of its record, and what the record's header says of it. */
export type JournalRow<T extends JournalRowTable> = JournalRows[T] & {
  readonly record_id: number;
  readonly head_run_id: string;
  readonly head_observed_at: number;
  readonly head_rank: number;
};

/**
 * Reads the rows with these values of columns, of records up to `end`, in the order of acceptance; those of a range of symbols
 * symbol by symbol.
 * @throws JournalDamageError if a row or the header of its record does not match its checksum
 */
export function* readJournalRows<T extends JournalRowTable>(
  db: Database,
  table: T,
  selected: Readonly<Partial<JournalRow<T>>>,
  end: number,
  range?: SymbolRange,
): Generator<JournalRow<T>> {
  const names = Object.keys(selected).map((name) => `k.${name} = ?`);
  const ofRange = range === undefined ? [] : ['k.symbol between ? and ?'];
  const conditions = [...names, ...ofRange, 'k.record_id <= ?'].join(' and ');
  const rows = db.iterate<JournalRow<T> & StoredRow>(
    `select k.*, ${headerColumns} from ${table} k left join journal j on j.id = k.record_id
     where ${conditions} order by ${range === undefined ? '' : 'k.symbol, '}k.rowid`,
    ...(Object.values(selected) as JournalValue[]),
    ...(range === undefined ? [] : [range.from, range.to]),
    end,
  );
  for (const row of rows) {
    // The selected values are those of an index, which may be what is damaged.
    requireIntact(table, { ...row, ...selected });
    yield row;
  }
}

const headerColumns = [...headerNames, 'checksum'].map((name) => `j.${name} as head_${name}`).join(', ');

/** The columns of the header are null if there is no record. */
type StoredRow = Readonly<Record<string, JournalValue>>;

function requireIntact(table: JournalRowTable, row: StoredRow): void {
  if (row.head_run_id === null) throw new JournalDamageError(`a row of ${table} has no record`);
  const header = hashHeader(headerNames.map((name) => row[`head_${name}`]));
  const values = journalRowColumns[table].map((name) => row[name]!);
  if (header !== row.head_checksum || computeRowChecksum(header, values) !== row.checksum)
    throw new JournalDamageError(`a row of ${table} does not match its checksum`);
}

/** Counts accepted ticks that are not published. */
export const countJournaledTicks = (db: Database): number =>
  db.one<{ n: number | null }>('select sum(n) as n from journal_ticks')?.n ?? 0;

/** Counts the windows of coverage that are not published, split by day. */
export const countJournaledWindows = (db: Database): number =>
  db.one<{ n: number }>('select count(*) as n from journal_coverage')!.n;
