import { Type } from 'typebox';

/** The order book as our service gives it; the interface leaves its shape open. */

export const OrderbookQuery = Type.Object(
  { symbol: Type.String({ minLength: 1, maxLength: 1000, description: 'Market symbol.' }) },
  { additionalProperties: false },
);

export const BookLevel = Type.Object({
  price: Type.Number({ description: 'Price, a fraction between 0 and 1.' }),
  quantity: Type.Number({ description: 'Quantity at that price, as the venue counts.' }),
});

export const OrderbookResponse = Type.Object({
  symbol: Type.String({ description: 'Echo of the requested symbol.' }),
  t: Type.Integer({ description: 'Time of the snapshot, epoch milliseconds UTC.' }),
  bids: Type.Array(BookLevel, { description: 'Best first; empty where nobody bids.' }),
  asks: Type.Array(BookLevel, { description: 'Best first; empty where nobody asks.' }),
  generated_at: Type.Integer({
    description:
      'When the upstream was last asked and answered with a snapshot, epoch milliseconds UTC: the book was known to be so then.',
  }),
});
