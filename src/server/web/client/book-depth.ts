import type { Static } from 'typebox';
import type { HistoricalOrderbooksResponse, HistoricalQuotesResponse } from '../../../contract/historical-series.ts';

/** A snapshot of an order book; sides are sorted best first. */
export type Book = Omit<Static<typeof HistoricalOrderbooksResponse>['orderbooks'][number], 'symbol'>;

/** Best prices at a time; null where a side has no offer. */
export type BestPrices = Pick<Static<typeof HistoricalQuotesResponse>['quotes'][number], 't' | 'bid' | 'ask'>;

/** Columns of a depth chart: cumulated quantities by ascending price. */
interface DepthColumns {
  readonly x: number[];
  readonly bids: (number | null)[];
  readonly asks: (number | null)[];
}

/** Cumulates both sides of an order book from the best price outwards. */
export function cumulateDepth({ bids, asks }: Pick<Book, 'bids' | 'asks'>): DepthColumns {
  const cumulate = (levels: Book['bids']): [number, number][] => {
    let sum = 0;
    return levels.map(({ price, quantity }) => {
      sum += quantity;
      return [price, sum];
    });
  };
  const below = cumulate(bids).reverse();
  const above = cumulate(asks);
  return {
    x: [...below, ...above].map(([price]) => price),
    bids: [...below.map(([, sum]) => sum), ...above.map(() => null)],
    asks: [...below.map(() => null), ...above.map(([, sum]) => sum)],
  };
}

const sumQuantity = (levels: Book['bids']): number => levels.reduce((sum, { quantity }) => sum + quantity, 0);

/** The quantity that each snapshot offers on either side. */
export const computeDepths = (books: readonly Book[]): { t: number; bids: number; asks: number }[] =>
  books.map(({ t, bids, asks }) => ({ t, bids: sumQuantity(bids), asks: sumQuantity(asks) }));

export const toBestPrices = (books: readonly Book[]): BestPrices[] =>
  books.map(({ t, bids, asks }) => ({ t, bid: bids[0]?.price ?? null, ask: asks[0]?.price ?? null }));

/** Ask minus bid, without the rounding error of the subtraction; null if a side has no offer. */
export const computeSpread = ({ bid, ask }: BestPrices): number | null =>
  bid === null || ask === null ? null : Number((ask - bid).toFixed(10));
