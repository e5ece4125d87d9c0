import { compareUtf8 } from '../../core/compare-utf8.ts';
import type { Window } from '../../core/window.ts';
import type { Query } from '../../query/query.ts';
import { toSqlTimestamp } from '../../query/slice-query.ts';
import { quoteLiteral } from '../../query/views.ts';
import { bookAgeMsMax } from '../../research/simulate.ts';
import type { Level, OrderBook, OrderBookSeries } from '../../research/symbol-series.ts';
import type { OrderBookStore, StoredBookSeries } from './order-book-store.ts';

/** Another order book of a symbol, whose levels are still to come. */
interface PartialBook extends OrderBook {
  readonly bids: Level[];
  readonly asks: Level[];
}

/**
 * The order books that an order of a run may meet: at some tick of its span they are the latest of their symbol, and not too
 * old. Others are read past, so that however many there are, no more are kept than there are ticks.
 * @param query over the order books, with one thread, so that rows come in the order of files: a symbol's by time
 * @param ticks times by symbol, ascending
 */
export async function readOrderBooks(
  query: Query,
  ticks: ReadonlyMap<string, Float64Array>,
  span: Window,
  shelf: OrderBookStore,
  signal: AbortSignal,
): Promise<Map<string, OrderBookSeries>> {
  const sql = `SELECT symbol, epoch_ms(t)::DOUBLE, side, price, quantity FROM orderbooks
    WHERE ${formatSymbolCondition([...ticks.keys()])} AND t >= ${toSqlTimestamp(span.from - bookAgeMsMax)} AND t < ${toSqlTimestamp(span.to)}`;
  const found = new Map<string, ReturnType<typeof createBookCollector>>();
  for await (const chunk of query.readChunks([sql], signal)) {
    const [names, moments, sides, prices, quantities] = chunk as readonly [
      ...[names: string[], moments: number[], sides: string[]],
      ...[prices: number[], quantities: number[]],
    ];
    for (let row = 0; row < names.length; row++) {
      const symbol = names[row]!;
      const times = ticks.get(symbol);
      if (times === undefined) continue;
      let of = found.get(symbol);
      if (of === undefined) {
        of = createBookCollector(symbol, times, span, shelf.createSeries());
        found.set(symbol, of);
      }
      of.row(moments[row]!, sides[row]!, prices[row]!, quantities[row]!);
    }
  }
  return new Map([...found].map(([symbol, { end }]) => [symbol, end()]));
}

/** With more symbols than these, rows of those between them are read, too. */
const symbolsInQueryMax = 50;

/** A condition that is looked at row by row: of IN and many names DuckDB makes a join, after which rows come in any order. */
function formatSymbolCondition(symbols: readonly string[]): string {
  const names = symbols.toSorted(compareUtf8).map(quoteLiteral);
  const range = `symbol BETWEEN ${names[0]} AND ${names.at(-1)}`;
  return names.length > symbolsInQueryMax ? range : `${range} AND list_contains([${names.join(', ')}], symbol)`;
}

/** Takes the rows of one symbol, and keeps of its books those that a tick may meet. */
function createBookCollector(symbol: string, t: Float64Array, { from, to }: Window, kept: StoredBookSeries) {
  let coming: PartialBook | null = null;
  let tick = 0;

  /** Keeps the one whose rows are over, where there is a tick before the next one. */
  function settle(next: number): void {
    if (coming === null) return;
    const first = Math.max(coming.t, from);
    while (tick < t.length && t[tick]! < first) tick++;
    if (tick < t.length && t[tick]! < next && t[tick]! <= coming.t + bookAgeMsMax) kept.add(coming);
  }

  return {
    row(time: number, side: string, price: number, quantity: number): void {
      if (coming?.t !== time) {
        if (coming !== null && time < coming.t) throw new Error(`the order books of ${symbol} are out of order`);
        settle(time);
        coming = { t: time, bids: [], asks: [] };
      }
      // An empty book is one row of nothing.
      if (Number.isFinite(price)) coming[side === 'bid' ? 'bids' : 'asks'].push([price, quantity]);
    },
    end(): OrderBookSeries {
      settle(to);
      return kept;
    },
  };
}
