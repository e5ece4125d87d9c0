import type { Parameter } from './convert-values.ts';
import type { Query, SourceColumnType } from './query.ts';
import type { Chunk } from './result-batches.ts';
import { identifier, literal } from './views.ts';

/** Rows of one dataset, in its order. */
export interface Slice {
  readonly dataset: string;
  readonly columns: readonly { readonly name: string; readonly type: SourceColumnType }[];
  /** The columns it is sorted by; the first is a string. */
  readonly keys: readonly string[];
  /** None: all of them. */
  readonly symbols: readonly string[];
  /** What of the rows' own time must lie in the window; null where the dataset has none. */
  readonly span: Span | null;
  /** The window's start, included, and end, excluded, in epoch milliseconds; null where it is open. */
  readonly from: number | null;
  readonly to: number | null;
  /** What else the rows must fulfil: `$1` and so on stand for `values`, which every statement of the slice is given. */
  readonly condition?: Condition;
}

export interface Condition {
  readonly sql: string;
  readonly values: readonly Parameter[];
}

/** The columns between which a row's time lies; one and the same where it is a moment. */
export interface Span {
  readonly first: string;
  readonly last: string;
  /** Whether the moment of `last` still belongs to the row. */
  readonly closed: boolean;
}

/** Rows whose first key is from `first` to `last`, both included. */
export interface KeyRange {
  readonly first: string;
  readonly last: string;
  /** The most of them that are wanted; all by default. */
  readonly rowsMax?: number;
}

/**
 * Cuts a slice into ranges of its first key with about `rowsMax` rows each, so that it can be sorted one range after
 * another: rows of `first`, `last` and `n`, in order.
 */
export const rangesSql = (slice: Slice, rowsMax: number): string => {
  const key = identifier(slice.keys[0]!);
  return `WITH counted AS (SELECT ${key} AS k, count(*) AS n FROM ${fromWhere(slice, null)} GROUP BY 1),
    placed AS (SELECT k, n, (sum(n) OVER (ORDER BY k) - n) // ${rowsMax} AS place FROM counted)
    SELECT min(k) AS first, max(k) AS last, sum(n)::BIGINT AS n FROM placed GROUP BY place ORDER BY place`;
};

/** How often each value of the first key stands in a range, or in all of the slice: in the dataset's order. */
const runsSql = (slice: Slice, range: KeyRange | null): string =>
  `SELECT ${identifier(slice.keys[0]!)} AS k, count(*)::DOUBLE AS n FROM ${fromWhere(slice, range)} GROUP BY 1 ORDER BY 1`;

/**
 * The rows of one range, or all of them, in the dataset's order. `plain`: times as epoch milliseconds and counts as
 * doubles; otherwise as they are.
 */
export function rowsSql(slice: Slice, range: KeyRange | null, plain: boolean, columns = slice.columns): string {
  // By the columns' own names: an alias in the list would hide them.
  const order = slice.keys.map((key) => `${identifier(slice.dataset)}.${identifier(key)}`).join(', ');
  return `SELECT ${toldSql(columns, plain)} FROM ${fromWhere(slice, range)} ORDER BY ${order}${cutSql(range?.rowsMax)}`;
}

const cutSql = (rowsMax: number | undefined): string => (rowsMax === undefined ? '' : ` LIMIT ${rowsMax}`);

/** Columns as `rowsSql` tells them. */
export function toldSql(columns: Slice['columns'], plain: boolean): string {
  const told = columns.map(({ name, type }) => {
    const column = identifier(name);
    if (!plain || (type !== 'timestamp' && type !== 'int64')) return column;
    return `${type === 'timestamp' ? `epoch_ms(${column})` : column}::DOUBLE AS ${column}`;
  });
  return told.join(', ');
}

/**
 * The rows of ranges one after another, plain. The first key comes as its runs: to fetch a long text for every row would
 * take as long as all the rest.
 */
export async function* sliceChunks(
  query: Query,
  slice: Slice,
  ranges: readonly (KeyRange | null)[],
  signal?: AbortSignal,
): AsyncGenerator<Chunk> {
  const values = slice.condition?.values;
  const at = slice.columns.findIndex(({ name }) => name === slice.keys[0]);
  const others = slice.columns.toSpliced(at, 1);
  for (const range of ranges) {
    const names: string[] = [];
    const counts: number[] = [];
    for await (const [k, n] of query.chunks([runsSql(slice, range)], signal, values)) {
      for (const name of k!) names.push(name as string);
      for (const count of n!) counts.push(count as number);
    }
    let run = 0;
    for await (const chunk of query.chunks([rowsSql(slice, range, true, others)], signal, values)) {
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
export function fromWhere(slice: Slice, range: KeyRange | null): string {
  const { dataset, keys, symbols, span, from, to, condition } = slice;
  const column = (name: string): string => `${identifier(dataset)}.${identifier(name)}`;
  const conditions: string[] = [];
  if (symbols.length > 0) conditions.push(`${column('symbol')} IN (${symbols.map(literal).join(', ')})`);
  if (span !== null && from !== null)
    conditions.push(`${column(span.last)} ${span.closed ? '>=' : '>'} ${moment(from)}`);
  if (span !== null && to !== null) conditions.push(`${column(span.first)} < ${moment(to)}`);
  if (range !== null) conditions.push(`${column(keys[0]!)} BETWEEN ${literal(range.first)} AND ${literal(range.last)}`);
  if (condition !== undefined) conditions.push(`(${condition.sql})`);
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  return `${identifier(dataset)}${where}`;
}

/** An instant as SQL. */
export const moment = (ms: number): string => `TIMESTAMPTZ '${new Date(ms).toISOString()}'`;
