import { expect, test } from 'vitest';
import { findBest, objectives } from '../../src/backtest/engine/objectives.ts';
import { computeSampleTimes, createTradeTotals, type TradeTotals } from '../../src/backtest/engine/trade-totals.ts';
import type { ObjectiveName } from '../../src/contract/backtest-request.ts';
import { day, start } from './series.ts';

/** Totals of days with the given gains in their last hours. */
function run(days: readonly number[], rest: Partial<TradeTotals> = {}) {
  const samples = computeSampleTimes({ from: start, to: start + days.length * day });
  const tally = createTradeTotals(samples);
  for (const [d, gain] of days.entries())
    tally.gainedSamples[samples.t.findIndex((t) => t === start + (d + 1) * day)]! += gain;
  return { samples, tally: { ...tally, ...rest } };
}
const objectiveOf = (name: ObjectiveName, days: readonly number[], rest: Partial<TradeTotals> = {}): number | null => {
  const { samples, tally } = run(days, rest);
  return objectives[name].compute(tally, samples);
};

test('averages and shares are null without trades', () => {
  const some: Partial<TradeTotals> = { trades: 4, wins: 1, pnl: -2, settled: 2, brier: 0.5 };
  expect(objectiveOf('avg_pnl', [0], some)).toBe(-0.5);
  expect(objectiveOf('total_pnl', [0], some)).toBe(-2);
  expect(objectiveOf('win_rate', [0], some)).toBe(0.25);
  expect(objectiveOf('brier', [0], some)).toBe(0.25);
  expect(objectiveOf('total_pnl', [0])).toBe(0);
  for (const name of ['avg_pnl', 'win_rate', 'brier', 'sharpe', 'max_drawdown'] as const)
    expect(objectiveOf(name, [0, 0]), name).toBeNull();
  expect(objectiveOf('brier', [0], { trades: 4, wins: 1 })).toBeNull();
});

test('sharpe is the annualized mean of days divided by their deviation', () => {
  // Mean 2, deviation of the sample 1.
  expect(objectiveOf('sharpe', [1, 2, 3])).toBeCloseTo(2 * Math.sqrt(365), 9);
  expect(objectiveOf('sharpe', [-1, -2, -3])).toBeCloseTo(-2 * Math.sqrt(365), 9);
  expect(objectiveOf('sharpe', [3, 0, 3, 0])).toBeCloseTo((1.5 / Math.sqrt(3)) * Math.sqrt(365), 9);
});

test('sharpe is null for one day or equal days', () => {
  expect(objectiveOf('sharpe', [5])).toBeNull();
  expect(objectiveOf('sharpe', [0, 0, 0])).toBeNull();
  expect(
    objectiveOf(
      'sharpe',
      Array.from({ length: 50 }, () => 0.1),
    ),
  ).toBeNull();
  expect(objectiveOf('sharpe', [1e6, 1e6, 1e6 + 1e-9])).toBeNull();
  expect(objectiveOf('sharpe', [0.1, 0.1, 0.1001])).not.toBeNull();
});

test('drawdown is measured from the previous peak, which is at least 0', () => {
  const trades = { trades: 1 };
  expect(objectiveOf('max_drawdown', [3, -1, 2, -4, 5], trades)).toBe(4);
  expect(objectiveOf('max_drawdown', [-2, 1, 5], trades)).toBe(2);
  expect(objectiveOf('max_drawdown', [1, 2, 3], trades)).toBe(0);
  expect(objectiveOf('max_drawdown', [1, -5])).toBeNull();
});

test('finds the best value, the first of equal ones, ignoring nulls', () => {
  expect(findBest('avg_pnl', [1, null, 3, 3])).toBe(2);
  expect(findBest('max_drawdown', [null, 2, 1, 1])).toBe(2);
  expect(findBest('brier', [0.3, 0.2])).toBe(1);
  expect(findBest('sharpe', [null, null])).toBe(-1);
  expect(findBest('win_rate', [])).toBe(-1);
  expect(findBest('total_pnl', [-3, -2])).toBe(1);
});
