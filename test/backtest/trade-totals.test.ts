import { expect, test } from 'vitest';
import { simulate } from '../../src/backtest/engine/simulate.ts';
import {
  addTrades,
  computeEquity,
  computeSampleTimes,
  createTradeTotals,
  findDayEnds,
  mergeTradeTotals,
} from '../../src/backtest/engine/trade-totals.ts';
import type { Trade } from '../../src/contract/trade-fields.ts';
import { tradingStrategy } from '../contract/strategy-values.ts';
import { checkProperty } from '../harness/properties.ts';
import { span, symbol } from './arbitrary-series.ts';
import { at, day, hour, minute, priced, ruled, start, strategyOf } from './series.ts';

test('samples are the multiples of the step and the end', () => {
  const { stepMs, t } = computeSampleTimes({ from: at(0), to: at(3) });
  expect(stepMs).toBe(minute);
  expect([...t]).toEqual([at(1), at(2), at(3)]);
  expect([...computeSampleTimes({ from: at(0) - 1, to: at(2) + 1 }).t]).toEqual([at(0), at(1), at(2), at(2) + 1]);
  expect([...computeSampleTimes({ from: at(0), to: at(0) + 1 }).t]).toEqual([at(0) + 1]);
});

test('chooses the step for at most a thousand samples, or one per day', () => {
  const stepOf = (ms: number) => computeSampleTimes({ from: start, to: start + ms }).stepMs;
  expect([1000 * minute, 1001 * minute, 1001 * hour, 100 * day, 400 * day].map(stepOf)).toEqual([
    minute,
    5 * minute,
    6 * hour,
    6 * hour,
    day,
  ]);
  expect(computeSampleTimes({ from: start, to: start + 2000 * day }).t).toHaveLength(2000);
});

test('days end at UTC midnight, the last one with the window', () => {
  const samples = computeSampleTimes({ from: start + 20 * hour, to: start + 50 * hour });
  expect(findDayEnds(samples).map((k) => samples.t[k]! - start)).toEqual([day, 2 * day, 50 * hour]);
});

const tallied = (...[series, strategy, window]: Parameters<typeof simulate>) => {
  const samples = computeSampleTimes(window);
  const tally = createTradeTotals(samples);
  const trades = simulate(series, strategy, window);
  addTrades(tally, series, trades, samples);
  return { tally, trades, samples, equity: [...computeEquity(tally)] };
};

test('equity includes open positions at their last price', () => {
  // Bought at the tick of minute 1 for 0.2 and a fee of 0.01; sold at that of minute 4 for 0.6 less 0.01.
  const rule = {
    entry: { measure: 'price', below: 0.3 },
    exit: { measure: 'price', above: 0.5 },
    size: { contracts: 10 },
  };
  const strategy = ruled(rule, { fees: { per_contract: 0.01 } });
  const { equity, tally, trades } = tallied(priced([0.2, 0.2, 0.4, 0.7, 0.6, 0.9]), strategy, {
    from: at(0),
    to: at(6),
  });
  // Events at the time of a sample count from the next sample.
  const expected = [0, -0.1, 10 * 0.2 - 0.1, 10 * 0.5 - 0.1, 10 * 0.4 - 0.2, 10 * 0.4 - 0.2];
  for (const [k, value] of equity.entries()) expect(value, `at ${k}`).toBeCloseTo(expected[k]!, 12);
  expect(tally).toMatchObject({ trades: 1, wins: 1, contracts: 10, fees: 0.2, settled: 0, brier: 0 });
  expect(tally.pnl).toBe(trades[0]!.pnl);
});

test('equity of no rises as the price falls, and includes settlements at their time', () => {
  const series = priced([0.8, 0.8, 0.5, 0.5], { settlement: { at: at(4) + 1, outcome: 0 } });
  const { equity, tally } = tallied(series, ruled({ side: 'no' }), { from: at(0), to: at(6) });
  const expected = [0, 0, 0.3, 0.3, 0.8, 0.8];
  for (const [k, value] of equity.entries()) expect(value, `at ${k}`).toBeCloseTo(expected[k]!, 12);
  expect(tally).toMatchObject({ settled: 1 });
  expect(tally.brier).toBeCloseTo(0.8 ** 2, 12);
});

/** Direct computation from the trades. */
function directly(trades: readonly Trade[], { t, p }: { t: Float64Array; p: Float64Array }, moment: number): number {
  return trades.reduce((sum, trade) => {
    if (trade.filled_at >= moment) return sum;
    if (trade.exited_at < moment) return sum + trade.pnl;
    const last = Math.min(1, Math.max(0, p[t.findLastIndex((time) => time < moment)]!));
    const worth = trade.side === 'yes' ? last : 1 - last;
    return sum + trade.contracts * (worth - trade.entry_price) - trade.entry_fees;
  }, 0);
}

test('every sample is the sum of earlier trades', () => {
  checkProperty([symbol, tradingStrategy, span], 200, (series, json, window) => {
    const { equity, trades, samples, tally } = tallied(series, strategyOf(json), window);
    const sum = trades.reduce((total, { pnl }) => total + pnl, 0);
    const precise = 1e-9 * (1 + trades.reduce((total, { contracts }) => total + contracts, 0));
    expect(Math.abs(equity.at(-1)! - sum)).toBeLessThan(precise);
    expect(Math.abs(tally.pnl - sum)).toBeLessThan(precise);
    for (const [k, moment] of samples.t.entries()) {
      if (k % 7 !== 0) continue;
      expect(Math.abs(equity[k]! - directly(trades, series, moment)), `at ${k}`).toBeLessThan(precise);
    }
  });
});

test('merges totals', () => {
  const window = { from: at(0), to: at(5) };
  const [one, two] = [priced([0.1, 0.2, 0.3]), priced([0.9, 0.5, 0.4])].map((series) =>
    tallied(series, ruled({}), window),
  );
  const both = createTradeTotals(one!.samples);
  mergeTradeTotals(both, one!.tally);
  mergeTradeTotals(both, two!.tally);
  expect(both.trades).toBe(2);
  expect([...computeEquity(both)]).toEqual(one!.equity.map((value, k) => expect.closeTo(value + two!.equity[k]!, 12)));
});
