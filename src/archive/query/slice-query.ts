import type { Column, TimeColumns } from '../format/datasets.ts';
import type { QueryParameter } from './convert-values.ts';
import type { Chunk, Query } from './query.ts';
import { quoteIdentifier, quoteLiteral } from './views.ts';

/** Selected rows of one dataset, in its sort order. */
export interface DatasetSlice {
  readonly dataset: string;
  readonly columns: readonly Pick<Column, 'name' | 'type'>[];
  /** Sort key columns; the first is a string. */
  readonly keys: readonly string[];
  /** Empty for all symbols. */
  readonly symbols: readonly string[];
  /** The time columns that must overlap the window; null if the dataset has none. */
  readonly timeColumns: TimeColumns | null;
  /** The window's start, inclusive, and end, exclusive, in epoch milliseconds; null if open. */
  readonly from: number | null;
  readonly to: number | null;
  /**
   * A further condition on the rows. Its parameters `$1` and so on are `values`; every statement of the slice is run
   * with them.
   */
  readonly condition?: SqlCondition;
}

export interface SqlCondition {
  readonly sql: string;
  readonly values: readonly QueryParameter[];
}

/** Rows whose first key is from `first` to `last`, inclusive. */
export interface KeyRange {
  readonly first: string;
  readonly last: string;
  /** Maximum rows; default all. */
  readonly rowsMax?: number;
}

/**
 * SQL that splits a slice into ranges of its first key with about `rowsMax` rows each, so that it can be sorted range
 * by range. Returns rows of `first`, `last` and `n`, in order.
 */
export const buildRangesSql = (slice: DatasetSlice, rowsMax: number): string => {
  const key = quoteIdentifier(slice.keys[0]!);
  return `WITH counted AS (SELECT ${key} AS k, count(*) AS n FROM ${buildFromWhere(slice, null)} GROUP BY 1),
    placed AS (SELECT k, n, (sum(n) OVER (ORDER BY k) - n) // ${rowsMax} AS place FROM counted)
    SELECT min(k) AS first, max(k) AS last, sum(n)::BIGINT AS n FROM placed GROUP BY place ORDER BY place`;
};

/** SQL for the number of rows of each value of the first key, in a range or the whole slice, in the dataset's order. */
const buildRunsSql = (slice: DatasetSlice, range: KeyRange | null): string =>
  `SELECT ${quoteIdentifier(slice.keys[0]!)} AS k, count(*)::DOUBLE AS n FROM ${buildFromWhere(slice, range)} GROUP BY 1 ORDER BY 1`;

/**
 * SQL for the rows of a range, or of the whole slice, in the dataset's order.
 * @param plain returns times as epoch milliseconds or microseconds and counts as doubles, instead of in their own types
 */
export function buildRowsSql(
  slice: DatasetSlice,
  range: KeyRange | null,
  plain: boolean,
  columns = slice.columns,
): string {
  // Names are qualified, because an alias in the select list would hide the columns.
  const order = slice.keys.map((key) => `${quoteIdentifier(slice.dataset)}.${quoteIdentifier(key)}`).join(', ');
  return `SELECT ${buildColumnsSql(columns, plain)} FROM ${buildFromWhere(slice, range)} ORDER BY ${order}${buildLimitSql(range?.rowsMax)}`;
}

const buildLimitSql = (rowsMax: number | undefined): string => (rowsMax === undefined ? '' : ` LIMIT ${rowsMax}`);

/** SQL for the select list of `buildRowsSql`. */
export function buildColumnsSql(columns: DatasetSlice['columns'], plain: boolean): string {
  const selectList = columns.map(({ name, type }) => {
    const column = quoteIdentifier(name);
    const number = { timestamp: `epoch_ms(${column})`, timestamp_us: `epoch_us(${column})`, int64: column }[
      type as string
    ];
    return plain && number !== undefined ? `${number}::DOUBLE AS ${column}` : column;
  });
  return selectList.join(', ');
}

/**
 * Reads the rows of the ranges in order, plain. Reads the first key as runs with their lengths: reading a long text for
 * every row would double the time.
 */
export async function* readSliceChunks(
  query: Query,
  slice: DatasetSlice,
  ranges: readonly (KeyRange | null)[],
  signal?: AbortSignal,
): AsyncGenerator<Chunk> {
  const values = slice.condition?.values;
  const at = slice.columns.findIndex(({ name }) => name === slice.keys[0]);
  const others = slice.columns.toSpliced(at, 1);
  for (const range of ranges) {
    const names: string[] = [];
    const counts: number[] = [];
    for await (const [k, n] of query.readChunks([buildRunsSql(slice, range)], signal, values)) {
      for (const name of k!) names.push(name as string);
      for (const count of n!) counts.push(count as number);
    }
    let run = 0;
    for await (const chunk of query.readChunks([buildRowsSql(slice, range, true, others)], signal, values)) {
      const key = chunk[0]!.map(() => {
        while (counts[run] === 0) run++;
        counts[run]!--;
        return names[run]!;
      });
      yield chunk.toSpliced(at, 0, key);
    }
  }
}

/** SQL for the dataset and the conditions of a slice, to follow FROM. */
export function buildFromWhere(slice: DatasetSlice, range: KeyRange | null): string {
  const { dataset, keys, symbols, timeColumns, from, to, condition } = slice;
  const column = (name: string): string => `${quoteIdentifier(dataset)}.${quoteIdentifier(name)}`;
  const conditions: string[] = [];
  if (symbols.length > 0) conditions.push(`${column('symbol')} IN (${symbols.map(quoteLiteral).join(', ')})`);
  if (timeColumns !== null && from !== null)
    conditions.push(`${column(timeColumns.last)} ${timeColumns.isLastIncluded ? '>=' : '>'} ${toSqlTimestamp(from)}`);
  if (timeColumns !== null && to !== null) conditions.push(`${column(timeColumns.first)} < ${toSqlTimestamp(to)}`);
  if (range !== null)
    conditions.push(`${column(keys[0]!)} BETWEEN ${quoteLiteral(range.first)} AND ${quoteLiteral(range.last)}`);
  if (condition !== undefined) conditions.push(`(${condition.sql})`);
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  return `${quoteIdentifier(dataset)}${where}`;
}

/** An instant as an SQL literal. */
export const toSqlTimestamp = (ms: number): string => `TIMESTAMPTZ '${new Date(ms).toISOString()}'`;
