import { expect, test } from 'vitest';
import type { OrderBook } from '../../src/backtest/engine/series.ts';
import {
  buyAtTick,
  buyFromBook,
  createTradingCosts,
  sellAtTick,
  sellToBook,
} from '../../src/backtest/engine/simulate.ts';
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
const costs = (rest: object = {}) => createTradingCosts(ruled({}, rest));

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
  expect(buyAtTick('yes', 0.25, { dollars: 10 }, costs())).toEqual({ contracts: 40, contractPrice: 0.25 });
  expect(buyAtTick('no', 0.75, { dollars: 10 }, costs())).toEqual({ contracts: 40, contractPrice: 0.25 });
});

test('an order in dollars buys nothing at price 0, and is bounded at tiny prices', () => {
  expect(buyAtTick('yes', 0, { dollars: 10 }, costs())).toEqual({ contracts: 0, contractPrice: 0 });
  expect(buyAtTick('yes', 0, { contracts: 10 }, costs())).toEqual({ contracts: 10, contractPrice: 0 });
  expect(buyAtTick('yes', 1e-300, { dollars: 10 }, costs()).contracts).toBe(1e9);
  const free: OrderBook = { ...book, asks: [[0, 3], ...book.asks] };
  expect(buyFromBook('yes', free, { dollars: 1 })).toEqual({ contracts: 2, contractPrice: 0.5 });
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
  const slow = costs({ slippage: 0.25 });
  expect(buyAtTick('yes', 0.5, { contracts: 1 }, slow).contractPrice).toBe(0.75);
  expect(buyAtTick('no', 0.5, { contracts: 1 }, slow).contractPrice).toBe(0.75);
  expect(buyAtTick('yes', 0.9, { contracts: 1 }, slow).contractPrice).toBe(1);
  expect(sellAtTick('yes', 0.5, 1, slow).contractPrice).toBe(0.25);
  expect(sellAtTick('no', 0.9, 1, slow).contractPrice).toBe(0);
});

test('computes flat, notional and variance fees per contract', () => {
  const fees = { per_contract: 0.01, of_notional: 0.1, of_variance: 0.07 };
  expect(costs({ fees }).computeFee(0.4)).toBeCloseTo(0.01 + 0.04 + 0.07 * 0.24, 15);
  expect(costs().computeFee(0.4)).toBe(0);
  const named = { parameters: { fee: 0.02 }, fees: { per_contract: { parameter: 'fee', times: 2 } } };
  expect(costs(named).computeFee(0.4)).toBe(0.04);
});
