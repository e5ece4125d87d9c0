import type { Window } from '../../base/window.ts';

/**
 * Data of one symbol, in time order. A decision uses only data from its time or earlier; the outcome is used only for
 * the settlement.
 */
export interface SymbolSeries {
  readonly symbol: string;
  /** Times of the ticks, epoch ms, strictly ascending. May start before the run, for lookback. */
  readonly t: Float64Array;
  /** Prices of the ticks. */
  readonly p: Float64Array;
  /** Market states, sorted by `from`. */
  readonly states: readonly MarketState[];
  /** Order books, sorted by `t`. */
  readonly books: OrderBookSeries;
  /** Quotes as order books of at most one level per side, sorted by `t`. The quantity of an unknown size is infinite. */
  readonly quotes: OrderBookSeries;
  readonly settlement: Settlement | null;
  readonly otherVenues: readonly Venue[];
}

/** The same market on another venue, and the windows in which the match was known. */
export interface Venue extends Pick<SymbolSeries, 't' | 'p'> {
  /** Sorted and disjoint, epoch milliseconds. */
  readonly sharedWindows: readonly Window[];
}

/** Market data known from `from` until the next state. Null: unknown. */
export interface MarketState {
  /** Epoch milliseconds. */
  readonly from: number;
  readonly category: string | null;
  readonly confidence: number | null;
  /** Epoch milliseconds. */
  readonly closesAt: number | null;
}

/** Snapshot of an order book, best levels first. Prices of yes, quantities in contracts. */
export interface OrderBook {
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
}

/** A list of order books, which may be created on access. */
export type OrderBookSeries = Pick<readonly OrderBook[], 'length' | 'at'>;

export type Level = readonly [price: number, quantity: number];

export interface Settlement {
  /** Epoch ms. No trades at or after this time. */
  readonly at: number;
  /** Payout of a yes contract, 0 to 1. */
  readonly outcome: number;
}
