import { Type } from 'typebox';
import { nullable, titled } from './export-manifest.ts';
import { Ms, Price, pageFields } from './historical.ts';
import { BookLevel } from './service.ts';

/* Responses of the historical routes with order books, quotes, trades and conflicts. */

const Us = (description: string) => nullable(Type.Integer(), `${description}, epoch microseconds UTC; null: unknown.`);
const times = {
  event_at: Us("The venue's time, as precise as stated"),
  received_at: Us('When the recorder received it'),
};

const Levels = (description: string) => Type.Array(BookLevel, { description });

export const HistoricalOrderbooksResponse = titled('HistoricalOrderBooksResponse', {
  orderbooks: Type.Array(
    titled('OrderBookSnapshot', {
      symbol: Type.String({ description: 'Symbol of the market.' }),
      t: Ms('Time of the snapshot'),
      bids: Levels('Best first.'),
      asks: Levels('Best first.'),
    }),
    {
      description:
        'Complete snapshots, sorted by symbol and t. A page of very large snapshots may have fewer rows than limit.',
    },
  ),
  ...pageFields,
});

export const HistoricalQuotesResponse = titled('HistoricalQuotesResponse', {
  quotes: Type.Array(
    titled('Quote', {
      symbol: Type.String({ description: 'Symbol of the market.' }),
      t: Ms('Time of the quote'),
      bid: nullable(Type.Number(), 'Highest price at which somebody offers to buy; null: nobody does.'),
      ask: nullable(Type.Number(), 'Lowest price at which somebody offers to sell; null: nobody does.'),
      bid_size: nullable(Type.Number(), 'Quantity offered at the bid, in units of the venue; null: unknown.'),
      ask_size: nullable(Type.Number(), 'Quantity offered at the ask, in units of the venue; null: unknown.'),
      ...times,
    }),
    { description: 'Published quotes, sorted by symbol and t.' },
  ),
  ...pageFields,
});

export const HistoricalTradesResponse = titled('HistoricalTradesResponse', {
  trades: Type.Array(
    titled('Trade', {
      symbol: Type.String({ description: 'Symbol of the market.' }),
      t: Ms('Time of the trade'),
      trade_id: Type.String({
        description:
          'Identifier of the trade, unique among the trades of its symbol and UTC day. One that starts with = was made from the content of the trade.',
      }),
      price: Price('Price.'),
      size: Type.Number({ description: 'Quantity traded, in units of the venue.' }),
      aggressor: nullable(Type.String(), 'Side that took the offer, buy or sell; null: unknown.'),
      block: nullable(Type.Boolean(), 'Whether the trade was agreed outside the order book; null: unknown.'),
      tx_hash: nullable(Type.String(), 'Hash of the transaction that settled the trade; null: none is known.'),
      seq: Type.Integer({
        minimum: 0,
        description:
          'Position among the trades of the same symbol and t, from 0. Changes if other trades of that time are published later; trade_id does not.',
      }),
      price_text: nullable(Type.String(), 'The price as it arrived, if price is not exact; null: price is exact.'),
      size_text: nullable(Type.String(), 'The size as it arrived, if size is not exact; null: size is exact.'),
      ...times,
    }),
    {
      description:
        'Published trades, sorted by symbol, t and seq: trades of one time by the length of trade_id in bytes, then by its bytes.',
    },
  ),
  ...pageFields,
});

export const HistoricalConflictsResponse = titled('HistoricalConflictsResponse', {
  conflicts: Type.Array(
    titled('Conflict', {
      symbol: Type.String({ description: 'Symbol of the market.' }),
      t: Ms('Time of the tick'),
      kept: Price('The price that was kept.'),
      dropped: Price('The price that was dropped.'),
      seen_at: Ms('When the other price was observed'),
      seq: Type.Integer({
        minimum: 0,
        description: 'From 0, among the dropped prices of the same symbol, t and seen_at.',
      }),
    }),
    {
      description:
        'Prices that were dropped because another price of the same symbol and time has precedence, sorted by symbol, t, seen_at and seq. A page has all conflicts of a symbol and time, so that it may have more rows than limit.',
    },
  ),
  ...pageFields,
});
