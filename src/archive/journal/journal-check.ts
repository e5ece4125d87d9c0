import type { SeriesDataset } from '../format/series-datasets.ts';
import type { Database } from './database.ts';
import { deleteBins, type JournalBin, sortBins } from './journal.ts';
import {
  computeHeaderChecksum,
  computeRowChecksum,
  headerNames,
  JournalDamageError,
  type JournalHeaderRow,
  type JournalRowTable,
  type JournalValue,
  journalRowColumns,
} from './journal-rows.ts';
import { addSeriesCounts } from './series-counts.ts';

// Checks the journal for damage before a publish. Tables are scanned in full and not through their indices, because a
// flipped bit in a table or an index can make the two disagree.

/** Tables whose rows belong to one day and part. */
const binnedTables = [
  'journal_ticks',
  'journal_coverage',
  'journal_withdrawn',
  'journal_books',
  'journal_series',
  'journal_series_coverage',
] as const;
/** Tables whose rows are counted in the record header. */
const countedTables = [...binnedTables, 'journal_markets', 'journal_book_coverage'] as const;
type BinnedTable = (typeof binnedTables)[number];

/** The contents of the journal at one moment. */
export interface JournalIndex {
  /** ID of the last record; 0 if there is none. */
  readonly end: number;
  /** The (day, part) pairs of each table, sorted, with their row counts. */
  readonly bins: ReadonlyMap<BinnedTable, readonly (JournalBin & { readonly rows: number })[]>;
}

/**
 * Checks that each record has its rows and each row its record. The contents of rows are checked when they are read.
 * @throws JournalDamageError
 */
export function indexJournal(db: Database): JournalIndex {
  return db.snapshot(() => {
    const rowsLeft = new Map<number, number>();
    let end = 0;
    for (const { id, rows, checksum, ...header } of readHeaders(db)) {
      if (id <= end) throw new JournalDamageError('its records are out of order');
      end = id;
      if (computeHeaderChecksum(header) !== checksum)
        throw new JournalDamageError(`record ${id} does not match its checksum`);
      rowsLeft.set(id, rows);
    }
    const bins = new Map<BinnedTable, (JournalBin & { rows: number })[]>();
    for (const table of countedTables) {
      const byDay = new Map<number, Map<number, number>>();
      const isBinned = binnedTables.includes(table as BinnedTable);
      const idName = table === 'journal_markets' ? 'record_id' : 'id';
      const columns = isBinned ? 'day, part' : '0 as day, 0 as part';
      let last = 0;
      for (const { id, record, day, part } of db.iterate<{ id: number; record: number } & JournalBin>(
        `select ${idName} as id, record_id as record, ${columns} from ${table} not indexed`,
      )) {
        const rowsLeftOfRecord = rowsLeft.get(record);
        if (rowsLeftOfRecord === undefined || id <= last)
          throw new JournalDamageError(`a row of ${table} has no record`);
        last = id;
        rowsLeft.set(record, rowsLeftOfRecord - 1);
        const byPart = byDay.get(day) ?? new Map<number, number>();
        byDay.set(day, byPart);
        byPart.set(part, (byPart.get(part) ?? 0) + 1);
      }
      if (isBinned) bins.set(table as BinnedTable, toSortedBins(byDay));
    }
    for (const [id, rowsLeftOfRecord] of rowsLeft)
      if (rowsLeftOfRecord !== 0)
        throw new JournalDamageError(`record ${id} has too ${rowsLeftOfRecord > 0 ? 'few' : 'many'} rows`);
    return { end, bins };
  });
}

/** Lists the (day, part) pairs of all records with ticks, coverage or withdrawals, sorted. */
export const listTickBins = (index: JournalIndex): JournalBin[] =>
  joinBins(index, ['journal_ticks', 'journal_coverage', 'journal_withdrawn']);

/** Lists the (day, part) pairs of all records with rows or coverage of series, sorted. */
export const listSeriesBins = (index: JournalIndex): JournalBin[] =>
  joinBins(index, ['journal_series', 'journal_series_coverage']);

const joinBins = ({ bins }: JournalIndex, tables: readonly BinnedTable[]): JournalBin[] =>
  sortBins(tables.flatMap((table) => bins.get(table)!));

/** The index of a publish without journal records. */
export const emptyIndex: JournalIndex = { end: 0, bins: new Map(binnedTables.map((table) => [table, []])) };

/** @throws JournalDamageError if the number of rows read through an index differs from that of the table scan */
export function assertRowCount(
  { bins }: JournalIndex,
  table: BinnedTable,
  { day, part }: JournalBin,
  rows: number,
): void {
  const expected = bins.get(table)!.find((bin) => bin.day === day && bin.part === part)?.rows ?? 0;
  if (rows !== expected) throw new JournalDamageError(`an index of ${table} does not match the table`);
}

const toSortedBins = (byDay: ReadonlyMap<number, ReadonlyMap<number, number>>): (JournalBin & { rows: number })[] =>
  [...byDay]
    .flatMap(([day, byPart]) => [...byPart].map(([part, rows]) => ({ day, part, rows })))
    .sort((a, b) => a.day - b.day || a.part - b.part);

/** Selects columns, with null for integers outside JavaScript's safe range, which only damage can cause. */
const selectSafely = (...columns: readonly string[]): string =>
  columns
    .map(
      (name) =>
        `iif(typeof(${name}) = 'integer' and ${name} not between -${integerMax} and ${integerMax}, null, ${name}) as ${name}`,
    )
    .join(', ');

const integerMax = Number.MAX_SAFE_INTEGER;

type StoredHeader = JournalHeaderRow & { readonly id: number; readonly rows: number; readonly checksum: number };

const readHeaders = (db: Database): IterableIterator<StoredHeader> =>
  db.iterate<StoredHeader>(`select ${selectSafely('id', ...headerNames, 'rows', 'checksum')} from journal not indexed`);

/** A row or record header that does not match its checksum. */
export interface DamagedRow {
  readonly table: JournalRowTable | 'journal';
  readonly id: number;
  readonly reason: string;
  /** The column values as stored. */
  readonly values: Readonly<Record<string, JournalValue>>;
}

interface JournalDamage {
  readonly rows: readonly DamagedRow[];
  /**
   * Symbols whose ticks or order books may be missing, and whose journaled coverage is therefore dropped. Null: this
   * may be true of any symbol.
   */
  readonly doubtfulSymbols: ReadonlySet<string> | null;
  /** Ticks in damaged rows, by run; rows whose run is uncertain are not counted. */
  readonly ticksByRun: ReadonlyMap<string, number>;
  /** The same of series: the rows of each in damaged rows of the journal. */
  readonly seriesRows: readonly { readonly runId: string; readonly dataset: SeriesDataset; readonly rows: number }[];
}

/** Compares the whole journal with its checksums. */
export function findJournalDamage(db: Database): JournalDamage {
  const headers = new Map<number, StoredHeader & { isIntact: boolean; left: number }>();
  const rows: DamagedRow[] = [];
  const symbols = new Set<string>();
  let isAnySymbol = false;
  const addDoubtful = (symbol: string | null): void => {
    if (symbol === null) isAnySymbol = true;
    else symbols.add(symbol);
  };
  const ticksByRun = new Map<string, number>();
  const seriesRows: { runId: string; dataset: SeriesDataset; rows: number }[] = [];
  for (const row of readHeaders(db)) {
    const { id, rows: rowsLeftOfRecord, checksum, ...header } = row;
    const isIntact = computeHeaderChecksum(header) === checksum;
    if (!isIntact) rows.push({ table: 'journal', id, reason: 'it does not match its checksum', values: { ...row } });
    // A damaged checksum may not be a number. In that case no row's checksum continues it.
    headers.set(id, { ...row, checksum: checksum >>> 0, isIntact, left: rowsLeftOfRecord });
  }
  for (const [table, columns] of Object.entries(journalRowColumns) as [JournalRowTable, readonly string[]][]) {
    const idName = table === 'journal_markets' ? 'record_id' : 'id';
    // The ID of a market poll is its record_id, which is already among the columns.
    const names = selectSafely(...new Set([idName, ...columns, 'checksum']));
    for (const row of db.iterate<Record<string, JournalValue>>(`select ${names} from ${table} not indexed`)) {
      const header = headers.get(row.record_id as number);
      if (header !== undefined && table !== 'journal_rejected') header.left--;
      const isOwn =
        header !== undefined &&
        computeRowChecksum(
          header.checksum,
          columns.map((name) => row[name]!),
        ) === row.checksum;
      if (isOwn && header.isIntact) continue;
      const reason =
        header === undefined
          ? 'it has no record'
          : isOwn
            ? "its record's header is damaged"
            : 'it does not match its checksum';
      rows.push({ table, id: row[idName] as number, reason, values: row });
      if (header?.isIntact === true) {
        const { run_id: runId, kind } = header;
        if (table === 'journal_ticks') ticksByRun.set(runId, (ticksByRun.get(runId) ?? 0) + countTimes(row.t));
        // The header has the dataset too, and is intact.
        if (table === 'journal_series')
          seriesRows.push({ runId, dataset: kind as SeriesDataset, rows: countTimes(row.t) });
      }
      if (table === 'journal_rejected' || table === 'journal_markets') continue;
      addDoubtful(isOwn ? (row.symbol as string) : header?.isIntact === true ? header.symbol : null);
    }
  }
  for (const { left: rowsLeftOfRecord, isIntact, symbol } of headers.values())
    if (rowsLeftOfRecord !== 0) addDoubtful(isIntact ? symbol : null);
  return { rows, doubtfulSymbols: isAnySymbol ? null : symbols, ticksByRun, seriesRows };
}

/** The number of times in a damaged row. Not from its column `n`, which may be what is damaged. */
const countTimes = (t: JournalValue | undefined): number => (t instanceof Uint8Array ? Math.floor(t.length / 8) : 0);

export const hasJournalDamage = ({ rows, doubtfulSymbols }: JournalDamage): boolean =>
  rows.length > 0 || doubtfulSymbols === null || doubtfulSymbols.size > 0;

/** Rebuilds the indices of the journal's tables. Joins the caller's transaction. */
export function rebuildJournalIndices(db: Database): void {
  for (const table of ['journal', ...Object.keys(journalRowColumns)]) db.script(`reindex ${table}`);
}

/**
 * Deletes damaged rows from the journal, and all journaled coverage of symbols whose ticks may have been in them, so
 * that they are fetched again. Runs in the transaction of `findJournalDamage`, after the indices are rebuilt.
 * @returns the number of windows that are no longer journaled as covered
 */
export function dropJournalDamage(
  db: Database,
  { rows, doubtfulSymbols, ticksByRun, seriesRows }: JournalDamage,
): number {
  for (const { table, id } of rows) {
    if (table !== 'journal')
      db.run(`delete from ${table} where ${table === 'journal_markets' ? 'record_id' : 'id'} = ?`, id);
  }
  let windows = 0;
  for (const table of ['journal_coverage', 'journal_book_coverage', 'journal_series_coverage']) {
    if (doubtfulSymbols === null) windows += db.run(`delete from ${table}`).changes;
    else
      for (const symbol of doubtfulSymbols) windows += db.run(`delete from ${table} where symbol = ?`, symbol).changes;
  }
  const damagedHeaders = rows.filter(({ table }) => table === 'journal');
  for (const { id } of damagedHeaders) db.run('delete from journal where id = ?', id);
  db.run(`update journal set rows = ${countRowsSql} where rows <> ${countRowsSql}`);
  db.run(
    'delete from journal where rows = 0 and not exists (select 1 from journal_rejected where record_id = journal.id)',
  );
  for (const [runId, ticks] of ticksByRun)
    db.run('update runs set quarantined = quarantined + ? where run_id = ? and finished_at is null', ticks, runId);
  for (const { runId, dataset, rows: quarantined } of seriesRows)
    if (db.one('select 1 from runs where run_id = ? and finished_at is null', runId) !== undefined)
      addSeriesCounts(db, runId, dataset, { quarantined });
  return windows;
}

/**
 * Deletes published rows: these bins, rejected input up to `end`, and these market polls. Must run inside the publish's
 * transaction.
 */
export function consumeJournal(db: Database, bins: readonly JournalBin[], end: number, polls: readonly number[]): void {
  deleteBins(db, ['journal_ticks', 'journal_coverage', 'journal_withdrawn'], bins, end);
  db.run('delete from journal_rejected where record_id <= ?', end);
  consumePolls(db, end, polls);
}

/**
 * Deletes ticks of these bins that are all published already, and these market polls; the coverage of the bins stays. Must run
 * inside a transaction.
 */
export function consumeKnownTicks(
  db: Database,
  bins: readonly JournalBin[],
  end: number,
  polls: readonly number[],
): void {
  deleteBins(db, ['journal_ticks'], bins, end);
  consumePolls(db, end, polls);
}

/** Deletes market polls, and the records without rows, up to `end`. */
function consumePolls(db: Database, end: number, polls: readonly number[]): void {
  for (const recordId of polls) db.run('delete from journal_markets where record_id = ?', recordId);
  db.run(
    `delete from journal where id <= ? and ${countedTables
      .map((table) => `not exists (select 1 from ${table} where record_id = journal.id)`)
      .join(' and ')}`,
    end,
  );
  // Records of a part that is not published, or of coverage that stays, have fewer rows now.
  db.run(`update journal set rows = ${countRowsSql} where id <= ?`, end);
}

/** Counts the rows of a record of `journal`, without rejected input. */
const countRowsSql = countedTables
  .map((table) => `(select count(*) from ${table} where record_id = journal.id)`)
  .join(' + ');
