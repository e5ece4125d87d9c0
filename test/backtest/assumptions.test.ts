import { expect, test } from 'vitest';
import { simulate } from '../../src/backtest/engine/simulate.ts';
import {
  addTrades,
  computeSampleTimes,
  createTradeTotals,
  mergeTradeTotals,
} from '../../src/backtest/engine/trade-totals.ts';
import { bindGridPoints, InvalidBacktestError } from '../../src/backtest/resolve-strategy.ts';
import { describeAssumptions } from '../../src/backtest/result.ts';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { parseBacktestSpec } from '../../src/contract/backtest-request.ts';
import { at, priced, ruled } from './series.ts';

const noteOf = (rest: object, tickFills: number, bookFills: number, quoteFills = 0): string | null =>
  describeAssumptions(ruled({}, rest), { tickFills, bookFills, quoteFills }).note;

test('notes fills at tick prices without spread, and results without fees', () => {
  expect(noteOf({}, 5, 0)).toBe('Filled at tick prices, not bid and ask, without fees or spread.');
  expect(noteOf({ fees: { per_contract: 0.01 } }, 5, 0)).toBe(
    'Filled at tick prices, not bid and ask, without spread.',
  );
  expect(noteOf({ fees: { schedule: 'kalshi' } }, 1200, 1)).toBe(
    '1,200 of 1,201 fills at tick prices, not bid and ask, without spread.',
  );
  expect(noteOf({ slippage: 0.01 }, 5, 0)).toBe('Without fees.');
  expect(noteOf({}, 0, 5)).toBe('Without fees.');
  expect(noteOf({ fees: { of_variance: 0.07 }, slippage: 0.01 }, 5, 0)).toBe(null);
  expect(noteOf({ fees: { schedule: 'polymarket', rate: 0 } }, 0, 5)).toBe(null);
  // Quotes have the spread, like order books.
  expect(noteOf({}, 0, 0, 5)).toBe('Without fees.');
  expect(noteOf({ fees: { schedule: 'kalshi' } }, 0, 1, 5)).toBe(null);
  expect(noteOf({}, 2, 0, 5)).toBe('2 of 7 fills at tick prices, not bid and ask, without fees or spread.');
  expect(noteOf({ fees: { schedule: 'kalshi' } }, 2, 1, 5)).toBe(
    '2 of 8 fills at tick prices, not bid and ask, without spread.',
  );
  // Without trades, nothing rests on prices.
  expect(noteOf({}, 0, 0)).toBe(null);
});

test('states fees, slippage and contracts with bound parameters', () => {
  const parameters = { slip: 0.02 };
  const fees = { schedule: 'kalshi' };
  expect(
    describeAssumptions(ruled({}, { parameters, fees, slippage: { parameter: 'slip', times: 0.5 } }), {
      tickFills: 3,
      bookFills: 4,
      quoteFills: 5,
    }),
  ).toEqual({
    note: null,
    fees: 'kalshi',
    slippage: 0.01,
    whole_contracts: true,
    tick_fills: 3,
    book_fills: 4,
    quote_fills: 5,
  });
  const none = { parameters: { fee: 0 }, fees: { per_contract: { parameter: 'fee' } } };
  expect(describeAssumptions(ruled({}, none), { tickFills: 0, bookFills: 0, quoteFills: 0 })).toMatchObject({
    fees: 'none',
    whole_contracts: false,
  });
});

test('counts every fill once', () => {
  // Ten contracts are bought at a tick, and sold to two books and at a tick.
  const books = [2, 3].map((minutes) => ({ t: at(minutes), bids: [[0.5, 4] as const], asks: [] }));
  const series = priced(
    Array.from({ length: 12 }, () => 0.4),
    { books },
  );
  const strategy = ruled({ exit: { all: [] }, size: { contracts: 10 }, entries_max: 1 });
  const window = { from: at(0), to: at(100) };
  const samples = computeSampleTimes(window);
  const totals = createTradeTotals(samples);
  const trades = simulate(series, strategy, window);
  addTrades(totals, series, trades, samples);
  expect(trades.map(({ contracts, exit_fill }) => [contracts, exit_fill])).toEqual([
    [4, 'book'],
    [4, 'book'],
    [2, 'tick'],
  ]);
  expect(totals).toMatchObject({ tickFills: 2, bookFills: 2, quoteFills: 0 });
});

test('counts the fills at quotes, also in merged totals', () => {
  // Bought at the first quote, and sold to the second one in part and to the third one.
  const [all, some] = [Number.POSITIVE_INFINITY, 4];
  const quotes = [
    { t: at(1), bids: [], asks: [[0.5, all] as const] },
    { t: at(2), bids: [[0.4, some] as const], asks: [] },
    { t: at(3), bids: [[0.3, all] as const], asks: [] },
  ];
  const series = priced([0.4, 0.4, 0.4, 0.4], { quotes });
  const window = { from: at(0), to: at(100) };
  const samples = computeSampleTimes(window);
  const [totals, merged] = [createTradeTotals(samples), createTradeTotals(samples)];
  const strategy = ruled({ exit: { all: [] }, size: { contracts: 10 }, entries_max: 1 });
  addTrades(totals, series, simulate(series, strategy, window), samples);
  expect(totals).toMatchObject({ trades: 2, tickFills: 0, bookFills: 0, quoteFills: 3 });
  mergeTradeTotals(merged, totals);
  mergeTradeTotals(merged, totals);
  expect(merged.quoteFills).toBe(6);
});

const specOf = (rest: object) => {
  const read = parseBacktestSpec({ entry_executable: { name: 'threshold' }, objective: 'total_pnl', ...rest });
  if ('faults' in read) throw new InvalidBacktestError(read.faults);
  return read.spec;
};

test('a request replaces the fees and whole contracts of its strategy', () => {
  const { strategy } = builtinStrategies.find(({ name }) => name === 'threshold')!;
  const boundTo = (rest: object) => {
    const [bound] = bindGridPoints([{}], specOf(rest), { strategy, version: null });
    return [bound!.fees, bound!.whole_contracts];
  };
  expect(boundTo({})).toEqual([strategy.fees, null]);
  const kalshi = { schedule: 'kalshi', liquidity: 'maker', multiplier: 0.5, rounding: 'cent' };
  expect(boundTo({ fees: kalshi, whole_contracts: false })).toEqual([kalshi, false]);
  expect(boundTo({ fees: {} })[0]).toEqual({ per_contract: 0, of_notional: 0, of_variance: 0 });
  expect(() => specOf({ fees: { per_contract: { parameter: 'fee_per_contract' } } })).toThrow(
    'fees.per_contract.parameter fee_per_contract is not a parameter of the strategy',
  );
  // The parameter would have no effect.
  for (const field of [{ parameters: { fee_per_contract: 0.01 } }, { grid: { fee_per_contract: [0, 0.01] } }])
    expect(() => boundTo({ fees: kalshi, ...field })).toThrow('fee_per_contract has no effect');
  expect(boundTo({ fees: kalshi, parameters: { buy_below: 0.1 } })[0]).toEqual(kalshi);
});
