/** Levels of one side of an order book, best first; columns of equal length. */
export interface BookSide {
  readonly prices: Float64Array;
  readonly quantities: Float64Array;
}

/** The order book of a symbol at one moment, `t` in epoch milliseconds; empty where neither side has a level. */
export interface OrderBookSnapshot {
  readonly t: number;
  readonly bids: BookSide;
  readonly asks: BookSide;
}

export interface PriceLevel {
  readonly price: number;
  readonly quantity: number;
}

/**
 * Levels in any order as a side: best price first, the greater quantity first among those of one price. Levels of one
 * price are kept apart: a venue that lists single orders is not summed up, and no order of adding can show.
 */
export function toBookSide(levels: readonly PriceLevel[], best: 'highest' | 'lowest'): BookSide {
  const sign = best === 'highest' ? -1 : 1;
  const sorted = [...levels].sort((a, b) => sign * (a.price - b.price) || b.quantity - a.quantity);
  return {
    // -0 is 0, as in ticks.
    prices: Float64Array.from(sorted, ({ price }) => price + 0),
    quantities: Float64Array.from(sorted, ({ quantity }) => quantity + 0),
  };
}

export const countLevels = ({ bids, asks }: OrderBookSnapshot): number => bids.prices.length + asks.prices.length;

/** Orders snapshots of one moment by what is in them; 0 where they are the same. */
export function compareSnapshots(a: OrderBookSnapshot, b: OrderBookSnapshot): number {
  return (
    compareColumns(a.bids.prices, b.bids.prices) ||
    compareColumns(a.bids.quantities, b.bids.quantities) ||
    compareColumns(a.asks.prices, b.asks.prices) ||
    compareColumns(a.asks.quantities, b.asks.quantities)
  );
}

function compareColumns(a: Float64Array, b: Float64Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}
