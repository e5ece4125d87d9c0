import { partOf } from '../../core/part.ts';
import type { Query } from '../../query/query.ts';
import { literal } from '../../query/views.ts';
import type { Member } from './universe.ts';

/** Ticks of symbols, each in the order of time. */
export type TicksBySymbol = ReadonlyMap<string, { readonly t: Float64Array; readonly p: Float64Array }>;

/** What of the ticks dataset is wanted: symbols of one part, in their order, and a window of epoch milliseconds. */
export interface TicksAsked {
  readonly symbols: readonly string[];
  /** Whether the dataset has no other symbol between them. */
  readonly isRange: boolean;
  readonly from: number;
  readonly to: number;
}

/** So many ticks of a symbol stand together in a file. */
interface Run {
  readonly symbol: string;
  readonly n: number;
}

/** How many ticks of each symbol each day has, in the order in which files hold them: days, then symbols. */
export async function runsOf(query: Query, asked: TicksAsked, signal: AbortSignal): Promise<Run[]> {
  const sql = `SELECT symbol, n FROM (SELECT "date" AS day, symbol, count(*)::DOUBLE AS n FROM ${whereOf(asked)} GROUP BY ALL)
    ORDER BY day, symbol`;
  const runs: Run[] = [];
  for await (const [symbols, counts] of query.chunks([sql], signal))
    for (const [row, symbol] of symbols!.entries()) runs.push({ symbol: symbol as string, n: counts![row] as number });
  return runs;
}

/**
 * The ticks that runs have counted. Files are read in the order in which they stand, so nothing is sorted: a day's files
 * hold symbols in their order, and days follow one another.
 */
export async function ticksOf(
  query: Query,
  asked: TicksAsked,
  runs: readonly Run[],
  signal: AbortSignal,
): Promise<TicksBySymbol> {
  const sizes = new Map<string, number>();
  for (const { symbol, n } of runs) sizes.set(symbol, (sizes.get(symbol) ?? 0) + n);
  const out = new Map(
    [...sizes].map(([symbol, n]) => [symbol, { t: new Float64Array(n), p: new Float64Array(n), n: 0 }]),
  );
  let run = 0;
  let left = runs[0]?.n ?? 0;
  const sql = `SELECT epoch_ms(t)::DOUBLE, p FROM ${whereOf(asked)}`;
  for await (const [t, p] of query.doubles(sql, signal)) {
    for (let row = 0; row < t!.length; ) {
      while (left === 0) left = runs[++run]!.n;
      const taken = Math.min(left, t!.length - row);
      const of = out.get(runs[run]!.symbol)!;
      of.t.set(t!.subarray(row, row + taken), of.n);
      of.p.set(p!.subarray(row, row + taken), of.n);
      of.n += taken;
      left -= taken;
      row += taken;
    }
  }
  for (const [symbol, { t, n }] of out) {
    requireAscending(symbol, t);
    if (n !== t.length) throw new Error(`${symbol} has ${n} ticks where ${t.length} were counted`);
  }
  return out;
}

/** What the order of reading rests on: nothing is played that is out of order. */
function requireAscending(symbol: string, t: Float64Array): void {
  for (let i = 1; i < t.length; i++)
    if (!(t[i]! > t[i - 1]!)) throw new Error(`the ticks of ${symbol} are out of order`);
}

function whereOf({ symbols, isRange, from, to }: TicksAsked): string {
  const [first, last] = [symbols[0]!, symbols.at(-1)!];
  const among = isRange ? '' : ` AND symbol IN (${symbols.map(literal).join(', ')})`;
  const time = `t >= make_timestamptz(${from * 1000}) AND t < make_timestamptz(${to * 1000})`;
  return `ticks WHERE symbol BETWEEN ${literal(first)} AND ${literal(last)}${among} AND ${time}`;
}

/** Members by the part that their ticks are in, each part's in their order. */
export const byPart = (members: readonly Member[], parts: number): Map<number, Member[]> =>
  Map.groupBy(members, ({ symbol }) => partOf(symbol, parts));
