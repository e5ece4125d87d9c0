import type { QueryParameter } from './convert-values.ts';
import type { DatasetColumnType, Query } from './query.ts';
import type { Chunk } from './results.ts';
import { quoteIdentifier, quoteLiteral } from './views.ts';

/** Rows of one dataset, in its order. */
export interface DatasetSlice {
  readonly dataset: string;
  readonly columns: readonly { readonly name: string; readonly type: DatasetColumnType }[];
  /** The columns it is sorted by; the first is a string. */
  readonly keys: readonly string[];
  /** None: all of them. */
  readonly symbols: readonly string[];
  /** What of the rows' own time must lie in the window; null where the dataset has none. */
  readonly timeColumns: TimeColumns | null;
  /** The window's start, included, and end, excluded, in epoch milliseconds; null where it is open. */
  readonly from: number | null;
  readonly to: number | null;
  /** What else the rows must fulfil: `$1` and so on stand for `values`, which every statement of the slice is given. */
  readonly condition?: SqlCondition;
}

export interface SqlCondition {
  readonly sql: string;
  readonly values: readonly QueryParameter[];
}

/** The columns between which a row's time lies; one and the same where it is a moment. */
export interface TimeColumns {
  readonly first: string;
  readonly last: string;
  /** Whether the moment of `last` still belongs to the row. */
  readonly isLastIncluded: boolean;
}

/** Rows whose first key is from `first` to `last`, both included. */
export interface KeyRange {
  readonly first: string;
  readonly last: string;
  /** The most of them that are wanted; all by default. */
  readonly rowsMax?: number;
}

/**
 * Cuts a slice into ranges of its first key with about `resultRowsMax` rows each, so that it can be sorted one range after
 * another: rows of `first`, `last` and `n`, in order.
 */
export const buildRangesSql = (slice: DatasetSlice, rowsMax: number): string => {
  const key = quoteIdentifier(slice.keys[0]!);
  return `WITH counted AS (SELECT ${key} AS k, count(*) AS n FROM ${buildFromWhere(slice, null)} GROUP BY 1),
    placed AS (SELECT k, n, (sum(n) OVER (ORDER BY k) - n) // ${rowsMax} AS place FROM counted)
    SELECT min(k) AS first, max(k) AS last, sum(n)::BIGINT AS n FROM placed GROUP BY place ORDER BY place`;
};

/** How often each value of the first key stands in a range, or in all of the slice: in the dataset's order. */
const buildRunsSql = (slice: DatasetSlice, range: KeyRange | null): string =>
  `SELECT ${quoteIdentifier(slice.keys[0]!)} AS k, count(*)::DOUBLE AS n FROM ${buildFromWhere(slice, range)} GROUP BY 1 ORDER BY 1`;

/**
 * The rows of one range, or all of them, in the dataset's order. `plain`: times as epoch milliseconds and counts as
 * doubles; otherwise as they are.
 */
export function buildRowsSql(
  slice: DatasetSlice,
  range: KeyRange | null,
  plain: boolean,
  columns = slice.columns,
): string {
  // By the columns' own names: an alias in the list would hide them.
  const order = slice.keys.map((key) => `${quoteIdentifier(slice.dataset)}.${quoteIdentifier(key)}`).join(', ');
  return `SELECT ${buildColumnsSql(columns, plain)} FROM ${buildFromWhere(slice, range)} ORDER BY ${order}${buildLimitSql(range?.rowsMax)}`;
}

const buildLimitSql = (rowsMax: number | undefined): string => (rowsMax === undefined ? '' : ` LIMIT ${rowsMax}`);

/** Columns as `buildRowsSql` tells them. */
export function buildColumnsSql(columns: DatasetSlice['columns'], plain: boolean): string {
  const told = columns.map(({ name, type }) => {
    const column = quoteIdentifier(name);
    if (!plain || (type !== 'timestamp' && type !== 'int64')) return column;
    return `${type === 'timestamp' ? `epoch_ms(${column})` : column}::DOUBLE AS ${column}`;
  });
  return told.join(', ');
}

/**
 * The rows of ranges one after another, plain. The first key comes as its runs: to fetch a long text for every row would
 * take as long as all the rest.
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

/** The dataset and the conditions of a slice, as they stand after FROM. */
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

/** An instant as SQL. */
export const toSqlTimestamp = (ms: number): string => `TIMESTAMPTZ '${new Date(ms).toISOString()}'`;
