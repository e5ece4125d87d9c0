import { seek } from '../../base/binary-search.ts';
import type { SeriesColumns } from './series.ts';
import type { SymbolOffsets } from './tick-columns.ts';

/*
 * The columns of candles that come from quotes and trades. Candles of a longer interval do not follow from those of a
 * shorter one: an hour without ticks has no candle, but its quotes and trades count for the day.
 */

/**
 * The series that the candles of a part are computed from, of the same UTC day as its ticks. Rows of a symbol are
 * sorted by t. Several may have the same t.
 */
export interface CandleSeries {
  /** Values: bid, ask, and others. */
  readonly quotes?: SeriesColumns | undefined;
  /** Values: price, size, and others. */
  readonly trades?: SeriesColumns | undefined;
}

/** One number for each candle; NaN, which files store as null, if there is none. */
export interface CandleSeriesColumns {
  /**
   * The sides of the last quote of the UTC day before the end of the interval. No quote is carried over midnight, so
   * that a file of candles depends only on files of its own day.
   */
  readonly bid: Float64Array;
  readonly ask: Float64Array;
  /** Sum of the sizes of the trades in the interval. */
  readonly volume: Float64Array;
  /** Number of trades in the interval, at least 1. */
  readonly trades: Float64Array;
  /** Sum of price times size divided by the volume; none if the volume is 0. */
  readonly vwap: Float64Array;
}

/** @param candles the starts of the candles of each symbol, ascending, all of the UTC day of the series */
export function computeCandleSeriesColumns(
  candles: SymbolOffsets & { readonly t: Float64Array },
  intervalMs: number,
  { quotes, trades }: CandleSeries,
): CandleSeriesColumns {
  const missing = (): Float64Array => new Float64Array(candles.t.length).fill(Number.NaN);
  const out = { bid: missing(), ask: missing(), volume: missing(), trades: missing(), vwap: missing() };
  if (quotes !== undefined) fillQuotes(out, candles, intervalMs, quotes);
  if (trades !== undefined) fillTrades(out, candles, intervalMs, trades);
  return out;
}

function fillQuotes(
  out: Pick<CandleSeriesColumns, 'bid' | 'ask'>,
  candles: SymbolOffsets & { readonly t: Float64Array },
  intervalMs: number,
  quotes: SeriesColumns,
): void {
  const [bid, ask] = [quotes.values[0]!, quotes.values[1]!];
  for (const { first, end, from, to } of pairSymbols(candles, quotes)) {
    let next = from;
    for (let row = first; row < end; row++) {
      next = seek(quotes.t, next, to, candles.t[row]! + intervalMs);
      if (next === from) continue;
      out.bid[row] = bid[next - 1]!;
      out.ask[row] = ask[next - 1]!;
    }
  }
}

function fillTrades(
  out: Pick<CandleSeriesColumns, 'volume' | 'trades' | 'vwap'>,
  candles: SymbolOffsets & { readonly t: Float64Array },
  intervalMs: number,
  trades: SeriesColumns,
): void {
  const [price, size] = [trades.values[0]!, trades.values[1]!];
  for (const { first, end, from, to } of pairSymbols(candles, trades)) {
    let next = from;
    for (let row = first; row < end; row++) {
      const start = seek(trades.t, next, to, candles.t[row]!);
      next = seek(trades.t, start, to, candles.t[row]! + intervalMs);
      if (next === start) continue;
      let volume = 0;
      let value = 0;
      for (let i = start; i < next; i++) {
        volume += size[i]!;
        value += price[i]! * size[i]!;
      }
      out.volume[row] = volume;
      out.trades[row] = next - start;
      if (volume !== 0) out.vwap[row] = value / volume;
    }
  }
}

/** A symbol that has candles, rows `first` to `end`, and rows of a series, `from` to `to`. Ends are exclusive. */
interface SymbolPair {
  readonly first: number;
  readonly end: number;
  readonly from: number;
  readonly to: number;
}

function* pairSymbols(candles: SymbolOffsets, series: SymbolOffsets): Generator<SymbolPair> {
  const indexes = new Map(series.symbols.map((symbol, i) => [symbol, i]));
  for (const [s, symbol] of candles.symbols.entries()) {
    const i = indexes.get(symbol);
    if (i === undefined) continue;
    const [first, end] = [candles.offsets[s]!, candles.offsets[s + 1]!];
    yield { first, end, from: series.offsets[i]!, to: series.offsets[i + 1]! };
  }
}
