import type { Query } from '../../query/query.ts';
import { buildFromWhere, buildRowsSql, type DatasetSlice, toSqlTimestamp } from '../../query/slice-query.ts';

export interface OrderBookLevel {
  readonly price: number;
  readonly quantity: number;
}

/** A snapshot as it was published; sides best first, empty where there was nothing. */
export interface OrderBookSnapshot {
  readonly symbol: string;
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bids: readonly OrderBookLevel[];
  readonly asks: readonly OrderBookLevel[];
}

/**
 * The first snapshots of a slice of order books, whole ones; `isCut` where they hold so many levels that fewer are
 * told than wanted, at least one.
 */
export async function readSnapshots(
  query: Query,
  slice: DatasetSlice,
  wanted: number,
  levelsMax: number,
  signal: AbortSignal,
): Promise<{ snapshots: readonly OrderBookSnapshot[]; levels: number; isCut: boolean }> {
  const values = slice.condition?.values;
  const counts = `SELECT symbol, epoch_ms(t)::DOUBLE AS t, count(*)::INTEGER AS n FROM ${buildFromWhere(slice, null)}
    GROUP BY ALL ORDER BY 1, 2 LIMIT ${wanted}`;
  let chosen: { symbol: string; t: number } | undefined;
  let levels = 0;
  let isCut = false;
  for await (const [symbols, times, sizes] of query.readChunks([counts], signal, values)) {
    for (let i = 0; i < symbols!.length && !isCut; i++) {
      if (chosen !== undefined && levels + (sizes![i] as number) > levelsMax) isCut = true;
      else {
        levels += sizes![i] as number;
        chosen = { symbol: symbols![i] as string, t: times![i] as number };
      }
    }
  }
  if (chosen === undefined) return { snapshots: [], levels, isCut };
  const last = `$${(values?.length ?? 0) + 1}`;
  const upTo = `symbol <= ${last} AND (symbol < ${last} OR t <= ${toSqlTimestamp(chosen.t)})`;
  const condition = {
    sql: slice.condition === undefined ? upTo : `(${slice.condition.sql}) AND ${upTo}`,
    values: [...(values ?? []), chosen.symbol],
  };
  const snapshots: { symbol: string; t: number; bids: OrderBookLevel[]; asks: OrderBookLevel[] }[] = [];
  const chunks = query.readChunks([buildRowsSql({ ...slice, condition }, null, true)], signal, condition.values);
  for await (const [symbols, times, sides, ranks, prices, quantities] of chunks) {
    for (let i = 0; i < symbols!.length; i++) {
      let book = snapshots.at(-1);
      if (book === undefined || book.t !== times![i] || book.symbol !== symbols![i]) {
        book = { symbol: symbols![i] as string, t: times![i] as number, bids: [], asks: [] };
        snapshots.push(book);
      }
      // An empty book is a row of level -1.
      if ((ranks![i] as number) < 0) continue;
      const level = { price: prices![i] as number, quantity: quantities![i] as number };
      (sides![i] === 'bid' ? book.bids : book.asks).push(level);
    }
  }
  return { snapshots, levels, isCut };
}
