import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFeeModel, type Fill, type OrderAction } from '../../src/backtest/engine/fees.ts';
import { checkProperty } from '../harness/properties.ts';
import { ruled } from './series.ts';

const modelOf = (fees: object, parameters: object = {}) => createFeeModel(ruled({}, { fees, parameters }));

/** An order that was filled at these levels. */
function fillOf(...levels: readonly (readonly [contracts: number, contractPrice: number])[]): Fill {
  const contracts = levels.reduce((sum, [count]) => sum + count, 0);
  const contractPrice = levels.reduce((sum, [count, price]) => sum + count * price, 0) / contracts;
  return {
    contracts,
    contractPrice,
    levels: levels.map(([contracts, contractPrice]) => ({ contracts, contractPrice })),
  };
}

test('per contract, fees add up at the mean price and are not rounded', () => {
  const { computeFee } = modelOf({ per_contract: 0.01, of_notional: 0.1, of_variance: 0.07 });
  expect(computeFee(fillOf([3, 0.4]), 'buy')).toBeCloseTo(3 * (0.01 + 0.04 + 0.07 * 0.24), 15);
  expect(modelOf({}).computeFee(fillOf([3, 0.4]), 'buy')).toBe(0);
  const named = modelOf({ per_contract: { parameter: 'fee', times: 2 } }, { fee: 0.02 });
  expect(named.computeFee(fillOf([1, 0.4]), 'sell')).toBe(0.04);
});

test('Kalshi charges the fees of its published table', () => {
  // Columns of the General Trading Fees Table: price, fee of 1 and of 100 contracts; and the maker fee of 100.
  const table = [
    [0.01, 0.01, 0.07, 0.02],
    [0.05, 0.01, 0.34, 0.09],
    [0.1, 0.01, 0.63, 0.16],
    [0.25, 0.02, 1.32, 0.33],
    [0.4, 0.02, 1.68, 0.42],
    [0.5, 0.02, 1.75, 0.44],
    [0.6, 0.02, 1.68, 0.42],
    [0.75, 0.02, 1.32, 0.33],
    [0.95, 0.01, 0.34, 0.09],
    [0.99, 0.01, 0.07, 0.02],
  ] as const;
  const [taker, maker] = [modelOf({ schedule: 'kalshi' }), modelOf({ schedule: 'kalshi', liquidity: 'maker' })];
  for (const [price, one, hundred, made] of table)
    for (const action of ['buy', 'sell'] as const)
      expect([
        price,
        taker.computeFee(fillOf([1, price]), action),
        taker.computeFee(fillOf([100, price]), action),
        maker.computeFee(fillOf([100, price]), action),
      ]).toEqual([price, one, hundred, made]);
  // As a product of doubles, 1.6800000000000002, which would be rounded up to 1.69.
  expect(0.07 * 100 * 0.6 * 0.4).toBeGreaterThan(1.68);
  // A price of no is computed: 1 - 0.93 is 0.06999999999999995.
  expect(taker.computeFee(fillOf([1000, 1 - 0.93]), 'buy')).toBe(4.56);
  expect(taker.computeFee(fillOf([100, 0]), 'buy')).toBe(0);
  expect(taker.computeFee(fillOf([100, 1]), 'sell')).toBe(0);
});

test('Kalshi aligns the balance, as in the example of its documentation', () => {
  const buy = fillOf([1, 0.055]);
  // The model fee is 0.00363825; with the price of 0.055, the balance changes by 0.06.
  expect(modelOf({ schedule: 'kalshi' }).computeFee(buy, 'buy')).toBe(0.005);
  expect(modelOf({ schedule: 'kalshi' }).computeFee(buy, 'sell')).toBe(0.005);
  expect(modelOf({ schedule: 'kalshi', rounding: 'centicent' }).computeFee(buy, 'buy')).toBe(0.0037);
  // Three fills of one contract would each round up to a cent; the order pays as for one fill.
  expect(modelOf({ schedule: 'kalshi' }).computeFee(fillOf([1, 0.05], [1, 0.05], [1, 0.05]), 'buy')).toBe(0.01);
});

const kalshiRates = { taker: 700n, maker: 175n } as const;

/** Rounds up a fraction of non-negative integers. */
const ceilDiv = (n: bigint, d: bigint): bigint => (n + d - 1n) / d;

const cents = fc.integer({ min: 0, max: 100 });

test('Kalshi rounds whole contracts at prices in cents up to the next cent', () => {
  checkProperty([fc.integer({ min: 1, max: 1_000_000_000 }), cents, fc.boolean()], 2000, (contracts, price, isNo) => {
    const { computeFee } = modelOf({ schedule: 'kalshi' });
    const expected = ceilDiv(7n * BigInt(contracts) * BigInt(price) * BigInt(100 - price), 10_000n);
    // The same price, with and without the error of a difference.
    const fill = fillOf([contracts, isNo ? 1 - (100 - price) / 100 : price / 100]);
    for (const action of ['buy', 'sell'] as const) expect(computeFee(fill, action)).toBe(Number(`${expected}e-2`));
  });
});

/** Levels in hundredths of a contract and ten-thousandths of a dollar, the finest that the venues have. */
const levels = fc.array(fc.tuple(fc.integer({ min: 1, max: 5_000_000 }), fc.integer({ min: 0, max: 10_000 })), {
  minLength: 1,
  maxLength: 5,
});
type Levels = readonly (readonly [hundredths: number, price: number])[];
const toFill = (all: Levels): Fill => fillOf(...all.map(([count, price]) => [count / 100, price / 10_000] as const));

test('Kalshi charges the smallest fee that aligns the balance', () => {
  checkProperty(
    [
      levels,
      fc.constantFrom('buy', 'sell'),
      fc.constantFrom('taker', 'maker'),
      fc.constantFrom('cent', 'centicent'),
      fc.constantFrom(0, 50, 100, 200),
    ],
    1000,
    (all, action, liquidity, rounding, percent) => {
      const fees = { schedule: 'kalshi', liquidity, rounding, multiplier: percent / 100 };
      const fee = modelOf(fees).computeFee(toFill(all), action as OrderAction);
      // In millionths of a dollar, found by trying one after the other.
      const variance = all.reduce((sum, [c, p]) => sum + BigInt(c) * BigInt(p) * BigInt(10_000 - p), 0n);
      const [notional, step] = [all.reduce((sum, [c, p]) => sum + BigInt(c) * BigInt(p), 0n), 10_000n];
      let expected = ceilDiv(kalshiRates[liquidity] * BigInt(percent) * variance, 10n ** 10n);
      const aligned = rounding === 'cent' ? step : step / 100n;
      while ((action === 'buy' ? notional + expected : notional - expected) % aligned !== 0n) expected++;
      expect(fee).toBe(Number(`${expected}e-6`));
    },
  );
});

test('Polymarket charges the fees of its published tables', () => {
  // 100 shares at these prices, by rate.
  const table = [
    [0.07, 0.05, 0.3325],
    [0.07, 0.5, 1.75],
    [0.05, 0.25, 0.9375],
    [0.04, 0.9, 0.36],
    [0, 0.5, 0],
  ] as const;
  for (const [rate, price, fee] of table)
    expect(modelOf({ schedule: 'polymarket', rate }).computeFee(fillOf([100, price]), 'buy')).toBe(fee);
  const { computeFee } = modelOf({ schedule: 'polymarket', rate: 0.05 });
  // 0.0000095 and 0.0000190: smaller than a step, and in part.
  expect(computeFee(fillOf([0.01, 0.0194]), 'buy')).toBe(0);
  expect(computeFee(fillOf([0.01, 0.0396]), 'buy')).toBe(0.00001);
});

test('Polymarket rounds down to 0.00001 dollars', () => {
  checkProperty(
    [levels, fc.integer({ min: 0, max: 10_000 }), fc.integer({ min: 1, max: 4 })],
    1000,
    (all, rate, exponent) => {
      const fees = { schedule: 'polymarket', rate: rate / 10_000, exponent };
      const sum = all.reduce((s, [c, p]) => s + BigInt(c) * (BigInt(p) * BigInt(10_000 - p)) ** BigInt(exponent), 0n);
      // 1e-4 of the rate, 1e-2 of the contracts and 1e-8 of each pair of prices, in steps of 1e-5.
      const expected = (BigInt(rate) * sum) / 10n ** BigInt(4 + 2 + 8 * exponent - 5);
      expect(modelOf(fees).computeFee(toFill(all), 'sell')).toBe(Number(`${expected}e-5`));
    },
  );
});

test('divides the fee of an entry among the parts of a position', () => {
  const takeFee = modelOf({ schedule: 'kalshi' }).divideFee(fillOf([10, 0.5]));
  // 0.175, rounded up to 0.18.
  const shares = [takeFee(4), takeFee(5), takeFee(1)];
  expect(shares).toEqual([expect.closeTo(0.072, 12), expect.closeTo(0.09, 12), expect.closeTo(0.018, 12)]);
  expect(shares.reduce((sum, share) => sum + share)).toBeCloseTo(0.18, 15);
  const perContract = modelOf({ per_contract: 0.01 }).divideFee(fillOf([10, 0.5]));
  expect([perContract(4), perContract(6)]).toEqual([0.04, 0.06]);
  // A position that is sold at once has the exact fee.
  expect(modelOf({ schedule: 'kalshi' }).divideFee(fillOf([7, 0.31]))(7)).toBe(0.11);
});
