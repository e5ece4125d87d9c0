import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteIdentifier, quoteLiteral } from '../../archive/query/views.ts';
import type { TickColumns } from '../../base/ticks.ts';
import type { Window } from '../../base/window.ts';

/** Selection of the ticks dataset. */
interface TickReadRequest {
  /** Part number; all symbols are of this part. */
  readonly part: number;
  /** Sorted by UTF-8 bytes. */
  readonly symbols: readonly string[];
  readonly window: Window;
  readonly filter: TickReadFilter;
}

/** Which rows of the files to skip. Each condition costs about as much as reading the row. */
export interface TickReadFilter {
  /** Whether the files hold ticks outside the window. */
  readonly time: boolean;
  /** Whether to filter by symbol, because most rows are of other symbols. */
  readonly symbols: boolean;
}

/** The ticks exceed the maximum in memory. */
export class TooManyTicksError extends Error {}

/** View of the ticks of one part. A part has one file per day, so its rows are sorted by day and symbol. */
export const toTicksViewName = (part: number): string => `ticks_${part}`;

/** Additional column of the view: index of the file. Cheaper than the date, which DuckDB derives from the path of each row. */
export const fileIndexColumn = { name: 'file_index', type: 'int64' } as const;

/**
 * Reads the ticks of symbols without sorting: counts the rows per symbol and file first, then splits the columns t and p into
 * these runs.
 * @param query single-threaded query over `toTicksViewName`, so that rows arrive in file order
 * @throws TooManyTicksError before any tick is loaded
 */
export async function readTicks(
  query: Query,
  request: TickReadRequest,
  ticksMax: number,
  signal: AbortSignal,
): Promise<TickColumns[]> {
  const runs = await readRowRuns(query, request, signal);
  const counts = request.symbols.map(() => 0);
  for (const { of, rows } of runs) if (of !== null) counts[of]! += rows;
  if (counts.reduce((sum, n) => sum + n, 0) > ticksMax) throw new TooManyTicksError(`more than ${ticksMax} ticks`);
  const columns = counts.map((n) => ({ t: new Float64Array(n), p: new Float64Array(n) }));
  const filled = request.symbols.map(() => 0);
  let [run, rowsLeft] = [0, runs[0]?.rows ?? 0];
  const sql = `SELECT epoch_ms(t)::DOUBLE, p FROM ${formatFromWhere(request)}`;
  for await (const [t, p] of query.readDoubles(sql, signal)) {
    for (let row = 0; row < t!.length; ) {
      if (run >= runs.length) throw new Error('more ticks than counted');
      const count = Math.min(rowsLeft, t!.length - row);
      const { of } = runs[run]!;
      if (of !== null) {
        const { t: times, p: prices } = columns[of]!;
        times.set(t!.subarray(row, row + count), filled[of]!);
        prices.set(p!.subarray(row, row + count), filled[of]!);
        filled[of]! += count;
      }
      row += count;
      rowsLeft -= count;
      if (rowsLeft === 0) rowsLeft = runs[++run]?.rows ?? 0;
    }
  }
  if (run < runs.length) throw new Error('fewer ticks than counted');
  for (const [i, { t }] of columns.entries()) requireAscending(request.symbols[i]!, t);
  return columns;
}

/** Consecutive rows of one symbol in a file. `of`: index of the symbol; null if it is not selected. */
interface RowRun {
  readonly of: number | null;
  readonly rows: number;
}

async function readRowRuns(query: Query, request: TickReadRequest, signal: AbortSignal): Promise<RowRun[]> {
  const symbolIndexes = new Map(request.symbols.map((symbol, i) => [symbol, i]));
  const sql = `SELECT symbol, count(*)::DOUBLE FROM ${formatFromWhere(request)} GROUP BY file_index, symbol ORDER BY file_index, symbol`;
  const runs: RowRun[] = [];
  for await (const [symbols, counts] of query.readChunks([sql], signal)) {
    for (const [i, symbol] of symbols!.entries())
      runs.push({ of: symbolIndexes.get(symbol as string) ?? null, rows: counts![i] as number });
  }
  return runs;
}

function formatFromWhere({ part, symbols, window, filter }: TickReadRequest): string {
  const conditions = [
    ...(filter.symbols ? [`symbol BETWEEN ${quoteLiteral(symbols[0]!)} AND ${quoteLiteral(symbols.at(-1)!)}`] : []),
    ...(filter.time ? [`t >= ${toSqlTimestamp(window.from)} AND t < ${toSqlTimestamp(window.to)}`] : []),
  ];
  return `${quoteIdentifier(toTicksViewName(part))}${conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`}`;
}

/** Checks the assumed order of rows. */
export function requireAscending(symbol: string, t: Float64Array): void {
  for (let i = 1; i < t.length; i++)
    if (!(t[i]! > t[i - 1]!)) throw new Error(`the ticks of ${symbol} are out of order`);
}
