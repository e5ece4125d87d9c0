import { expect, test } from 'vitest';
import { sortBestFirst } from '../../src/report/backtest-figures.ts';

test('sorts the best points first, and those without a value last', () => {
  const values = [2, null, 3, 1, 2];
  const points = values.map((value, i) => ({
    parameters: { i },
    value,
    trades: 0,
    held_out_value: null,
    held_out_trades: 0,
  }));
  const order = (objective: 'total_pnl' | 'max_drawdown' | 'brier') =>
    sortBestFirst({ split_at: 0, best: 0, points }, objective).map(({ parameters }) => parameters.i);
  expect(order('total_pnl')).toEqual([2, 0, 4, 3, 1]);
  expect(order('max_drawdown')).toEqual([3, 0, 4, 2, 1]);
  expect(order('brier')).toEqual([3, 0, 4, 2, 1]);
});
