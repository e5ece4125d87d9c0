import type { DatasetName } from '../format/datasets.ts';

// The views of order books, quotes and trades.

/** A view or macro over the dataset views. */
export interface ViewDefinition {
  readonly name: string;
  /** The datasets that it reads, directly or through other definitions. */
  readonly needs: readonly DatasetName[];
  /** Definitions that it uses; they precede it. */
  readonly uses: readonly string[];
  /** One CREATE statement for DuckDB, without a semicolon, preceded by a comment. */
  readonly sql: string;
}

/**
 * Largest difference of prices that count as equal. Doubles of decimal prices are inexact: 0.99 - 0.96 is greater than 0.03.
 */
const priceTolerance = '1e-9';

// A join, not a window or a list: the best prices are found first, so that DuckDB keeps a fixed number of values for each
// order book and not its levels. fsum, because the sequence of a parallel sum varies.
const isBidWithin = `b.side = 'bid' AND o.bid - b.price <= o.reach`;
const isAskWithin = `b.side = 'ask' AND b.price - o.ask <= o.reach`;

/** The views and macros of order books, quotes and trades, in order of creation. */
export const marketDataViews: readonly ViewDefinition[] = [
  {
    name: 'book_depth',
    needs: ['orderbooks'],
    uses: [],
    sql: `-- Each order book with the quantity and the number of levels whose price is within a distance of the best price of their
-- side. The distance is inclusive. imbalance is (bid_depth - ask_depth) / (bid_depth + ask_depth), from -1 to 1. bid or ask
-- is NULL if the side is empty, and imbalance if there is no quantity. If symbol, t or date is compared with a constant,
-- only these rows are read:
--   FROM book_depth(0.03) WHERE symbol = 'KXBTC' AND date = '2026-11-19'
CREATE OR REPLACE MACRO book_depth(distance) AS TABLE
SELECT d.symbol, d.t, d.bid, d.ask, d.bid_depth, d.ask_depth, d.bid_levels, d.ask_levels,
       (d.bid_depth - d.ask_depth) / nullif(d.bid_depth + d.ask_depth, 0) AS imbalance, d.date
FROM (
  SELECT b.symbol, b.t, any_value(o.bid) AS bid, any_value(o.ask) AS ask,
         coalesce(fsum(b.quantity) FILTER (WHERE ${isBidWithin}), 0) AS bid_depth,
         coalesce(fsum(b.quantity) FILTER (WHERE ${isAskWithin}), 0) AS ask_depth,
         CAST(count(*) FILTER (WHERE ${isBidWithin}) AS INTEGER) AS bid_levels,
         CAST(count(*) FILTER (WHERE ${isAskWithin}) AS INTEGER) AS ask_levels,
         b.date
  FROM orderbooks AS b
  JOIN (
    SELECT f.symbol, f.t, f.date,
           max(f.price) FILTER (WHERE f.side = 'bid' AND f.level = 0) AS bid,
           max(f.price) FILTER (WHERE f.side = 'ask' AND f.level = 0) AS ask,
           any_value(CASE WHEN CAST(distance AS DOUBLE) >= 0 THEN CAST(distance AS DOUBLE) + ${priceTolerance}
                          ELSE error('a distance is a difference of prices, at least 0') END) AS reach
    FROM orderbooks AS f WHERE f.level <= 0
    GROUP BY f.symbol, f.t, f.date
  ) AS o ON o.symbol = b.symbol AND o.t = b.t AND o.date = b.date
  GROUP BY b.symbol, b.t, b.date
) AS d`,
  },
  {
    name: 'top_of_book',
    needs: ['orderbooks'],
    uses: ['book_depth'],
    sql: `-- The best bid and ask of each order book. bid_quantity and ask_quantity are the whole quantity at the best price. The
-- columns of an empty side are NULL; an empty book is a row without bid and ask. spread is 0 in a locked book and negative
-- in a crossed book.
CREATE OR REPLACE VIEW top_of_book AS
SELECT d.symbol, d.t, d.bid, CASE WHEN d.bid_levels > 0 THEN d.bid_depth END AS bid_quantity,
       d.ask, CASE WHEN d.ask_levels > 0 THEN d.ask_depth END AS ask_quantity,
       (d.bid + d.ask) / 2 AS mid, d.ask - d.bid AS spread, d.imbalance, d.date
FROM book_depth(0) AS d`,
  },
  {
    name: 'spreads',
    needs: ['quotes'],
    uses: [],
    sql: `-- Each quote with its mid price and its spread, which are NULL unless both sides have an offer. spread is 0 in a locked
-- market and negative in a crossed market.
CREATE OR REPLACE VIEW spreads AS
SELECT q.symbol, q.t, q.bid, q.ask, (q.bid + q.ask) / 2 AS mid, q.ask - q.bid AS spread, q.date
FROM quotes AS q`,
  },
  {
    name: 'quotes_with_ticks',
    needs: ['quotes', 'ticks'],
    uses: [],
    sql: `-- Each quote once, with the last tick of its symbol at or before it, however long ago; p and tick_t are NULL if there is
-- none. If symbol is compared with a constant, only its rows are read. date and t select quotes; ticks of all days are read,
-- because the last tick may be of any earlier day:
--   FROM quotes_with_ticks WHERE symbol = 'KXBTC' AND date = '2026-11-19'
CREATE OR REPLACE VIEW quotes_with_ticks AS
SELECT q.symbol, q.t, q.bid, q.ask, q.bid_size, q.ask_size, k.p, k.t AS tick_t, q.date
FROM quotes AS q
ASOF LEFT JOIN ticks AS k ON k.symbol = q.symbol AND q.t >= k.t`,
  },
  {
    name: 'trades_with_quotes',
    needs: ['trades', 'quotes'],
    uses: [],
    sql: `-- Each trade once, with the last quote of its symbol at or before it, however long ago; the columns of the quote are NULL if
-- there is none. If symbol is compared with a constant, only its rows are read. date and t select trades; quotes of all days
-- are read, because the last quote may be of any earlier day:
--   FROM trades_with_quotes WHERE symbol = 'KXBTC' AND date = '2026-11-19'
CREATE OR REPLACE VIEW trades_with_quotes AS
SELECT d.symbol, d.t, d.trade_id, d.price, d.size, d.aggressor, d.block, d.seq,
       q.bid, q.ask, q.bid_size, q.ask_size, q.t AS quote_t, d.date
FROM trades AS d
ASOF LEFT JOIN quotes AS q ON q.symbol = d.symbol AND d.t >= q.t`,
  },
  {
    name: 'order_flow',
    needs: ['trades'],
    uses: [],
    sql: `-- Trades by minute; t is its start. buy_volume and sell_volume are the sizes of the trades whose aggressor is known,
-- net_volume is their difference, volume is that of all. Trades agreed outside the order book (block) are left out.
CREATE OR REPLACE VIEW order_flow AS
SELECT f.symbol, f.t, f.trades, f.volume, f.buy_volume, f.sell_volume, f.buy_volume - f.sell_volume AS net_volume,
       f.turnover / f.volume AS vwap, f.date
FROM (
  SELECT d.symbol, make_timestamptz(epoch_us(d.t) // 60000000 * 60000000) AS t, CAST(count(*) AS INTEGER) AS trades,
         fsum(d.size) AS volume, fsum(d.price * d.size) AS turnover,
         coalesce(fsum(d.size) FILTER (WHERE d.aggressor = 'buy'), 0) AS buy_volume,
         coalesce(fsum(d.size) FILTER (WHERE d.aggressor = 'sell'), 0) AS sell_volume, d.date
  FROM trades AS d WHERE d.block IS NOT TRUE
  GROUP BY d.symbol, make_timestamptz(epoch_us(d.t) // 60000000 * 60000000), d.date
) AS f`,
  },
];
