import type { Window } from '../../base/window.ts';

/**
 * All that a run knows of one symbol, in the order of time. A decision at a moment may use what is of that moment or
 * before it; the outcome is known to settlements alone.
 */
export interface SymbolSeries {
  readonly symbol: string;
  /** Times of its ticks, epoch milliseconds, ascending, none twice. Some may be from before the run, to look back on. */
  readonly t: Float64Array;
  /** Their prices. */
  readonly p: Float64Array;
  /** States of its market, by `from`. */
  readonly states: readonly MarketState[];
  /** Its order books, by `t`. */
  readonly books: OrderBookSeries;
  readonly settlement: Settlement | null;
  readonly otherVenues: readonly Venue[];
}

/** Another venue, and when it was known that it has the same market. */
export interface Venue extends Pick<SymbolSeries, 't' | 'p'> {
  /** Sorted and disjoint, epoch milliseconds. */
  readonly sharedWindows: readonly Window[];
}

/** What was known of a market from a moment on, until the next one. Null: not known. */
export interface MarketState {
  /** Epoch milliseconds. */
  readonly from: number;
  readonly category: string | null;
  readonly confidence: number | null;
  /** Epoch milliseconds. */
  readonly closesAt: number | null;
}

/** A snapshot of an order book, best prices first; prices of yes, quantities in contracts. */
export interface OrderBook {
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
}

/** Order books one after another; one that is made of what is kept elsewhere is made when it is asked for. */
export type OrderBookSeries = Pick<readonly OrderBook[], 'length' | 'at'>;

export type Level = readonly [price: number, quantity: number];

export interface Settlement {
  /** Epoch milliseconds: from then on nothing is traded. */
  readonly at: number;
  /** What a contract of yes pays: 1, 0, or between. */
  readonly outcome: number;
}

/** How many numbers of a sorted list are less than `x`. */
export function countBelow(sorted: Float64Array, x: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low;
}
