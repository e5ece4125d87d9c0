import { expect, test } from 'vitest';
import {
  buyAtTick as buyAtTickOn,
  buyFromBook as buyFromBookOn,
  createTradingTerms,
  isBelowOneContract,
  type OrderSize,
  sellAtTick as sellAtTickOn,
  sellToBook as sellToBookOn,
} from '../../src/backtest/engine/fills.ts';
import type { OrderBook } from '../../src/backtest/engine/symbol-series.ts';
import type { Side } from '../../src/contract/strategy-language.ts';
import { ruled } from './series.ts';

const book: OrderBook = {
  t: 0,
  bids: [
    [0.4, 10],
    [0.3, 5],
  ],
  asks: [
    [0.5, 2],
    [0.6, 4],
    [0.9, 100],
  ],
};
/** Equality up to rounding. */
const near = (value: number): number => expect.closeTo(value, 12) as number;
const terms = (rest: object = {}) => createTradingTerms(ruled({}, rest));
const [plain, whole] = [terms(), terms({ whole_contracts: true })];

/** A fill without its levels. */
const total = ({ contracts, contractPrice }: { contracts: number; contractPrice: number }) => ({
  contracts,
  contractPrice,
});
const buyAtTick = (side: Side, price: number, size: OrderSize, on = plain) => total(buyAtTickOn(side, price, size, on));
const sellAtTick = (side: Side, price: number, contracts: number, on = plain) =>
  total(sellAtTickOn(side, price, contracts, on));
const buyFromBook = (side: Side, from: OrderBook, size: OrderSize, on = plain) =>
  total(buyFromBookOn(side, from, size, on));
const sellToBook = (side: Side, to: OrderBook, contracts: number, on = plain) =>
  total(sellToBookOn(side, to, contracts, on));

test('buying yes takes the asks, cheapest first', () => {
  expect(buyFromBook('yes', book, { contracts: 2 })).toEqual({ contracts: 2, contractPrice: 0.5 });
  expect(buyFromBook('yes', book, { contracts: 7 })).toEqual({
    contracts: 7,
    contractPrice: near((2 * 0.5 + 4 * 0.6 + 0.9) / 7),
  });
  // At most the contracts in the book.
  expect(buyFromBook('yes', book, { contracts: 1000 }).contracts).toBe(106);
});

test('buying no takes the bids for yes at one minus their price', () => {
  expect(buyFromBook('no', book, { contracts: 12 })).toEqual({
    contracts: 12,
    contractPrice: near((10 * 0.6 + 2 * 0.7) / 12),
  });
});

test('selling yes takes the bids, selling no the asks', () => {
  expect(sellToBook('yes', book, 12)).toEqual({ contracts: 12, contractPrice: near((10 * 0.4 + 2 * 0.3) / 12) });
  expect(sellToBook('no', book, 3)).toEqual({ contracts: 3, contractPrice: near((2 * 0.5 + 0.4) / 3) });
  expect(sellToBook('yes', book, 20).contracts).toBe(15);
});

test('an order in dollars takes each level at its price', () => {
  // One dollar buys the first two, 0.6 one more.
  const { contracts, contractPrice } = buyFromBook('yes', book, { dollars: 1.6 });
  expect(contracts).toBeCloseTo(3, 12);
  expect(contractPrice * contracts).toBeCloseTo(1.6, 12);
  expect(buyAtTick('yes', 0.25, { dollars: 10 })).toEqual({ contracts: 40, contractPrice: 0.25 });
  expect(buyAtTick('no', 0.75, { dollars: 10 })).toEqual({ contracts: 40, contractPrice: 0.25 });
});

test('an order in dollars buys nothing at price 0, and is bounded at tiny prices', () => {
  expect(buyAtTick('yes', 0, { dollars: 10 })).toEqual({ contracts: 0, contractPrice: 0 });
  expect(buyAtTick('yes', 0, { contracts: 10 })).toEqual({ contracts: 10, contractPrice: 0 });
  expect(buyAtTick('yes', 1e-300, { dollars: 10 }).contracts).toBe(1e9);
  const free: OrderBook = { ...book, asks: [[0, 3], ...book.asks] };
  for (const on of [plain, whole])
    expect(buyFromBook('yes', free, { dollars: 1 }, on)).toEqual({ contracts: 2, contractPrice: 0.5 });
  // Rounded down to two contracts, which are not taken where they are free.
  expect(buyFromBook('yes', free, { dollars: 1.3 }, whole)).toEqual({ contracts: 2, contractPrice: 0.5 });
  expect(buyFromBook('yes', free, { contracts: 6 })).toEqual({
    contracts: 6,
    contractPrice: near((2 * 0.5 + 0.6) / 6),
  });
});

test('fills the exact number of contracts without a rounding remainder', () => {
  const tenths: OrderBook = { t: 0, bids: Array.from({ length: 9 }, () => [0.5, 0.1] as const), asks: [] };
  expect(sellToBook('yes', tenths, 0.3).contracts).toBe(0.3);
  expect(sellToBook('yes', tenths, 0.7).contracts).toBe(0.7);
});

test('skips levels with invalid prices', () => {
  const odd: OrderBook = {
    t: 0,
    bids: [],
    asks: [
      [-0.1, 5],
      [1.1, 5],
      [0.5, 0],
      [0.5, -3],
      [Number.NaN, 5],
      [0.7, 5],
    ],
  };
  expect(buyFromBook('yes', odd, { contracts: 1 })).toEqual({ contracts: 1, contractPrice: 0.7 });
  expect(buyFromBook('no', odd, { contracts: 1 })).toEqual({ contracts: 0, contractPrice: 0 });
});

test('applies slippage to both sides, within prices from 0 to 1', () => {
  const slow = terms({ slippage: 0.25 });
  expect(buyAtTick('yes', 0.5, { contracts: 1 }, slow).contractPrice).toBe(0.75);
  expect(buyAtTick('no', 0.5, { contracts: 1 }, slow).contractPrice).toBe(0.75);
  expect(buyAtTick('yes', 0.9, { contracts: 1 }, slow).contractPrice).toBe(1);
  expect(sellAtTick('yes', 0.5, 1, slow).contractPrice).toBe(0.25);
  expect(sellAtTick('no', 0.9, 1, slow).contractPrice).toBe(0);
});

test('lists the levels of a fill, whose fees are computed at their own prices', () => {
  expect(buyFromBookOn('yes', book, { contracts: 3 }, plain).levels).toEqual([
    { contracts: 2, contractPrice: 0.5 },
    { contracts: 1, contractPrice: 0.6 },
  ]);
  expect(buyAtTickOn('yes', 0.25, { contracts: 3 }, plain).levels).toEqual([{ contracts: 3, contractPrice: 0.25 }]);
});

test('rounds down to whole contracts', () => {
  expect(buyAtTick('yes', 0.3, { dollars: 1 }, whole)).toEqual({ contracts: 3, contractPrice: 0.3 });
  // 0.3 / 0.1 is 2.9999999999999996.
  expect(buyAtTick('yes', 0.1, { dollars: 0.3 }, whole).contracts).toBe(3);
  expect(buyAtTick('yes', 0.9, { dollars: 0.8 }, whole).contracts).toBe(0);
  const thin: OrderBook = {
    t: 0,
    bids: [[0.4, 1.5]],
    asks: [
      [0.5, 1.5],
      [0.6, 1.4],
    ],
  };
  expect(buyFromBook('yes', thin, { contracts: 10 }, whole)).toEqual({ contracts: 2, contractPrice: near(1.05 / 2) });
  expect(buyFromBook('yes', thin, { contracts: 10 })).toEqual({ contracts: 2.9, contractPrice: near(1.59 / 2.9) });
  expect(buyFromBook('yes', thin, { dollars: 1.2 }, whole)).toEqual({ contracts: 2, contractPrice: near(1.05 / 2) });
  expect(sellToBook('yes', thin, 3, whole)).toEqual({ contracts: 1, contractPrice: 0.4 });
  const parts: OrderBook = { t: 0, bids: [], asks: Array.from({ length: 30 }, () => [0.5, 0.1] as const) };
  // The sum of thirty tenths is not exactly 3.
  expect(buyFromBook('yes', parts, { contracts: 5 }, whole)).toEqual({ contracts: 3, contractPrice: 0.5 });
  const dust: OrderBook = { t: 0, bids: [[0.4, 0.9]], asks: [] };
  expect(sellToBook('yes', dust, 3, whole)).toEqual({ contracts: 0, contractPrice: 0 });
});

test('an order of less than one whole contract is not placed', () => {
  const isBelow = (price: number, from: OrderBook | null, dollars: number, on = whole) =>
    isBelowOneContract('yes', price, from, { dollars }, on);
  expect([isBelow(0.5, null, 0.4), isBelow(0.5, null, 0.5), isBelow(0.5, null, 0.4, plain)]).toEqual([
    true,
    false,
    false,
  ]);
  // At the best price of the book, not at that of the tick.
  expect([isBelow(0.1, book, 0.4), isBelow(0.9, book, 0.5)]).toEqual([true, false]);
  // A book without usable levels fills nothing, and the order waits.
  expect(isBelow(0.5, { t: 0, bids: [], asks: [[1.2, 5]] }, 0.4)).toBe(false);
  expect(isBelowOneContract('no', 0.7, null, { dollars: 0.2 }, whole)).toBe(true);
});
