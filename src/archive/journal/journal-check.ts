import { dayMs } from '../../base/window.ts';
import {
  type DayPart,
  type DayPartLookup,
  type PartKey,
  type SymbolRows,
  sortParts,
  toPartKey,
} from '../format/day-parts.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import type { Database } from './database.ts';
import { deleteParts } from './journal.ts';
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

/** Tables whose rows belong to one symbol and day. */
const partTables = [
  'journal_ticks',
  'journal_coverage',
  'journal_withdrawn',
  'journal_books',
  'journal_series',
  'journal_series_coverage',
] as const;
/** Tables whose rows are counted in the record header. */
const countedTables = [...partTables, 'journal_markets', 'journal_book_coverage'] as const;
type PartTable = (typeof partTables)[number];

/** The contents of the journal at one moment. */
export interface JournalIndex {
  /** ID of the last record; 0 if there is none. */
  readonly end: number;
  /** The parts of days with rows of each table, sorted, with the number of these rows. */
  readonly parts: ReadonlyMap<PartTable, readonly (DayPart & { readonly rows: number })[]>;
}

/** What is journaled of a UTC day. */
export interface JournaledDay {
  readonly day: number;
  /** Sorted by symbol. */
  readonly symbols: readonly SymbolRows[];
}

/** The rows that the journal has of each symbol, day by day, sorted. Levels of order books and windows count as rows. */
function* readJournaledDays(db: Database): Generator<JournaledDay> {
  const tables = [
    ...['journal_ticks', 'journal_books', 'journal_series'].map((table) => `select day, symbol, n from ${table}`),
    ...['journal_coverage', 'journal_withdrawn', 'journal_series_coverage'].map(
      (table) => `select day, symbol, 1 from ${table}`,
    ),
    `select at - at % ${dayMs} as day, symbol, 1 from journal_book_coverage`,
  ];
  let open: { readonly day: number; readonly symbols: SymbolRows[] } | undefined;
  for (const { day, symbol, rows } of db.iterate<{ day: number; symbol: string; rows: number }>(
    `select day, symbol, sum(n) as rows from (${tables.join(' union all ')}) group by day, symbol order by day, symbol`,
  )) {
    if (!Number.isInteger(day) || day % dayMs !== 0 || typeof symbol !== 'string')
      throw new JournalDamageError('a row has no day or no symbol');
    if (open !== undefined && open.day !== day) yield open;
    if (open?.day !== day) open = { day, symbols: [] };
    open.symbols.push({ symbol, rows });
  }
  if (open !== undefined) yield open;
}

/**
 * Checks that each record has its rows and each row its record. The contents of rows are checked when they are read.
 * @param chooseParts chooses the parts of the days, from what is journaled of each
 * @throws JournalDamageError
 */
export function indexJournal(
  db: Database,
  chooseParts: (journaled: Iterable<JournaledDay>) => DayPartLookup,
): JournalIndex {
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
    const lookup = chooseParts(readJournaledDays(db));
    const parts = new Map<PartTable, (DayPart & { rows: number })[]>();
    for (const table of countedTables) {
      const byKey = new Map<string, DayPart & { rows: number }>();
      const hasParts = partTables.includes(table as PartTable);
      const idName = table === 'journal_markets' ? 'record_id' : 'id';
      const columns = hasParts ? 'day, symbol' : "0 as day, '' as symbol";
      let last = 0;
      for (const { id, record, day, symbol } of db.iterate<{ id: number; record: number; day: number; symbol: string }>(
        `select ${idName} as id, record_id as record, ${columns} from ${table} not indexed`,
      )) {
        const rowsLeftOfRecord = rowsLeft.get(record);
        if (rowsLeftOfRecord === undefined || id <= last)
          throw new JournalDamageError(`a row of ${table} has no record`);
        last = id;
        rowsLeft.set(record, rowsLeftOfRecord - 1);
        if (!hasParts) continue;
        const part = lookup.find(day, symbol);
        if (part === undefined) throw new JournalDamageError(`an index of ${table} does not match the table`);
        const counted = byKey.get(toPartKey(part)) ?? { ...part, rows: 0 };
        byKey.set(toPartKey(part), counted);
        counted.rows++;
      }
      if (hasParts) parts.set(table as PartTable, sortParts([...byKey.values()]));
    }
    for (const [id, rowsLeftOfRecord] of rowsLeft)
      if (rowsLeftOfRecord !== 0)
        throw new JournalDamageError(`record ${id} has too ${rowsLeftOfRecord > 0 ? 'few' : 'many'} rows`);
    return { end, parts };
  });
}

/** Lists the parts with ticks, coverage or withdrawals, sorted. */
export const listTickParts = (index: JournalIndex): DayPart[] =>
  joinParts(index, ['journal_ticks', 'journal_coverage', 'journal_withdrawn']);

/** Lists the parts with rows or coverage of series, sorted. */
export const listSeriesParts = (index: JournalIndex): DayPart[] =>
  joinParts(index, ['journal_series', 'journal_series_coverage']);

const joinParts = ({ parts }: JournalIndex, tables: readonly PartTable[]): DayPart[] =>
  sortParts(tables.flatMap((table) => parts.get(table)!.map(({ rows: _, ...part }) => part)));

/** The index of a publish without journal records. */
export const emptyIndex: JournalIndex = { end: 0, parts: new Map(partTables.map((table) => [table, []])) };

/** @throws JournalDamageError if the number of rows read through an index differs from that of the table scan */
export function assertRowCount({ parts }: JournalIndex, table: PartTable, { day, part }: PartKey, rows: number): void {
  const expected = parts.get(table)!.find((one) => one.day === day && one.part === part)?.rows ?? 0;
  if (rows !== expected) throw new JournalDamageError(`an index of ${table} does not match the table`);
}

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
 * Deletes published rows: those of these parts, rejected input up to `end`, and these market polls. Must run inside the publish's
 * transaction.
 */
export function consumeJournal(db: Database, parts: readonly DayPart[], end: number, polls: readonly number[]): void {
  deleteParts(db, ['journal_ticks', 'journal_coverage', 'journal_withdrawn'], parts, end);
  db.run('delete from journal_rejected where record_id <= ?', end);
  consumePolls(db, end, polls);
}

/**
 * Deletes ticks of these parts that are all published already, and these market polls; the coverage of the parts stays. Must run
 * inside a transaction.
 */
export function consumeKnownTicks(
  db: Database,
  parts: readonly DayPart[],
  end: number,
  polls: readonly number[],
): void {
  deleteParts(db, ['journal_ticks'], parts, end);
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
