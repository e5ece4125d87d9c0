import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteIdentifier, quoteLiteral } from '../../archive/query/views.ts';
import type { Window } from '../../base/window.ts';

/** Ticks of one symbol, in the order of time. */
export interface TickColumns {
  /** Epoch milliseconds. */
  readonly t: Float64Array;
  readonly p: Float64Array;
}

/** What of the ticks dataset is wanted. */
export interface TickReadRequest {
  /** All of one part. */
  readonly part: number;
  /** In the order of their UTF-8 bytes. */
  readonly symbols: readonly string[];
  readonly window: Window;
  readonly cut: TickReadFilter;
}

/** What files hold beyond what is wanted of them. To look at each row for it costs as much as to read the row. */
export interface TickReadFilter {
  /** Whether some of their ticks are not in the window. */
  readonly time: boolean;
  /** Whether so many of them are of other symbols that they had better not be read. */
  readonly symbols: boolean;
}

/** More ticks than are to be held at once. */
export class TooManyTicksError extends Error {}

/** The view of the ticks of one part: a part has one file a day, so its rows come day after day and symbol after symbol. */
export const toTicksViewName = (part: number): string => `ticks_${part}`;

/** Besides its columns the view has the place of a row's file among them, which DuckDB knows: a day is made of its path, row by row. */
export const fileIndexColumn = { name: 'file_index', type: 'int64' } as const;

/**
 * Reads the ticks of symbols. Files are read as they stand, so nothing is sorted: it is counted first how many rows each
 * symbol has a day, and then the columns of t and p are cut into these runs.
 * @param query over `toTicksViewName`, with one thread, so that rows come in the order of files
 * @throws TooManyTicksError before any of them is held
 */
export async function readTicks(
  query: Query,
  asked: TickReadRequest,
  ticksMax: number,
  signal: AbortSignal,
): Promise<TickColumns[]> {
  const runs = await readRowRuns(query, asked, signal);
  const counts = asked.symbols.map(() => 0);
  for (const { of, rows } of runs) if (of !== null) counts[of]! += rows;
  if (counts.reduce((sum, n) => sum + n, 0) > ticksMax) throw new TooManyTicksError(`more than ${ticksMax} ticks`);
  const columns = counts.map((n) => ({ t: new Float64Array(n), p: new Float64Array(n) }));
  const filled = asked.symbols.map(() => 0);
  let [run, left] = [0, runs[0]?.rows ?? 0];
  const sql = `SELECT epoch_ms(t)::DOUBLE, p FROM ${formatFromWhere(asked)}`;
  for await (const [t, p] of query.readDoubles(sql, signal)) {
    for (let row = 0; row < t!.length; ) {
      if (run >= runs.length) throw new Error('there are more ticks than were counted');
      const take = Math.min(left, t!.length - row);
      const { of } = runs[run]!;
      if (of !== null) {
        const { t: times, p: prices } = columns[of]!;
        times.set(t!.subarray(row, row + take), filled[of]!);
        prices.set(p!.subarray(row, row + take), filled[of]!);
        filled[of]! += take;
      }
      row += take;
      left -= take;
      if (left === 0) left = runs[++run]?.rows ?? 0;
    }
  }
  if (run < runs.length) throw new Error('there are fewer ticks than were counted');
  for (const [i, { t }] of columns.entries()) requireAscending(asked.symbols[i]!, t);
  return columns;
}

/** Rows of one symbol that follow one another in a file; null: of one that is not wanted. */
interface RowRun {
  readonly of: number | null;
  readonly rows: number;
}

async function readRowRuns(query: Query, asked: TickReadRequest, signal: AbortSignal): Promise<RowRun[]> {
  const places = new Map(asked.symbols.map((symbol, i) => [symbol, i]));
  const sql = `SELECT symbol, count(*)::DOUBLE FROM ${formatFromWhere(asked)} GROUP BY file_index, symbol ORDER BY file_index, symbol`;
  const runs: RowRun[] = [];
  for await (const [symbols, counts] of query.readChunks([sql], signal)) {
    for (const [i, symbol] of symbols!.entries())
      runs.push({ of: places.get(symbol as string) ?? null, rows: counts![i] as number });
  }
  return runs;
}

function formatFromWhere({ part, symbols, window, cut }: TickReadRequest): string {
  const conditions = [
    ...(cut.symbols ? [`symbol BETWEEN ${quoteLiteral(symbols[0]!)} AND ${quoteLiteral(symbols.at(-1)!)}`] : []),
    ...(cut.time ? [`t >= ${toSqlTimestamp(window.from)} AND t < ${toSqlTimestamp(window.to)}`] : []),
  ];
  return `${quoteIdentifier(toTicksViewName(part))}${conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`}`;
}

/** What the order of reading rests on: nothing is played that is out of order. */
function requireAscending(symbol: string, t: Float64Array): void {
  for (let i = 1; i < t.length; i++)
    if (!(t[i]! > t[i - 1]!)) throw new Error(`the ticks of ${symbol} are out of order`);
}
