import type { Query } from '../../query/query.ts';
import { literal } from '../../query/views.ts';

/** Ticks of one symbol, in the order of time. */
export interface TickColumns {
  /** Epoch milliseconds. */
  readonly t: Float64Array;
  readonly p: Float64Array;
}

/** What of the ticks dataset is wanted: symbols, in their order, all of one part, and a window of epoch milliseconds. */
export interface TicksAsked {
  readonly symbols: readonly string[];
  /** How many ticks each of them may have, so that room is made once. */
  readonly guesses: readonly number[];
  readonly from: number;
  readonly to: number;
}

/** More ticks than are to be held at once. */
export class TooManyTicks extends Error {}

/**
 * Reads the ticks of symbols. Files are read as they stand, so nothing is sorted: days follow one another, and a day's file
 * holds one symbol after the other. A symbol comes as its place in the list, which DuckDB looks up once for each entry of a
 * page's dictionary: runs of one place are the runs of a symbol.
 * @param query with one thread, so that rows come in the order of files
 * @throws TooManyTicks
 */
export async function readTicks(
  query: Query,
  asked: TicksAsked,
  ticksMax: number,
  signal: AbortSignal,
): Promise<TickColumns[]> {
  const columns = asked.guesses.map(growing);
  let ticks = 0;
  for await (const [t, p, place] of query.doubles(sqlOf(asked), signal)) {
    const rows = t!.length;
    for (let row = 0; row < rows; ) {
      const of = place![row]!;
      const first = row;
      while (row < rows && place![row] === of) row++;
      // Others that stand between them.
      if (of === 0) continue;
      ticks += row - first;
      if (ticks > ticksMax) throw new TooManyTicks(`more than ${ticksMax} ticks`);
      columns[of - 1]!.add(t!.subarray(first, row), p!.subarray(first, row));
    }
  }
  return columns.map((column, i) => {
    const all = column.all();
    requireAscending(asked.symbols[i]!, all.t);
    return all;
  });
}

function sqlOf({ symbols, from, to }: TicksAsked): string {
  const [first, last] = [symbols[0]!, symbols.at(-1)!].map(literal);
  const place = `coalesce(list_position([${symbols.map(literal).join(', ')}], symbol), 0)::DOUBLE`;
  const time = `t >= make_timestamptz(${from * 1000}) AND t < make_timestamptz(${to * 1000})`;
  return `SELECT epoch_ms(t)::DOUBLE, p, ${place} FROM ticks WHERE symbol BETWEEN ${first} AND ${last} AND ${time}`;
}

/** Columns that grow beyond a guess where need be. */
function growing(guess: number) {
  let [t, p] = [new Float64Array(guess), new Float64Array(guess)];
  let n = 0;
  const room = (size: number): void => {
    const next = Math.max(size, 2 * t.length, 64);
    const [more, prices] = [new Float64Array(next), new Float64Array(next)];
    more.set(t.subarray(0, n));
    prices.set(p.subarray(0, n));
    [t, p] = [more, prices];
  };
  return {
    add(times: Float64Array, prices: Float64Array): void {
      if (n + times.length > t.length) room(n + times.length);
      t.set(times, n);
      p.set(prices, n);
      n += times.length;
    },
    all: (): TickColumns => ({ t: t.subarray(0, n), p: p.subarray(0, n) }),
  };
}

/** What the order of reading rests on: nothing is played that is out of order. */
function requireAscending(symbol: string, t: Float64Array): void {
  for (let i = 1; i < t.length; i++)
    if (!(t[i]! > t[i - 1]!)) throw new Error(`the ticks of ${symbol} are out of order`);
}
