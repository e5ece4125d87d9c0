import { dayMs, minuteMs } from '../../base/window.ts';
import type { FillBasis } from '../../contract/trade-fields.ts';
import type { OrderBook, SymbolSeries } from './symbol-series.ts';

/** Maximum age of an order book for a fill. */
export const bookAgeMsMax = 5 * minuteMs;

/**
 * Maximum age of a quote for a fill. A feed of quotes sends a row only when the best bid or ask changes, so a quote is in
 * force until the next one, which takes hours in a quiet market. An older quote is more likely to be the last one before an
 * interruption of the feed.
 */
export const quoteAgeMsMax = dayMs;

/** The side of a book that an order takes. */
export type TakenSide = 'bids' | 'asks';

/** The order book or quote that fills an order. A quote is an order book of at most one level per side. */
interface BookInForce {
  readonly book: OrderBook;
  readonly basis: Exclude<FillBasis, 'tick'>;
}

/**
 * Finds the order book or quote at a tick, for the orders of one rule and for ascending ticks.
 * An order book is used by one order. A quote is used by one order per side, because its sides are independent, and by any
 * number of orders if the size of the side is unknown.
 */
export function createBookLookup({ t, books, quotes }: SymbolSeries) {
  let [nextBook, nextQuote] = [books.at(0), quotes.at(0)];
  let [booksSeen, quotesSeen] = [0, 0];
  let latest: BookInForce | null = null;
  let used = { bids: false, asks: false };

  function advance(now: number): void {
    for (;;) {
      // At equal times the order book is the later one, because it has more levels.
      const isQuote = nextQuote !== undefined && (nextBook === undefined || nextQuote.t <= nextBook.t);
      const next = isQuote ? nextQuote : nextBook;
      if (next === undefined || next.t > now) return;
      latest = { book: next, basis: isQuote ? 'quote' : 'book' };
      used = { bids: false, asks: false };
      if (isQuote) nextQuote = quotes.at(++quotesSeen);
      else nextBook = books.at(++booksSeen);
    }
  }

  return {
    /**
     * The latest order book or quote at or before a tick. Null if there is none, or if it is too old; 'used' if an order of the
     * rule already took what it offers.
     */
    find(tick: number, takes: TakenSide): BookInForce | 'used' | null {
      advance(t[tick]!);
      if (latest === null) return null;
      const ageMsMax = latest.basis === 'book' ? bookAgeMsMax : quoteAgeMsMax;
      if (latest.book.t < t[tick]! - ageMsMax) return null;
      return used[takes] ? 'used' : latest;
    },
    /** Records that an order was filled from what `find` returned. */
    use(takes: TakenSide): void {
      if (latest === null) return;
      if (latest.basis === 'book') used = { bids: true, asks: true };
      else if (latest.book[takes].every(([, quantity]) => Number.isFinite(quantity))) used[takes] = true;
    },
  };
}
